// What a person writes: text, files, an answer to a message, a new text for one, or a command from the menu.

import { call } from "./api.js";
import { Attachments } from "./files.js";
import { Menu } from "./menu.js";

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
      if (can.has("menu")) {
        this.menu.typed();
      }
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
