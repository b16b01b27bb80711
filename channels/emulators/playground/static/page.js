// The whole page: a pane per platform, one for the sessions, and on a phone one of them at a time.

import { button, call, watch } from "./api.js";
import { Breaking, offerFakes } from "./breaking.js";
import { Inside } from "./inside.js";
import { Pane } from "./pane.js";

const { platforms, can, bots, tries, orders, board } = await call("GET", "/stage");
const inside = new Inside(board);
const chosen = () => inside.mark(panes.values());
const made = (platform) =>
  new Pane({ platform, can: new Set(can[platform]), bot: bots[platform], tries, inside, onChoice: chosen, onNews: tell });
const panes = new Map(platforms.map((platform) => [platform, made(platform)]));
let used = panes.get(platforms[0]); // where a person wrote or chose last
const breaking = new Breaking(orders, () => used, inside);
offerFakes(() => used, inside);
inside.onShow = () => inside.element.checkVisibility() || choose(inside.element.id);
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
  used = [...panes.values()].find(({ element }) => element.id === id) ?? used;
}

for (const pane of panes.values()) {
  pane.element.addEventListener("focusin", () => (used = pane));
}
for (const { element } of [...panes.values(), inside]) {
  document.getElementById("panes").append(element);
  const tab = button({ textContent: element.getAttribute("aria-label") }, () => choose(element.id));
  tab.dataset.pane = element.id;
  document.querySelector(".tabs").append(tab);
}
choose(`pane-${platforms[0]}`);

watch(
  (event) => {
    panes.get(event.platform)?.see(event);
    inside.soon();
  },
  () => {
    if (breaking.isEnding) {
      location.reload();
      return;
    }
    const refreshed = [...panes.values()].map((pane) => {
      pane.report("");
      return pane.refresh().catch(pane.report);
    });
    Promise.all(refreshed).then(() => showLink("live", "live"));
  },
  () => showLink("lost", "connection lost"),
);
