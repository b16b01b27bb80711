// The rows of the board. Each task keeps its elements for as long as it is shown, so focus, dots and open details stay.
// Whatever people or models wrote goes in as text, never as markup.

import { STATES, cost, duration, reason, tokens } from "./words.js";

export class Board {
  #table;
  #template;
  #whole;
  #rows = new Map();

  // `whole` fetches a task with prompt and result.
  constructor(table, template, whole) {
    this.#table = table;
    this.#template = template;
    this.#whole = whole;
  }

  show(tasks) {
    const labels = new Map(tasks.map(task => [task.id, task.label]));
    const ids = new Set(labels.keys());
    for (const [id, row] of this.#rows) {
      if (!ids.has(id)) {
        row.element.remove();
        this.#rows.delete(id);
      }
    }
    let before = this.#table.tHead;
    for (const task of tasks) {
      const row = this.#rows.get(task.id) ?? this.#added(task.id);
      row.show(task, labels.get(task.parent_task_id) ?? task.parent_task_id ?? "");
      if (before.nextElementSibling !== row.element) before.after(row.element);
      before = row.element;
    }
  }

  // Durations count up between two looks.
  tick() {
    for (const row of this.#rows.values()) row.tick();
  }

  #added(id) {
    const row = new Row(this.#template.content.firstElementChild.cloneNode(true), () => this.#whole(id));
    this.#rows.set(id, row);
    return row;
  }
}

class Row {
  element;
  #whole;
  #task = null;
  #shownAt = 0;

  constructor(element, whole) {
    this.element = element;
    this.#whole = whole;
    this.#part(".label").addEventListener("click", () => this.#toggle());
  }

  show(task, parent) {
    const hasChanged = this.#task !== null && this.#task.state !== task.state;
    this.#task = task;
    this.#shownAt = performance.now();
    this.element.dataset.state = task.state;
    this.element.dataset.id = task.id;
    this.#write(".word", STATES[task.state] ?? task.state);
    this.#write(".type", task.type);
    this.#write(".label", task.label || task.id);
    this.#write(".parent", parent);
    this.#part(".nested").hidden = task.depth < 2;
    this.#write(".reason", reason(task.reason));
    this.#part(".reason").hidden = task.reason === "";
    this.#write(".key", task.mode === "background" ? `${task.key} · in the background` : task.key);
    this.#write(".tokens", tokens(task.tokens));
    this.#write(".cost", cost(task.cost));
    this.tick();
    if (hasChanged && !this.#part(".whole").hidden) this.#fill();
  }

  tick() {
    const { state, duration_ms, started_at } = this.#task;
    const more = state === "running" ? performance.now() - this.#shownAt : 0;
    this.#write(".duration", started_at === null ? "–" : duration(duration_ms + more));
  }

  #toggle() {
    const whole = this.#part(".whole");
    whole.hidden = !whole.hidden;
    this.#part(".label").setAttribute("aria-expanded", String(!whole.hidden));
    if (!whole.hidden) this.#fill();
  }

  async #fill() {
    try {
      const task = await this.#whole();
      this.#write(".prompt", task.prompt);
      this.#write(".result", task.result || (task.finished_at === null ? "not yet" : "nothing"));
      const worker = task.worker ? `, on ${task.worker}` : "";
      this.#write(".where", `session ${task.session_id}${worker}${task.confinement ? `, held by ${task.confinement}` : ""}`);
    } catch {
      this.#write(".prompt", "It cannot be read just now.");
    }
  }

  // Only what changed, so that nobody who listens to the page hears it all again.
  #write(selector, text) {
    const part = this.#part(selector);
    if (part.textContent !== text) part.textContent = text;
  }

  #part(selector) {
    return this.element.querySelector(selector);
  }
}
