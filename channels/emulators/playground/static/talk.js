// The messages of one place: drawn once, then brought up to date as they come, change, grow and go.

import { make } from "./api.js";
import { safe } from "./safe.js";

const NEAR_END_PX = 80;
const DRAFT_MS = 30_000; // how long a platform shows a draft that nothing follows
const GROWING_MS = 4000; // an edit this soon after another is a stream: the slowest platform allows one in 3.5 s
const SETTLED_MS = 2000; // read out when nothing has changed for so long: a stream begins with quick edits
const READ_OUT_CHARS = 300;

export class Talk {
  // `around(said)` is what `render` needs beside the message; `act(name, said, button_id)` is called for every press.
  constructor(list, news, around, act) {
    Object.assign(this, { list, news, around });
    this.messages = new Map();
    this.timers = new Map();
    this.isAtEnd = true;
    list.addEventListener("scroll", () => (this.isAtEnd = this.#endIsNear()));
    list.addEventListener("load", () => this.isAtEnd && this.toEnd(), true); // a picture has got its height
    new ResizeObserver(() => this.isAtEnd && this.toEnd()).observe(list);
    list.addEventListener("focusin", ({ target }) => {
      if (this.isAtEnd && list.lastElementChild?.contains(target)) {
        this.toEnd(); // on a phone its buttons appear below it
      }
    });
    list.addEventListener("keydown", (pressed) => this.#walk(pressed));
    list.addEventListener("click", (clicked) => {
      const button = clicked.target.closest("button[data-act], .buttons button");
      const id = button?.closest("li[data-id]").dataset.id;
      const said = this.messages.get(id) ?? (this.drafted?.id === id ? this.drafted : undefined);
      if (said) {
        act(button.dataset.act ?? "press", said, button.dataset.id);
      }
    });
  }

  draw(messages) {
    this.timers.forEach(clearTimeout);
    this.timers.clear();
    this.messages = new Map(messages.map((each) => [each.id, each]));
    this.list.replaceChildren(...messages.map((said) => render(said, this.around(said))));
    this.toEnd();
  }

  // A message is new, or is not what it was.
  keep(said) {
    const old = this.#item(said.id);
    this.messages.set(said.id, said);
    this.#steady(() => {
      if (old) {
        patch(old, render(said, this.around(said)));
        this.#grow(old, said);
      } else {
        this.#arrive(said);
      }
    });
    this.#later(`news ${said.id}`, old ? GROWING_MS : SETTLED_MS, () => this.#readOut(this.messages.get(said.id)));
  }

  // What the bot is about to say. It fades by itself, or becomes the message.
  draft(said) {
    const old = this.#item(said.id);
    this.drafted = said;
    this.#steady(() => {
      if (old) {
        patch(old, render(said, this.around(said)));
      } else {
        this.#drafts().forEach((each) => each.remove());
        const item = render(said, this.around(said));
        item.dataset.draft = true;
        item.querySelector(".acts").remove();
        this.list.append(item);
      }
    });
    this.#later("draft", DRAFT_MS, () => this.#item(said.id)?.remove());
  }

  remove(id) {
    this.messages.delete(id);
    this.#item(id)?.remove();
  }

  toEnd() {
    this.list.scrollTop = this.list.scrollHeight;
    this.isAtEnd = true;
  }

  // The arrow keys go from message to message: only the buttons of the one with the focus are on the way of Tab.
  #walk(pressed) {
    const step = { ArrowUp: -1, ArrowDown: 1 }[pressed.key];
    if (!step || !pressed.target.matches("ol, li, button")) {
      return;
    }
    const items = [...this.list.children];
    const at = items.indexOf(pressed.target.closest("li[data-id]"));
    items.at(at < 0 ? Math.min(step, 0) : Math.max(at + step, 0))?.focus();
    pressed.preventDefault();
  }

  #arrive(said) {
    const item = render(said, this.around(said));
    const [draft] = said.author.is_bot ? this.#drafts() : [];
    if (draft) {
      item.dataset.settled = true;
      draft.remove();
    }
    this.list.append(item);
  }

  #grow(item, said) {
    if (said.author.is_bot) {
      item.dataset.growing = this.timers.has(`growing ${said.id}`);
      this.#later(`growing ${said.id}`, GROWING_MS, () => delete item.dataset.growing);
    }
  }

  #readOut(said) {
    if (said && !this.around(said).isMine) {
      this.news.textContent = `${said.author.name}: ${said.text.slice(0, READ_OUT_CHARS)}`;
    }
  }

  // Who reads further up is not moved; who is at the end stays there.
  #steady(change) {
    const wasAtEnd = this.#endIsNear();
    change();
    if (wasAtEnd) {
      this.toEnd();
    }
  }

  #later(name, ms, act) {
    clearTimeout(this.timers.get(name));
    this.timers.set(name, setTimeout(() => this.timers.delete(name) && act(), ms));
  }

  #item(id) {
    return this.list.querySelector(`:scope > li[data-id="${CSS.escape(id)}"]`);
  }

  #drafts() {
    return [...this.list.querySelectorAll(":scope > li[data-draft]")];
  }

  #endIsNear() {
    return this.list.scrollHeight - this.list.scrollTop - this.list.clientHeight < NEAR_END_PX;
  }
}

// --- one message as a list item, and the same item brought up to date without building it anew

const HUES = 360;
const FAR_APART = 137; // neighbouring ids get hues that cannot be mistaken for each other
const PARTS = [".who", ".above", ".quoted", ".text", ".files", ".buttons", ".private", ".below"];

function hueOf(id) {
  let sum = 7;
  for (const character of id) {
    sum = (sum * 31 + character.charCodeAt(0)) % HUES;
  }
  return (sum * FAR_APART) % HUES;
}

function initialsOf(name) {
  return name.split(/\s+/).slice(0, 2).map((word) => [...word][0] ?? "").join("").toUpperCase();
}

// `around` is what the message itself does not know: isMine, quoted, thread, can, fileUrl(said, number).
function render(said, around) {
  const item = document.getElementById("message").content.firstElementChild.cloneNode(true);
  const part = (selector) => item.querySelector(selector);
  item.dataset.id = said.id;
  item.dataset.mine = around.isMine;
  item.dataset.bot = said.author.is_bot;
  part(".face").textContent = initialsOf(said.author.name);
  part(".face").style.setProperty("--hue", hueOf(said.author.id));
  part(".who b").textContent = said.author.name;
  part(".badge").hidden = !said.author.is_bot;
  const at = new Date(said.at_ms);
  part("time").dateTime = at.toISOString();
  part("time").textContent = at.toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" });
  part(".edited").hidden = !said.edited;
  part(".text").append(safe(said.html));
  part(".above").hidden = !said.above;
  part(".above").textContent = said.above;
  if (said.reply_to) {
    const { quoted } = around;
    part(".quoted").hidden = false;
    part(".quoted").textContent = quoted ? `${quoted.author.name}: ${quoted.text}` : "a message that is gone";
  }
  part(".files").hidden = !said.files.length;
  part(".files").append(...said.files.map((name, number) => shownFile(name, around.fileUrl(said, number))));
  part(".private").hidden = !said.only_for;
  part(".buttons").hidden = !said.buttons.length;
  for (const { id, label } of said.buttons) {
    const choice = make("button", { type: "button", textContent: label });
    choice.dataset.id = id;
    part(".buttons").append(choice);
  }
  part(".below").hidden = !around.thread;
  part(".below").textContent = around.thread ? `Open the thread: ${around.thread.title}` : "";
  part(".change").hidden = part(".remove").hidden = !around.isMine;
  part(".trace").hidden = part(".seen").hidden = !around.isMine || !said.address;
  part(".branch").hidden = !around.can.has("thread");
  for (const act of item.querySelectorAll(".acts button")) {
    act.setAttribute("aria-label", `${act.textContent} (${said.author.name}, ${part("time").textContent})`);
  }
  return item;
}

// Only what differs is replaced, so that nothing flickers and an opened file or a selection elsewhere stays.
function patch(item, newer) {
  const hadFocus = item.contains(document.activeElement);
  for (const selector of PARTS) {
    const [old, now] = [item.querySelector(selector), newer.querySelector(selector)];
    if (old.outerHTML !== now.outerHTML) {
      old.replaceWith(now);
    }
  }
  if (hadFocus && !item.contains(document.activeElement)) {
    item.focus(); // a button that had the focus is gone: its message takes it
  }
}

// --- the files a message carries

const IMAGE = /\.(png|jpe?g|gif|webp|avif|bmp)$/i;
const SOUND = /\.(og[ga]|opus|mp3|m4a|wav|flac)$/i;
const TEXT = /\.(txt|md|csv|tsv|json|ya?ml|toml|log|py|js|ts|html?|css|xml|sh|sql|rs|go|diff|patch)$/i;
const PREVIEW_CHARS = 4000;

function shownFile(name, url) {
  const entry = make("li");
  const link = make("a", { textContent: name, href: url, download: name });
  if (IMAGE.test(name)) {
    const picture = make("img", { src: url, alt: name, loading: "lazy" });
    entry.append(make("a", { href: url, download: name, className: "picture" }, picture));
  } else if (SOUND.test(name)) {
    entry.append(make("audio", { src: url, controls: true, preload: "none", ariaLabel: name }));
  }
  entry.append(link);
  if (TEXT.test(name)) {
    entry.append(preview(name, url));
  }
  return entry;
}

function preview(name, url) {
  const text = make("pre", { tabIndex: 0, ariaLabel: `Beginning of ${name}` });
  const details = make("details", { className: "preview" }, make("summary", { textContent: "Preview" }), text);
  details.addEventListener("toggle", async () => {
    if (details.open && !text.textContent) {
      const whole = await fetch(url).then((answer) => answer.text()).catch(() => "The file cannot be read.");
      text.textContent = whole.length > PREVIEW_CHARS ? `${whole.slice(0, PREVIEW_CHARS)}\n…` : whole;
    }
  });
  return details;
}
