// The page of the queue: what waits and for how long, what was given up, what became of a message, and of the newest
// replies.

import { drawLine } from "./line.js";
import { copy, element, fetched } from "./fetched.js";
import { DeadLetter } from "./dead_letter.js";
import { Delivery } from "./delivery.js";
import { Looks } from "./looks.js";
import { Places } from "./places.js";
import { duration, number, write } from "./words.js";

const LETTERS = 100;
const DELIVERIES = 30;
const SPAN_MS = 10 * 60 * 1000;

const letters = new Places(element("letters").tBodies[0]);
const deliveries = new Places(element("deliveries").tBodies[0]);
const hops = new Places(element("hops").tBodies[0]);
const looks = new Looks(look);

async function look() {
  showReadiness(await (await fetch("/readyz", { cache: "no-store" })).json()); // 503 says why
  const [queue, past, dead, newest] = await Promise.all([
    fetched("/api/queue"),
    fetched("/api/queue/past"),
    fetched(`/api/dead-letters?limit=${LETTERS}`),
    fetched(`/api/deliveries?limit=${DELIVERIES}`),
  ]);
  showFigures(queue);
  showChannels(queue.channels, queue.replies_unsent);
  showPast([...past, queue]);
  list("letters", letters, dead, letter => new DeadLetter(letter.id, () => looks.again()));
  list("deliveries", deliveries, newest, () => new Delivery());
}

function showReadiness({ ready, reasons, models }) {
  element("ready").dataset.state = ready ? "completed" : "failed";
  write(document, "#ready", ready ? "ready" : "not ready");
  write(document, "#reasons", reasons.join("; "));
  element("models").hidden = models.length === 0;
  write(document, "#models", `Models that do not answer: ${models.join("; ")}`);
}

function showFigures(queue) {
  const unsent = Object.values(queue.replies_unsent).reduce((sum, count) => sum + count, 0);
  const told = {
    queued: number(queue.messages),
    age: queue.messages ? duration(queue.oldest_wait_ms) : "–",
    running: number(queue.lanes_running),
    waiting: number(queue.lanes_ready),
    delayed: number(queue.lanes_delayed),
    unsent: number(unsent),
    agents: number(queue.agent_processes),
    dead: number(queue.dead_letters),
  };
  for (const [name, text] of Object.entries(told)) write(element("figures"), `.${name}`, text);
}

function showChannels(channels, unsent) {
  const items = Object.entries(channels).sort().map(([name, state]) => {
    const item = element("channel-template").content.firstElementChild.cloneNode(true);
    item.dataset.state = state === "connected" ? "completed" : "failed";
    item.querySelector(".type").textContent = name;
    item.querySelector(".status").textContent = state;
    item.querySelector(".faint").textContent = unsent[name] ? `${number(unsent[name])} on their way` : "";
    return item;
  });
  element("channels").replaceChildren(...items);
  element("no-channels").hidden = items.length > 0;
}

// `moments`: oldest first, the last is now, all by the server's clock.
function showPast(moments) {
  const now = Date.parse(moments.at(-1).at);
  const line = (id, of, least, say) => {
    const points = moments
      .map(each => ({ at: Math.min(Date.parse(each.at), now), value: of(each) }))
      .filter(({ at }) => at > now - SPAN_MS);
    drawLine(element(id), points, { span_ms: SPAN_MS, say, least });
    const most = Math.max(...points.map(({ value }) => value));
    write(document, `#${id}-words`, `now ${say(points.at(-1).value)}, at most ${say(most)} in ${duration(now - points[0].at)}`);
  };
  line("depth-plot", each => each.messages, 4, number);
  line("age-plot", each => each.oldest_wait_ms / 1000, 10, seconds => duration(seconds * 1000));
}

function list(id, places, found, make) {
  places.show(found.map(each => ({ id: each.id ?? each.reply_id, make: () => make(each), what: each })));
  element(id).hidden = found.length === 0;
  element(`no-${id}`).hidden = found.length > 0;
}

class Hop {
  element = copy(element("hop-template"));

  show({ at, name, detail }) {
    write(this.element, ".name", name);
    write(this.element, ".detail", detail);
    write(this.element, "time", at ? new Date(at).toLocaleString([], { dateStyle: "medium", timeStyle: "medium" }) : "–");
    this.element.querySelector("time").dateTime = at ?? "";
  }
}

async function trace(wanted) {
  const nothing = element("no-hops");
  let found = [];
  try {
    found = await fetched(`/api/trace/${encodeURIComponent(wanted)}`);
    nothing.textContent = "";
  } catch (error) {
    const isUnknown = error.status === 404;
    nothing.textContent = isUnknown ? `Nothing is known of ${wanted}.` : "That did not work. Please try it again.";
  }
  hops.show(found.map((what, place) => ({ id: place, make: () => new Hop(), what })));
  element("hops").hidden = found.length === 0;
}

element("find").addEventListener("submit", event => {
  event.preventDefault();
  const wanted = element("ref").value.trim();
  if (wanted) trace(wanted);
});
looks.watch();
