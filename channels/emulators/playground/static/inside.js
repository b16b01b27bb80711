// What the bot keeps and does: its sessions, what became of a message, what the model saw of it, queue and deliveries.
// All of it comes from the operator's API, whose token stays with this page's server.

import { button, call, keyOf, make } from "./api.js";

const POLL_MS = 2000;
const SOON_MS = 400;
const TRACE_MS = 300;
const TRACE_FOR_MS = 120_000;
const LATEST = "9007199254740992";
const DELIVERIES = 8;
const SEARCHED = 5; // of a person's sessions, the newest first, for one message
const OVER = new Set(["receipt", "dead letter", "given up"]);
const PASSING = new Set(["in work", "waits in its lane"]); // what they say of others changes meanwhile
const PLACEHOLDER = /\[redacted:[^\]\s]*\]/g;
const SPEAKERS = { user: "person", assistant: "model", tool: "tool", gateway: "Trivet" };

export function fromAdmin(path, query) {
  const names = path.split("/").map(encodeURIComponent).join("/");
  return call("GET", `/admin/${names}${query ? `?${new URLSearchParams(query)}` : ""}`);
}

export class Inside {
  constructor(board) {
    this.element = document.getElementById("sessions").content.firstElementChild.cloneNode(true);
    this.element.id = "pane-sessions";
    this.element.setAttribute("aria-label", "Sessions");
    this.part(".board").hidden = !board;
    this.part(".board").href = board;
    this.part(".view .back").addEventListener("click", () => this.#close());
    this.part(".flow").addEventListener("toggle", () => this.refresh());
    this.chosen = new Set();
    this.rows = [];
    this.opened = new Set();
    this.refresh();
    setInterval(() => document.hidden || this.refresh(), POLL_MS);
  }

  part(selector) {
    return this.element.querySelector(selector);
  }

  // The conversations that the chat panes show now; their sessions are marked.
  mark(panes) {
    const shown = [...panes].filter(({ person, place }) => person && place);
    this.chosen = new Set(shown.map(({ platform, person, place }) => conversation(keyOf(platform, person.id), place)));
    this.#draw();
  }

  soon() {
    clearTimeout(this.waiting);
    this.waiting = setTimeout(() => this.refresh(), SOON_MS);
  }

  async refresh() {
    try {
      this.rows = await fromAdmin("sessions", { limit: 100 });
      this.problem = "";
    } catch (problem) {
      this.problem = problem.message;
    }
    this.#draw();
    await Promise.all([this.#drawFlow(), this.again?.()]).catch(() => {});
  }

  // --- the list of sessions

  #draw() {
    const note = this.part(".note");
    note.textContent = this.problem || (this.rows.length ? "" : "None yet. Write something.");
    note.hidden = !note.textContent;
    this.part(".count").textContent = this.rows.length || "";
    const now = Date.now();
    const drawn = JSON.stringify([this.rows, [...this.chosen], Math.floor(now / 60_000)]);
    if (drawn !== this.drawn) {
      this.drawn = drawn;
      const known = new Set(this.rows.map((row) => row.id));
      const own = this.rows.filter((row) => !known.has(row.parent_session_id));
      this.part(".list").replaceChildren(...own.map((row) => this.#item(row, now)));
    }
  }

  // Sub-agents' sessions are folded below the one that they work for, the first one first.
  #item(row, now) {
    const open = button({ className: "quiet title", textContent: row.title || "no title yet" }, () => this.showSession(row));
    open.dataset.empty = !row.title;
    const who = row.parent_session_id ? row.channel : [row.name, row.key].filter(Boolean).join(" · ");
    const facts = [row.status, count(row.message_count, "message"), row.updated_at && ago(row.updated_at, now)];
    const item = make(
      "li", {}, open,
      make("code", { className: "key", textContent: who }),
      make("p", { className: "facts", textContent: facts.filter(Boolean).join(" · ") }),
    );
    item.dataset.chosen = row.status !== "closed" && this.chosen.has(innermost(row.key));
    item.dataset.nested = Boolean(row.parent_session_id);
    const below = this.rows.filter((each) => each.parent_session_id === row.id);
    if (below.length) {
      below.sort((one, other) => (one.id < other.id ? -1 : 1));
      const list = make("ul", {}, ...below.map((each) => this.#item(each, now)));
      const summary = make("summary", { textContent: count(below.length, "sub-agent") });
      const fold = make("details", { open: this.opened.has(row.id) }, summary, list);
      fold.addEventListener("toggle", () => this.opened[fold.open ? "add" : "delete"](row.id));
      item.append(fold);
    }
    return item;
  }

  // --- one thing, in the place of the list

  // `again` draws it once more whenever something may have changed.
  #show(title, ...content) {
    this.part(".view h3").textContent = title;
    this.part(".view .shown").replaceChildren(...content);
    this.part(".view").hidden = false;
    this.element.dataset.view = true;
    this.again = undefined;
    this.shown = Symbol(title);
    this.onShow?.();
    return this.shown;
  }

  #close() {
    this.part(".view").hidden = true;
    delete this.element.dataset.view;
    this.again = this.shown = undefined;
    this.part(".list button")?.focus();
  }

  async showSession(row) {
    const list = make("ol", { className: "transcript" });
    const shown = this.#show(row.title || row.key, list);
    this.part(".view .back").focus();
    this.again = async () => {
      const entries = await fromAdmin(`sessions/${row.id}/messages`, { before_seq: LATEST, limit: 100 });
      const drawn = JSON.stringify(entries);
      if (this.shown === shown && drawn !== list.dataset.drawn) {
        list.dataset.drawn = drawn;
        list.replaceChildren(...entries.map(entry));
        list.lastElementChild?.scrollIntoView({ block: "end" });
      }
    };
    await this.again().catch((problem) => list.append(make("li", { textContent: problem.message })));
  }

  // What a person wrote, and what is left of it behind the first process that it entered.
  async showSeen(platform, said) {
    const wrote = side("What was written", marked(said.text, []));
    const sides = make("div", { className: "sides" }, wrote, side("What the model saw", make("p", { textContent: "not yet" })));
    const shown = this.#show("Written and seen", sides);
    const id = `${platform}:${said.address}`;
    this.again = async () => {
      const seen = await this.#seen(keyOf(platform, said.author.id), id);
      if (this.shown === shown && seen !== undefined) {
        this.again = undefined;
        sides.replaceChildren(
          side("What was written", marked(said.text, gone(said.text, seen))),
          side("What the model saw", marked(seen, seen.match(PLACEHOLDER) ?? [])),
        );
      }
    };
    await this.again().catch(() => {});
  }

  async #seen(person, id) {
    for (const { id: session } of await fromAdmin("sessions", { person, sub_agents: false, limit: SEARCHED })) {
      const entries = await fromAdmin(`sessions/${session}/messages`, { before_seq: LATEST, limit: 100 });
      const found = entries.find((each) => each.message_id === id);
      if (found) {
        return found.text;
      }
    }
    return undefined;
  }

  // Every hop of a message, drawn as it becomes known; what was broken meanwhile stands among them.
  showTrace(platform, said) {
    const list = make("ol", { className: "hops" });
    const verdict = make("p", { className: "verdict", role: "status" });
    const shown = this.#show(said.text, verdict, list);
    const hops = new Map();
    const trace = { hops, add: (hop) => hops.set(hopId(hop), hop), isShown: () => this.shown === shown };
    trace.add({ at: new Date(said.at_ms).toISOString(), name: "written", detail: `on ${platform}` });
    trace.has = (name) => [...hops.values()].some((hop) => hop.name === name);
    trace.over = this.#follow(trace, `${platform}:${said.address}`, list, verdict);
    return trace;
  }

  async #follow(trace, id, list, verdict) {
    const end = Date.now() + TRACE_FOR_MS;
    while (Date.now() < end && trace.isShown()) {
      const known = await fromAdmin(`trace/${id}`).catch(() => []);
      known.forEach(trace.add);
      const hops = [...trace.hops.values()].sort((one, other) => new Date(one.at ?? 0) - new Date(other.at ?? 0));
      list.replaceChildren(...hops.map((hop) => drawn(hop, hops[0])));
      verdict.textContent = hops.length > 1 ? "" : "Nothing is known of it yet.";
      if (known.some((hop) => OVER.has(hop.name))) {
        verdict.textContent = judged(hops);
        verdict.dataset.over = true;
        return;
      }
      await new Promise((resolve) => setTimeout(resolve, TRACE_MS));
    }
  }

  // --- queue and deliveries

  async #drawFlow() {
    const flow = this.part(".flow");
    const now = await fromAdmin("queue").catch(() => undefined);
    const unsent = Object.values(now?.replies_unsent ?? {}).reduce((sum, each) => sum + each, 0);
    flow.querySelector("summary span").textContent = now
      ? `${now.messages} waiting · ${now.lanes_running} running · ${unsent} to send${now.dead_letters ? ` · ${now.dead_letters} dead` : ""}`
      : "unknown";
    if (flow.open) {
      const rows = await fromAdmin("deliveries", { limit: DELIVERIES }).catch(() => []);
      flow.querySelector("ul").replaceChildren(...rows.map((row) => this.#delivery(row)));
    }
  }

  #delivery(row) {
    const facts = `${row.state} · ${row.channel} · ${row.chunks_sent} of ${row.chunks} · ${ago(row.created_at, Date.now())}`;
    const open = button({ className: "quiet", textContent: facts }, async () => {
      const list = make("ol", { className: "hops" });
      const shown = this.#show(`Delivery ${row.reply_id}`, list);
      const hops = await fromAdmin(`trace/${row.reply_id}`).catch(() => []);
      if (this.shown === shown) {
        list.replaceChildren(...hops.map((hop) => drawn(hop, hops[0])));
      }
    });
    const item = make("li", {}, open);
    item.dataset.state = row.state;
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

function count(number, what) {
  return Number.isInteger(number) ? `${number} ${what}${number === 1 ? "" : "s"}` : "";
}

function ago(at, now) {
  const minutes = Math.floor((now - new Date(at)) / 60_000);
  return minutes < 1 ? "now" : minutes < 60 ? `${minutes} min ago` : new Date(at).toLocaleString([], { dateStyle: "short", timeStyle: "short" });
}

function clock(at) {
  return new Date(at).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit", second: "2-digit" });
}

function entry(message) {
  const name = message.kind === "message" ? SPEAKERS[message.role] ?? message.role : message.kind;
  const time = make("time", { textContent: clock(message.created_at) });
  const item = make("li", {}, make("p", { className: "who" }, make("b", { textContent: name }), time));
  item.dataset.role = message.role;
  item.dataset.faint = message.kind !== "message" || message.is_undone;
  if (message.text) {
    item.append(marked(message.text, message.text.match(PLACEHOLDER) ?? []));
  }
  for (const { name, arguments: given } of message.tool_calls ?? []) {
    item.append(make("code", { textContent: `${name}(${given})` }));
  }
  return item;
}

// --- texts side by side

function side(title, text) {
  return make("section", {}, make("h4", { textContent: title }), text);
}

function marked(text, pieces) {
  const shown = make("p", { className: "words" });
  let rest = text;
  for (const piece of pieces) {
    const at = rest.indexOf(piece);
    shown.append(rest.slice(0, at), make("mark", { textContent: piece }));
    rest = rest.slice(at + piece.length);
  }
  shown.append(rest);
  return shown;
}

// The lines or words of a text that another does not have, in order.
function gone(text, seen) {
  return text.split(/\s+/).filter((word) => word && !seen.includes(word));
}

// --- hops

function hopId({ at, name, detail }) {
  return PASSING.has(name) ? name : `${at} ${name} ${detail}`;
}

function drawn(hop, first) {
  const since = hop.at && first.at ? (new Date(hop.at) - new Date(first.at)) / 1000 : undefined;
  const item = make(
    "li", {},
    make("b", { textContent: hop.name }),
    make("time", { textContent: hop.at ? clock(hop.at) : "", dateTime: hop.at ?? "" }),
    make("span", { className: "since", textContent: since === undefined ? "" : `+${since.toFixed(2)} s` }),
    make("code", { textContent: hop.detail }),
  );
  item.dataset.broken = Boolean(hop.broken);
  return item;
}

// How long it took all the same, and how often it was answered.
function judged(hops) {
  const end = hops.findLast((hop) => OVER.has(hop.name));
  if (end.name !== "receipt") {
    return "It was given up, and its author was told.";
  }
  const answers = hops.filter((hop) => hop.name === "receipt" && hop.detail.endsWith("sent")).length;
  const took = ((new Date(end.at) - new Date(hops[0].at)) / 1000).toFixed(1);
  const times = answers === 1 ? "once" : `by ${answers} messages`;
  return hops.some((hop) => hop.broken) ? `Answered all the same, ${times}, after ${took} s.` : `Answered ${times}, after ${took} s.`;
}
