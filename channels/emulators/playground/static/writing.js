// What a person writes: text, files, an answer to a message, a new text for one, or a command from the menu.

import { button, call, make } from "./api.js";

export class Writing {
  // `where()` gives {person, place}; `said(message)` is called when something has gone out, with what was new.
  constructor({ form, path, can, where, said, report }) {
    Object.assign(this, { form, path, where, said, report });
    this.area = form.querySelector(".text");
    this.answering = null;
    this.changing = null;
    this.attachments = new Attachments(form.querySelector(".attached"), report);
    this.menu = new Menu({
      path,
      area: this.area,
      list: form.querySelector(".menu"),
      where,
      choose: (name, argument) => this.#invoke(name, argument).catch(report),
      write: (text) => this.#set(text),
    });
    this.#listen(can);
  }

  // Text for the person to send, or to change first.
  begin(text) {
    this.#set(text);
    this.area.focus();
  }

  reply(said) {
    this.stop();
    this.answering = said;
    this.#announce(`Replying to ${said.author.name}: ${said.text}`);
  }

  change(said) {
    this.stop();
    this.changing = said;
    this.#set(said.text);
    this.#announce("Editing your message");
  }

  // Neither an answer nor a change any more.
  stop() {
    if (this.changing) {
      this.#set("");
    }
    this.answering = this.changing = null;
    this.form.querySelector(".answering").hidden = true;
  }

  #listen(can) {
    const picker = this.form.querySelector(".picker");
    this.form.querySelector(".attach").addEventListener("click", () => picker.click());
    picker.addEventListener("change", () => this.#attach([...picker.files]).then(() => (picker.value = "")));
    this.area.addEventListener("paste", (pasted) => {
      if (pasted.clipboardData.files.length) {
        pasted.preventDefault();
        this.#attach([...pasted.clipboardData.files]);
      }
    });
    this.#takeDrops(this.form.closest(".pane"));
    this.form.querySelector(".answering button").addEventListener("click", () => {
      this.stop();
      this.area.focus();
    });
    this.form.addEventListener("submit", (submitted) => {
      submitted.preventDefault();
      this.#send().catch(this.report);
    });
    this.area.addEventListener("keydown", (pressed) => this.#key(pressed));
    this.area.addEventListener("input", () => {
      this.#fit();
      this.menu.typed(can.has("menu"));
    });
    this.area.addEventListener("blur", () => this.menu.close());
  }

  // Files may be dropped anywhere on the pane; text goes where the browser puts it.
  #takeDrops(pane) {
    const hasFiles = ({ dataTransfer }) => dataTransfer.types.includes("Files");
    const mark = (isOver) => (pane.dataset.over = isOver);
    pane.addEventListener("dragover", (over) => {
      if (hasFiles(over)) {
        over.preventDefault();
        mark(true);
      }
    });
    pane.addEventListener("dragleave", (left) => pane.contains(left.relatedTarget) || mark(false));
    pane.addEventListener("drop", (dropped) => {
      mark(false);
      if (hasFiles(dropped)) {
        dropped.preventDefault();
        this.#attach([...dropped.dataTransfer.files]);
      }
    });
  }

  #key(pressed) {
    if (pressed.isComposing) {
      return;
    }
    if (this.menu.key(pressed)) {
      pressed.preventDefault();
    } else if (pressed.key === "Enter" && !pressed.shiftKey) {
      pressed.preventDefault();
      this.form.requestSubmit();
    } else if (pressed.key === "Escape") {
      this.stop();
    }
  }

  async #attach(files) {
    this.report("");
    await this.attachments.add(files).catch(this.report);
    this.area.focus();
  }

  // One thing at a time: who presses Enter twice has not said it twice.
  async #send() {
    if (this.isSending) {
      return;
    }
    this.isSending = true;
    try {
      await this.#sendOne();
    } finally {
      this.isSending = false;
    }
  }

  async #sendOne() {
    const text = this.area.value;
    const { person, place } = this.where();
    const files = this.attachments.shared;
    if ((!text.trim() && !files.length) || !person || !place) {
      return;
    }
    const command = !this.changing && !files.length && this.menu.entry(text);
    if (command) {
      await this.#invoke(command.name, text.slice(command.name.length + 1).trim());
      return;
    }
    this.report("");
    if (this.changing) {
      await call("PATCH", `${this.path}/messages`, { place_id: place.id, message_id: this.changing.id, text });
      this.#sent(text);
      return;
    }
    const said = await call("POST", `${this.path}/say`, {
      person_id: person.id,
      place_id: place.id,
      text,
      mention_bot: this.form.querySelector(".mention").checked,
      reply_to: this.answering?.id,
      files,
    });
    this.attachments.clear();
    this.#sent(text, said);
  }

  async #invoke(name, argument) {
    const { person, place } = this.where();
    const written = this.area.value;
    this.report("");
    this.#sent(written);
    try {
      await call("POST", `${this.path}/invoke`, { person_id: person.id, place_id: place.id, name, argument });
    } catch (problem) {
      this.#set(this.area.value || written);
      throw problem;
    }
  }

  // What was written since then stays.
  #sent(text, said) {
    const since = this.area.value.startsWith(text) ? this.area.value.slice(text.length) : this.area.value;
    this.menu.close();
    this.stop();
    this.#set(since);
    this.said(said);
  }

  #set(text) {
    this.area.value = text;
    this.#fit();
  }

  #fit() {
    this.area.style.height = "auto";
    this.area.style.height = `${this.area.scrollHeight + 2}px`;
  }

  #announce(text) {
    this.form.querySelector(".answering").hidden = false;
    this.form.querySelector(".answering span").textContent = text;
    this.area.focus();
  }
}

const BYTES_MAX = 45 * 1024 * 1024; // of one message: in base64 it must fit into what the playground takes

// What is attached to the message being written.
class Attachments {
  constructor(list, report) {
    this.list = list;
    this.report = report;
    this.files = [];
  }

  async add(files) {
    for (const file of files) {
      if (this.files.reduce((sum, { size }) => sum + size, file.size) > BYTES_MAX) {
        this.report(new Error(`${file.name} does not fit: one message takes ${BYTES_MAX / 1024 / 1024} MiB of files.`));
      } else {
        const { name, size } = file;
        this.files.push({ name: name || "pasted", size, media_type: typeOf(file), url: await dataUrl(file) });
      }
    }
    this.#draw();
  }

  clear() {
    this.files = [];
    this.#draw();
  }

  get shared() {
    return this.files.map(({ name, media_type, url }) => ({ name, media_type, base64: url.slice(url.indexOf(",") + 1) }));
  }

  #draw() {
    this.list.hidden = !this.files.length;
    this.list.replaceChildren(...this.files.map((file, number) => this.#entry(file, number)));
  }

  #entry(file, number) {
    const picture = file.media_type.startsWith("image/") ? [make("img", { src: file.url, alt: "" })] : [];
    const remove = button({ className: "quiet", textContent: "×", ariaLabel: `Do not send ${file.name}` }, () => {
      this.files.splice(number, 1);
      this.#draw();
      (this.list.querySelector("button") ?? this.list.closest("form").querySelector("textarea")).focus();
    });
    return make("li", {}, ...picture, make("span", { textContent: file.name }), remove);
  }
}

// A voice note is what every platform calls it: Opus in Ogg.
function typeOf(file) {
  return /\.(og[ga]|opus)$/i.test(file.name) ? "audio/ogg" : file.type || "application/octet-stream";
}

function dataUrl(file) {
  return new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve(reader.result);
    reader.onerror = () => reject(new Error(`${file.name} cannot be read.`));
    reader.readAsDataURL(file);
  });
}

// --- the platform's own menu of commands: it opens at "/", is moved through with the arrow keys, and asks the bot for
// suggestions where the platform does; at "@" it offers who can be called

const ASK_AFTER_MS = 150;
const begins = (name, typed) => name.toLowerCase().startsWith(typed.toLowerCase());

class Menu {
  // `where()` gives {person, place}; `choose(name, argument)` runs a command; `write(text)` puts text into the area.
  constructor({ path, area, list, where, choose, write }) {
    Object.assign(this, { path, area, list, where, choose, write });
    this.entries = [];
    this.offers = [];
    this.at = 0;
    this.turn = 0; // which asking is the newest; older answers are not shown
    area.setAttribute("aria-controls", list.id);
    list.addEventListener("pointerdown", (pressed) => pressed.preventDefault()); // the area keeps the focus
    list.addEventListener("click", (clicked) => {
      const option = clicked.target.closest("[role=option]");
      if (option) {
        this.at = [...list.children].indexOf(option);
        this.take();
      }
    });
  }

  get isOpen() {
    return !this.list.hidden;
  }

  async typed(hasCommands = true) {
    const { value } = this.area;
    this.turn += 1;
    const called = /(?:^|\s)@([\w.-]*)$/.exec(value.slice(0, this.area.selectionStart));
    if (called) {
      const isMeant = ({ handle, name }) => begins(handle, called[1]) || begins(name, called[1]);
      const found = this.where().people.filter((each) => isMeant(each) && each.handle.toLowerCase() !== called[1].toLowerCase());
      this.#offer(this.turn, found.map((each) => ({ called: called[1], handle: each.handle, label: `@${each.handle}`, about: each.name })));
      return;
    }
    if (!hasCommands || !/^\/\S*( [^\n]*)?$/.test(value)) {
      this.close();
      return;
    }
    const turn = this.turn;
    const { person, place } = this.where();
    if (!person || !place) {
      return;
    }
    const asked = { person: person.id, place: place.id };
    const space = value.indexOf(" ");
    if (space < 0 || !this.entries.length) {
      this.entries = (await call("GET", `${this.path}/menu?${new URLSearchParams(asked)}`).catch(() => ({ menu: [] }))).menu;
    }
    if (space < 0) {
      const begun = value.slice(1).toLowerCase();
      const found = this.entries.filter((entry) => entry.name.toLowerCase().startsWith(begun));
      this.#offer(turn, found.map((entry) => ({ entry, label: `/${entry.name}`, about: entry.about, hint: entry.argument })));
      return;
    }
    const entry = this.entry(value);
    if (!entry?.suggests) {
      this.close();
      return;
    }
    await new Promise((resolve) => setTimeout(resolve, ASK_AFTER_MS));
    if (turn !== this.turn) {
      return; // typed on: only the last word is asked about
    }
    const query = new URLSearchParams({ ...asked, name: entry.name, typed: value.slice(space + 1) });
    const { suggestions } = await call("GET", `${this.path}/suggest?${query}`).catch(() => ({ suggestions: [] }));
    this.#offer(turn, suggestions.map((text) => ({ entry, text, label: text, about: "" })));
  }

  // What is offered may be in another language now.
  forget() {
    this.entries = [];
  }

  // The command that a text names, if the platform offers it.
  entry(value) {
    const name = /^\/(\S+)/.exec(value)?.[1];
    return this.entries.find((entry) => entry.name === name);
  }

  // True when the key was the menu's.
  key(pressed) {
    if (!this.isOpen) {
      return false;
    }
    if (pressed.key === "ArrowDown" || pressed.key === "ArrowUp") {
      const count = this.offers.length;
      this.at = pressed.key === "ArrowDown" ? (this.at + 1) % count : (this.at > 0 ? this.at : count) - 1;
      this.#mark();
    } else if (pressed.key === "Escape") {
      this.close();
    } else if (this.at >= 0 && (pressed.key === "Enter" || (pressed.key === "Tab" && !pressed.shiftKey))) {
      this.take();
    } else {
      return false;
    }
    return true;
  }

  take() {
    const { entry, text, called, handle } = this.offers[this.at];
    this.close();
    if (handle) {
      const at = this.area.selectionStart;
      const before = this.area.value.slice(0, at - called.length);
      this.write(`${before}${handle} ${this.area.value.slice(at)}`);
      this.area.selectionStart = this.area.selectionEnd = before.length + handle.length + 1;
    } else if (text !== undefined) {
      this.choose(entry.name, text);
    } else if (entry.argument) {
      this.write(`/${entry.name} `);
      this.typed();
    } else {
      this.choose(entry.name, "");
    }
  }

  // An answer that is still on its way opens it no more.
  close() {
    this.turn += 1;
    this.#hide();
  }

  #hide() {
    this.list.hidden = true;
    this.area.removeAttribute("aria-activedescendant");
  }

  #offer(turn, offers) {
    if (turn !== this.turn) {
      return;
    }
    this.offers = offers;
    this.at = offers[0]?.text === undefined ? 0 : -1; // a suggestion counts when it is chosen, else what was typed
    if (!offers.length) {
      this.#hide();
      return;
    }
    this.list.replaceChildren(...offers.map((offer, number) => this.#option(offer, number)));
    this.list.hidden = false;
    this.#mark();
  }

  #option({ label, about, hint }, number) {
    const option = make("li", { id: `${this.list.id}-${number}`, role: "option" });
    const add = (tag, text) => text && option.append(make(tag, { textContent: text }), " ");
    add("b", label);
    add("code", hint);
    add("span", about);
    return option;
  }

  #mark() {
    for (const [number, option] of [...this.list.children].entries()) {
      option.setAttribute("aria-selected", String(number === this.at));
    }
    const marked = this.list.children[this.at];
    if (marked) {
      this.area.setAttribute("aria-activedescendant", marked.id);
      marked.scrollIntoView({ block: "nearest" });
    } else {
      this.area.removeAttribute("aria-activedescendant");
    }
  }
}
