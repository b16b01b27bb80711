// The page of one conversation: its figures, who works for it, what was said. It begins at the end.

import { copy, element, fetched } from "./fetched.js";
import { Looks } from "./looks.js";
import { Places } from "./places.js";
import { Talk } from "./talk.js";
import { STATES, cost, moment, number, tokens, write } from "./words.js";

const PAGE = 50;
const THE_END = 2 ** 53; // before it is everything
const LEVELS = 3; // that are indented: deeper ones there are none
const NAMES = { user: "User", assistant: "Agent", tool: "Tool", gateway: "Note" };

const id = new URLSearchParams(location.search).get("id") ?? "";
const path = `/api/sessions/${encodeURIComponent(id)}`;
const page = session => `/session?id=${encodeURIComponent(session)}`;
const talk = new Talk(element("said").querySelector("ol"), document.querySelector(".said-template"), () => NAMES);
const children = new Places(element("family").querySelector("ul"));
const looks = new Looks(look);
let messages = [];
let isWhole = false;

class Child {
  element = copy(element("child-template"));

  show({ session, parent }) {
    const { task } = session;
    const state = task?.state ?? session.status;
    const link = this.element.querySelector("a");
    this.element.dataset.state = state;
    this.element.dataset.level = Math.min(session.depth, LEVELS);
    write(this.element, ".word", STATES[state] ?? state);
    write(this.element, ".type", session.channel.replace("subagent:", ""));
    write(this.element, "a", session.title);
    link.href = page(session.id);
    write(this.element, ".parent", session.depth > 1 ? `sub-agent of ${parent.title}` : "");
    write(this.element, ".reason", task?.why ?? "");
    write(this.element, ".cost", `${tokens(session.tokens)} tokens, ${cost(session.cost)}`);
  }
}

async function look() {
  try {
    const [session, newest] = await Promise.all([fetched(path), said(THE_END)]);
    showSession(session);
    keep(newest);
    showFamily(session.children_count ? await fetched(`${path}/tree`) : { children: [] });
    await showParent(session.parent_session_id);
  } catch (error) {
    if (error.status !== 404) throw error;
    for (const part of ["facts", "family", "said"]) element(part).hidden = true;
    element("missing").hidden = false;
  }
}

const said = before => fetched(`${path}/messages?limit=${PAGE}&before_seq=${before}`);

function showSession(session) {
  const facts = element("facts");
  document.title = `${session.title} · Trivet`;
  write(document, "#title", session.title);
  write(facts, ".channel", session.channel);
  write(facts, ".key", session.key);
  facts.querySelector(".status").dataset.state = session.status;
  write(facts, ".status", session.status);
  write(facts, ".messages", number(session.message_count));
  write(facts, ".tokens", number(session.tokens));
  write(facts, ".cost", cost(session.cost));
  write(facts, ".begun", moment(session.created_at));
  write(facts, ".last", moment(session.updated_at));
  facts.hidden = false;
}

// The newest page may show what was changed since. Who was away for more than a page begins at the end again.
function keep(newest) {
  const from = newest.at(0)?.seq ?? 0;
  const older = messages.filter(({ seq }) => seq < from);
  const isGap = older.length === messages.length && messages.length > 0;
  if (isGap || !messages.length) isWhole = newest.length < PAGE;
  showTalk(isGap ? newest : [...older, ...newest]);
}

function showTalk(all) {
  messages = all;
  talk.show(messages);
  element("said").hidden = false;
  element("said").querySelector(".none").hidden = messages.length > 0;
  element("earlier").hidden = isWhole;
}

function showFamily(root) {
  const below = parent =>
    parent.children.flatMap(session => [{ id: session.id, make: () => new Child(), what: { session, parent } }, ...below(session)]);
  children.show(below(root));
  element("family").hidden = root.children.length === 0;
}

async function showParent(parentId) {
  if (!parentId || !element("parent").hidden) return;
  const parent = await fetched(`/api/sessions/${encodeURIComponent(parentId)}`);
  write(element("parent"), "a", parent.title);
  element("parent").querySelector("a").href = page(parentId);
  element("parent").hidden = false;
}

element("earlier").addEventListener("click", async () => {
  try {
    const found = await said(messages[0].seq);
    isWhole = found.length < PAGE;
    showTalk([...found.filter(({ seq }) => seq < messages[0].seq), ...messages]);
  } catch {
    looks.again(); // it says whether the server answers
  }
});
looks.watch();
