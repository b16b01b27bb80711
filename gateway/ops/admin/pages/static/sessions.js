// The page of all conversations: a page of them at a time, or those of one key.

import { copy, element, fetched } from "./fetched.js";
import { Looks } from "./looks.js";
import { Places } from "./places.js";
import { cost, moment, number, people, tokens, write } from "./words.js";

const PAGE = 50;

const rows = new Places(element("sessions").tBodies[0]);
const looks = new Looks(look);
let asked = new URLSearchParams(location.search);

const offset = () => Math.max(Number.parseInt(asked.get("offset") ?? "0", 10) || 0, 0);
const key = () => asked.get("key") ?? "";

class Row {
  element = copy(element("session-template"));

  show(session) {
    const link = this.element.querySelector(".title");
    const count = session.children_count;
    write(this.element, ".title", session.title);
    link.href = `/session?id=${encodeURIComponent(session.id)}`;
    write(this.element, ".children", count ? `⤷ ${people(count)}` : "");
    write(this.element, ".channel", session.channel);
    write(this.element, ".key", session.key);
    this.element.querySelector(".status").dataset.state = session.status;
    write(this.element, ".status", session.status);
    write(this.element, ".messages", number(session.message_count));
    write(this.element, ".tokens", tokens(session.tokens));
    write(this.element, ".cost", cost(session.cost));
    write(this.element, "time", moment(session.updated_at));
    this.element.querySelector("time").dateTime = session.updated_at;
  }
}

async function look() {
  const query = new URLSearchParams({ sub_agents: "false", limit: PAGE + 1, offset: offset() });
  if (key()) query.set("key", key());
  try {
    show(await fetched(`/api/sessions?${query}`));
  } catch (error) {
    if (error.status !== 422) throw error;
    show([]);
    element("empty").textContent = `“${key()}” is no session key. One looks like telegram:123456789, a shared place like slack:U1/C1.`;
  }
}

function show(found) {
  const shown = found.slice(0, PAGE);
  rows.show(shown.map(session => ({ id: session.id, make: () => new Row(), what: session })));
  element("sessions").hidden = shown.length === 0;
  element("empty").hidden = shown.length > 0;
  element("empty").textContent = key() ? `There is no conversation under ${key()}.` : "Nobody has written yet.";
  element("newer").disabled = offset() === 0;
  element("older").disabled = found.length <= PAGE;
  element("pages").hidden = offset() === 0 && found.length <= PAGE;
  write(document, "#range", shown.length ? `${number(offset() + 1)} to ${number(offset() + shown.length)}` : "");
}

// Another question, which the address keeps, too.
function ask(changes) {
  asked = new URLSearchParams(Object.entries({ key: key(), offset: offset(), ...changes }).filter(([, value]) => value));
  history.replaceState(null, "", asked.size ? `?${asked}` : location.pathname);
  looks.again();
}

element("key").value = key();
element("find").addEventListener("submit", event => {
  event.preventDefault();
  ask({ key: element("key").value.trim(), offset: 0 });
});
element("newer").addEventListener("click", () => ask({ offset: Math.max(offset() - PAGE, 0) }));
element("older").addEventListener("click", () => ask({ offset: offset() + PAGE }));
looks.watch();
