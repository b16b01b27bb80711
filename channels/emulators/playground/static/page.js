// The whole page: a pane per platform, one for the sessions, and on a phone one of them at a time.

import { call, make, watch } from "./api.js";
import { Pane } from "./pane.js";

// What the bot keeps of the conversations: session key, title, status, number of messages.

const POLL_MS = 2000;
const SOON_MS = 400;

class Sessions {
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
    const add = (tag, name, text) => item.append(make(tag, { className: name, textContent: text }));
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

const { platforms, can, tries } = await call("GET", "/stage");
const sessions = new Sessions();
const chosen = () => sessions.mark(panes.values());
const panes = new Map(platforms.map((platform) => [platform, new Pane(platform, new Set(can[platform]), tries, chosen, tell)]));
const link = document.querySelector(".link");

function showLink(state, text) {
  link.dataset.state = state;
  link.textContent = text;
}

// Something was said where nobody looks: only where one pane is shown at a time.
function tell({ element }) {
  if (!element.checkVisibility()) {
    document.querySelector(`.tabs [data-pane="${element.id}"]`).dataset.news = true;
  }
}

function choose(id) {
  for (const tab of document.querySelectorAll(".tabs button")) {
    if (tab.dataset.pane === id) {
      delete tab.dataset.news;
    }
    tab.setAttribute("aria-pressed", String(tab.dataset.pane === id));
  }
  for (const pane of document.querySelectorAll(".pane")) {
    pane.dataset.chosen = pane.id === id;
  }
}

for (const { element } of [...panes.values(), sessions]) {
  document.getElementById("panes").append(element);
  const tab = make("button", {
    type: "button",
    textContent: element.getAttribute("aria-label"),
  });
  tab.dataset.pane = element.id;
  tab.addEventListener("click", () => choose(element.id));
  document.querySelector(".tabs").append(tab);
}
choose(`pane-${platforms[0]}`);

watch(
  (event) => {
    panes.get(event.platform)?.see(event);
    sessions.soon();
  },
  () => {
    const refreshed = [...panes.values()].map((pane) => {
      pane.report("");
      return pane.refresh().catch(pane.report);
    });
    Promise.all(refreshed).then(() => showLink("live", "live"));
  },
  () => showLink("lost", "connection lost"),
);
