// The messages of one place: drawn once, then brought up to date as they come, change, grow and go.

import { patch, render } from "./message.js";

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

  // What stands around the messages has changed, as the thread below one.
  refresh() {
    for (const said of this.messages.values()) {
      patch(this.#item(said.id), render(said, this.around(said)));
    }
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
      draft.replaceWith(item);
      this.list.append(item);
    } else {
      this.list.append(item);
    }
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
