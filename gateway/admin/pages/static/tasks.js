// The page of the task board: what is fetched, when, and what is said about it.

import { Board } from "./board.js";
import { follow } from "./feed.js";
import { summary } from "./words.js";

const LIMIT = 200; // the hundred that are over, and as many that live
const LOOK_AGAIN_MS = 3000;

const LINKS = {
  live: "Live",
  polling: "No live updates: looking every 3 seconds",
  away: "The server does not answer: trying every 3 seconds",
};

const element = id => document.getElementById(id);
const board = new Board(element("board"), element("task-template"), id => fetched(`/api/tasks/${encodeURIComponent(id)}`));
let link = "connecting";
let isAway = false;
let isLooking = false;
let looksAgain = false;

async function fetched(path) {
  const answer = await fetch(path, { headers: { Accept: "application/json" }, cache: "no-store" });
  if (!answer.ok) throw new Error(`${answer.status}`);
  return answer.json();
}

// One look at a time; a change that is told of meanwhile leads to one more.
async function look() {
  looksAgain = true;
  if (isLooking) return;
  isLooking = true;
  while (looksAgain) {
    looksAgain = false;
    try {
      show(...(await Promise.all([fetched(`/api/tasks?limit=${LIMIT}`), fetched("/api/tasks/types")])));
      isAway = false;
    } catch {
      isAway = true;
      if (link === "live") setTimeout(look, LOOK_AGAIN_MS); // else the feed has us look
    }
    sayLink();
  }
  isLooking = false;
}

function show(tasks, types) {
  board.show(tasks);
  element("board").hidden = tasks.length === 0;
  element("empty").hidden = tasks.length > 0;
  element("summary").textContent = summary(tasks);
  showTypes(types);
  const now = new Date();
  element("updated").dateTime = now.toISOString();
  element("updated").textContent = now.toLocaleTimeString();
}

function showTypes(types) {
  element("types").hidden = types.length === 0;
  element("types").querySelector("ul").replaceChildren(
    ...types.map(record => {
      const item = element("type-template").content.firstElementChild.cloneNode(true);
      const rate = record.success_rate;
      const counted = record.completed + record.failed + record.timed_out;
      item.querySelector(".type").textContent = record.type;
      item.querySelector(".rate").textContent = rate === null ? "–" : `${Math.round(rate * 100)} %`;
      item.querySelector("meter").hidden = rate === null;
      item.querySelector("meter").value = rate ?? 0;
      const over = counted ? `${record.completed} of ${counted} completed` : "none to count yet";
      item.querySelector(".counts").textContent = record.running ? `${over}, ${record.running} live` : over;
      return item;
    }),
  );
}

// A live region: it speaks when the connection changes, and at no other time.
function sayLink() {
  const state = isAway ? "away" : link;
  const said = element("connection");
  if (said.dataset.state === state || !(state in LINKS)) return;
  said.dataset.state = state;
  said.textContent = LINKS[state];
}

setInterval(() => board.tick(), 1000);
follow("/api/tasks/events", {
  look,
  linked: state => {
    link = state;
    sayLink();
  },
});
