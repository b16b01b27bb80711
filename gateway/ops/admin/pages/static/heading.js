// The row above a family: for whom it works and since when; above several, how they stand and what they cost together.

import { sums } from "./families.js";
import { cost, duration, moment, people, summary, tokens, write } from "./words.js";

export class Heading {
  element;
  #family = null;
  #shownAt = 0;

  constructor(element) {
    this.element = element;
  }

  show(family) {
    this.#family = family;
    this.#shownAt = performance.now();
    const { tokens: count, cost: dollars } = sums(family);
    const tasks = family.members.map(({ task }) => task);
    write(this.element, ".who", family.key);
    write(this.element, "time", moment(tasks[0].created_at));
    this.element.querySelector("time").dateTime = tasks[0].created_at;
    write(this.element, ".many", people(tasks.length));
    write(this.element, ".stand", summary(tasks));
    for (const part of this.element.querySelectorAll(".together")) part.hidden = tasks.length === 1;
    write(this.element, ".tokens", tokens(count));
    write(this.element, ".cost", cost(dollars));
    this.tick();
  }

  tick() {
    const { duration_ms } = sums(this.#family);
    const isRunning = this.#family.members.some(({ task }) => task.state === "running");
    const more = isRunning ? performance.now() - this.#shownAt : 0;
    write(this.element, ".duration", duration_ms === null ? "–" : duration(duration_ms + more));
  }
}
