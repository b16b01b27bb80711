// One task on the board, and below it what it was asked, what it answered, and the conversation in between.

import { fetched } from "./fetched.js";
import { Talk } from "./talk.js";
import { STATES, cost, doing, duration, tokens, write } from "./words.js";

const MESSAGES = 200; // of a conversation: more than a sub-agent's rounds come to
const LEVELS = 3; // that are indented: deeper ones there are none

export class Row {
  element;
  #talk;
  #task = null;
  #shownAt = 0;

  constructor(element) {
    this.element = element;
    const names = () => ({ user: "Asked", assistant: this.#task.type, tool: "Tool", gateway: "Note" });
    this.#talk = new Talk(this.#part(".talk ol"), document.querySelector(".said-template"), names);
    this.#part(".label").addEventListener("click", () => this.#toggle());
    this.#part(".talk").addEventListener("toggle", () => this.#fillTalk());
  }

  show({ task, level, parent }) {
    const before = this.#task;
    this.#task = task;
    this.#shownAt = performance.now();
    this.element.dataset.state = task.state;
    this.element.dataset.id = task.id;
    this.element.dataset.level = String(Math.min(level, LEVELS));
    write(this.element, ".word", STATES[task.state] ?? task.state);
    write(this.element, ".type", task.type);
    write(this.element, ".label", task.label || task.id);
    write(this.element, ".parent", parent?.label || task.parent_task_id || "");
    this.#part(".nested").hidden = task.depth < 2;
    this.#part(".parent").classList.toggle("unseen", parent !== null);
    write(this.element, ".doing", doing(task.doing));
    this.#part(".doing").hidden = task.doing === null;
    write(this.element, ".reason", task.why);
    this.#part(".reason").hidden = task.why === "";
    this.#part(".mode").hidden = task.mode !== "background";
    write(this.element, ".tokens", tokens(task.tokens));
    write(this.element, ".cost", cost(task.cost));
    this.tick();
    if (before !== null && (before.state !== task.state || before.tokens !== task.tokens)) this.#fill();
  }

  tick() {
    const { state, duration_ms, started_at } = this.#task;
    const more = state === "running" ? performance.now() - this.#shownAt : 0;
    write(this.element, ".duration", started_at === null ? "–" : duration(duration_ms + more));
  }

  #toggle() {
    const whole = this.#part(".whole");
    whole.hidden = !whole.hidden;
    this.#part(".label").setAttribute("aria-expanded", String(!whole.hidden));
    this.#fill();
  }

  async #fill() {
    if (this.#part(".whole").hidden) return;
    try {
      const task = await fetched(`/api/v1/tasks/${encodeURIComponent(this.#task.id)}`);
      write(this.element, ".prompt", task.prompt);
      write(this.element, ".result", task.result || (task.finished_at === null ? "not yet" : "nothing"));
      const worker = task.worker ? `, on ${task.worker}` : "";
      const held = task.confinement ? `, held by ${task.confinement}` : "";
      const processes = task.state === "running" ? `; "pgrep -f ${task.id}" finds its processes` : "";
      write(this.element, ".where", `task ${task.id}, session ${task.session_id}${worker}${held}${processes}`);
    } catch {
      write(this.element, ".prompt", "It cannot be read just now.");
    }
    await this.#fillTalk();
  }

  async #fillTalk() {
    if (!this.#part(".talk").open) return;
    try {
      const path = `/api/v1/sessions/${encodeURIComponent(this.#task.session_id)}/messages?limit=${MESSAGES}`;
      const said = await fetched(path);
      this.#talk.show(said);
      write(this.element, ".talk .none", said.length ? "" : "Nothing was said yet.");
    } catch {
      write(this.element, ".talk .none", "It cannot be read just now.");
    }
  }

  #part(selector) {
    return this.element.querySelector(selector);
  }
}
