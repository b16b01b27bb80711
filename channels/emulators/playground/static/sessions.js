// What the bot keeps of the conversations: session key, title, status, number of messages.

import { call } from "./api.js";

const POLL_MS = 2000;
const SOON_MS = 400;

export class Sessions {
  constructor() {
    this.element = document.getElementById("sessions").content.firstElementChild.cloneNode(true);
    this.element.id = "pane-sessions";
    this.element.setAttribute("aria-label", "Sessions");
    this.chosen = new Set();
    this.rows = [];
    this.refresh();
    setInterval(() => document.hidden || this.refresh(), POLL_MS);
  }

  // The conversations that the chat panes show now; their sessions are marked.
  mark(panes) {
    const shown = [...panes].filter(({ person, place }) => person && place);
    this.chosen = new Set(shown.map(({ platform, person, place }) => conversation(`${platform}:${person.id}`, place)));
    this.#draw();
  }

  soon() {
    clearTimeout(this.waiting);
    this.waiting = setTimeout(() => this.refresh(), SOON_MS);
  }

  async refresh() {
    const given = await call("GET", "/sessions").catch((problem) => ({ sessions: [], problem: problem.message }));
    this.rows = given.sessions;
    this.problem = given.problem;
    this.board = given.board;
    this.#draw();
  }

  #draw() {
    const note = this.element.querySelector(".note");
    note.textContent = this.problem || (this.rows.length ? "" : "None yet. Write something.");
    note.hidden = !note.textContent;
    this.element.querySelector(".count").textContent = this.rows.length || "";
    const board = this.element.querySelector(".board");
    board.hidden = !this.board;
    board.href = this.board || "";
    const drawn = JSON.stringify([this.rows, [...this.chosen]]);
    if (drawn !== this.drawn) {
      this.drawn = drawn;
      this.element.querySelector(".list").replaceChildren(...nested(this.rows).map((row) => this.#item(row)));
    }
  }

  #item(row) {
    const item = document.createElement("li");
    const add = (tag, name, text) => item.append(Object.assign(document.createElement(tag), { className: name, textContent: text }));
    item.dataset.chosen = row.status !== "closed" && this.chosen.has(innermost(row.key));
    item.dataset.nested = Boolean(row.parent_session_id);
    add("p", "title", row.title || "no title yet");
    item.firstElementChild.dataset.empty = !row.title;
    add("code", "key", row.parent_session_id ? row.channel : row.key);
    add("p", "facts", [row.status, count(row.message_count)].filter(Boolean).join(" · "));
    return item;
  }
}

// A key names the person, then the place from the outside in; an address is the vendor's ids. Both end with the innermost.
function conversation(person, { kind, address }) {
  return kind === "dm" ? person : `${person} ${address.split(/[/ ]/).at(-1)}`;
}

function innermost(key) {
  const [person, ...place] = key.split("/");
  return [person, ...place.slice(-1)].join(" ");
}

// Sub-agents' sessions stand below the one that they work for, however deep, the first one first.
function nested(rows) {
  const known = new Set(rows.map((row) => row.id));
  const byAge = rows.toSorted((one, other) => (one.id < other.id ? -1 : 1));
  const below = (row) => [row, ...byAge.filter((each) => each.parent_session_id === row.id).flatMap(below)];
  return rows.filter((row) => !known.has(row.parent_session_id)).flatMap(below);
}

function count(messages) {
  return Number.isInteger(messages) ? `${messages} message${messages === 1 ? "" : "s"}` : "";
}
