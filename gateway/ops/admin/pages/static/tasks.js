// The page of the task board: what is fetched, when, and what is said about it.

import { Board, rowsOf } from "./board.js";
import { follow } from "./feed.js";
import { copy, element, fetched } from "./fetched.js";
import { Looks } from "./looks.js";
import { summary } from "./words.js";

const LIMIT = 200; // the hundred that are over, and as many that live

const board = new Board(element("board"), rowsOf(element("task-template"), element("family-template")));
const looks = new Looks(async () => {
  show(...(await Promise.all([fetched(`/api/v1/tasks?limit=${LIMIT}`), fetched("/api/v1/tasks/types")])));
});

function show(tasks, types) {
  board.show(tasks);
  element("board").hidden = tasks.length === 0;
  element("empty").hidden = tasks.length > 0;
  element("summary").textContent = summary(tasks);
  showTypes(types);
}

function showTypes(types) {
  element("types").hidden = types.length === 0;
  element("types").querySelector("ul").replaceChildren(
    ...types.map(record => {
      const item = copy(element("type-template"));
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

setInterval(() => board.tick(), 1000);
follow("/api/v1/tasks/events", { look: () => looks.again(), linked: state => looks.linked(state) });
