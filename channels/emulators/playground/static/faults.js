// The fault switches of one pane: counters that arm the next request or event, and two that stay on.

import { call } from "./api.js";

const COUNTED = [
  ["rate_limit", "429", "Answer the next send with 429"],
  ["server_error", "502", "Answer the next send with a 502 page"],
  ["drop_before", "Lose request", "Cut the next send before it is done"],
  ["drop_after", "Lose answer", "Do the next send, then cut the connection"],
  ["refuse_format", "Refuse format", "Refuse the formatting of the next send"],
  ["duplicate", "Redeliver", "Deliver the next event twice"],
  ["poison", "Poison", "Send an event first that no library can parse"],
];

export class Faults {
  constructor(platform, details, report) {
    this.path = `/stage/${platform}`;
    this.details = details;
    this.report = report;
    this.buttons = new Map();
    const switches = details.querySelector(".switches");
    for (const [name, label, title] of COUNTED) {
      switches.append(this.#button(label, title, () => this.#set({ [name]: (this.state[name] ?? 0) + 1 }), name));
    }
    switches.append(
      this.#button("Block the bot", "The bot may not write here any more", () => this.#set({ blocked: !this.state.blocked }), "blocked"),
      this.#button("Slow", "Every call takes two seconds", () => this.#set({ delay_s: this.state.delay_s ? 0 : 2 }), "delay_s"),
      this.#button("Disconnect", "Cut every open connection now", () => call("POST", `${this.path}/cut`, {})),
      this.#button("All off", "Take back what has not struck yet", () => this.#set(this.#off())),
    );
    this.state = {};
  }

  async refresh() {
    this.#show(await call("GET", `${this.path}/faults`));
  }

  #off() {
    const counters = Object.fromEntries(COUNTED.map(([name]) => [name, 0]));
    return { ...counters, blocked: false, delay_s: 0 };
  }

  async #set(change) {
    this.#show(await call("PATCH", `${this.path}/faults`, change));
  }

  #show(state) {
    this.state = state;
    let armed = 0;
    for (const [name, button] of this.buttons) {
      const value = Number(state[name]);
      button.setAttribute("aria-pressed", String(value > 0));
      button.querySelector("span").textContent = value > 1 && name !== "delay_s" ? ` ${value}` : "";
      armed += value > 0;
    }
    this.details.querySelector(".on").textContent = armed ? `${armed} on` : "";
  }

  #button(label, title, act, name) {
    const button = Object.assign(document.createElement("button"), { type: "button", textContent: label, title });
    button.append(document.createElement("span"));
    button.addEventListener("click", () => act().catch(this.report));
    if (name) {
      this.buttons.set(name, button);
    }
    return button;
  }
}
