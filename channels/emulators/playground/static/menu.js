// The platform's own menu of commands: it opens at "/", is moved through with the arrow keys, and asks the bot for
// suggestions where the platform does.

import { call } from "./api.js";

const ASK_AFTER_MS = 150;

export class Menu {
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

  async typed() {
    const { value } = this.area;
    this.turn += 1;
    if (!/^\/\S*( [^\n]*)?$/.test(value)) {
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
    const { entry, text } = this.offers[this.at];
    this.close();
    if (text !== undefined) {
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
    const option = document.createElement("li");
    option.id = `${this.list.id}-${number}`;
    option.role = "option";
    const add = (tag, text) => text && option.append(Object.assign(document.createElement(tag), { textContent: text }), " ");
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
