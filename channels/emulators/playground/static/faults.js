// The fault switches of one pane. What strikes a number of times is armed by a press and goes back by itself.

import { call } from "./api.js";

const SOON_MS = 200;
const SLOW_S = 2;
const COUNTED = [
  ["rate_limit", "429", "The next sends are told to come back later."],
  ["server_error", "502", "The next sends get an error page; nothing is done."],
  ["drop_before", "Lose request", "The next sends are cut off before they are done."],
  ["drop_after", "Lose answer", "The next sends are done, then cut off: the bot cannot know."],
  ["refuse_format", "Refuse format", "The formatting of the next sends is refused."],
  ["duplicate", "Redeliver", "The next events come twice."],
  ["poison", "Poison", "Before the next events comes one that no library can parse."],
];
const LASTING = [
  ["half_dead", "Half-dead link", "Connections stay open, and every byte is lost both ways.", true, false],
  ["blocked", "Block the bot", "It may not write here any more.", true, false],
  ["delay_s", "Slow", `Every call takes ${SLOW_S} seconds.`, SLOW_S, 0],
];

export class Faults {
  constructor(platform, details, report) {
    this.path = `/stage/${platform}`;
    this.details = details;
    this.report = report;
    this.state = {};
    this.buttons = new Map();
    this.times = details.querySelector(".times input");
    const switches = details.querySelector(".switches");
    const row = (name, label, about, act) => switches.append(this.#row(platform, name, label, about, act));
    for (const [name, label, about] of COUNTED) {
      row(name, label, about, () => this.#set({ [name]: this.state[name] ? 0 : Math.max(1, this.times.valueAsNumber || 1) }));
    }
    for (const [name, label, about, on, off] of LASTING) {
      row(name, label, about, () => this.#set({ [name]: this.state[name] ? off : on }));
    }
    row(null, "Disconnect", "Every open connection is cut now.", () => call("POST", `${this.path}/cut`, {}));
    row(null, "Reset all", "Nothing fails any more.", () => this.#set(ALL_OFF));
  }

  async refresh() {
    this.#show(await call("GET", `${this.path}/faults`));
  }

  // A counter may have fallen. During a stream that is asked once in a while, not at every event.
  soon() {
    this.asking ??= setTimeout(() => {
      this.asking = undefined;
      this.refresh().catch(this.report);
    }, SOON_MS);
  }

  async #set(change) {
    this.#show(await call("PATCH", `${this.path}/faults`, change));
  }

  #show(state) {
    this.state = state;
    const on = [];
    for (const [name, { button, label }] of this.buttons) {
      const value = Number(state[name]);
      const left = value > 1 && name !== "delay_s" ? ` × ${value}` : "";
      button.setAttribute("aria-pressed", String(value > 0));
      button.querySelector("span").textContent = left;
      if (value > 0) {
        on.push(label + left);
      }
    }
    this.details.querySelector(".on").textContent = on.join(", ");
  }

  #row(platform, name, label, about, act) {
    const row = document.createElement("li");
    const button = Object.assign(document.createElement("button"), { type: "button", textContent: label });
    const sentence = Object.assign(document.createElement("p"), { textContent: about });
    sentence.id = `about-${platform}-${label.replaceAll(" ", "-")}`;
    button.setAttribute("aria-describedby", sentence.id);
    button.append(document.createElement("span"));
    button.addEventListener("click", () => act().catch(this.report));
    if (name) {
      button.setAttribute("aria-pressed", "false");
      this.buttons.set(name, { button, label });
    }
    row.append(button, sentence);
    return row;
  }
}

const ALL_OFF = Object.fromEntries([
  ...COUNTED.map(([name]) => [name, 0]),
  ...LASTING.map(([name, , , , off]) => [name, off]),
]);
