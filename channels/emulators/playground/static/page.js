// The whole page: a pane per platform, one for the sessions, and on a phone one of them at a time.

import { call, watch } from "./api.js";
import { Pane } from "./pane.js";
import { Sessions } from "./sessions.js";

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
  const tab = Object.assign(document.createElement("button"), {
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
