// What is done to the bot: its processes are killed, its cables pulled, fake keys are pasted, everything begins anew.

import { button, explained, make, ownCall } from "./api.js";

const BREAKS = {
  "kill-agent": ["Kill the agent", "kill -9 of the process that is answering"],
  "kill-everything": ["Kill everything", "kill -9 of every process: supervisor, channels, agent, Valkey"],
  "cut-bus": ["Pull the bus's cable", "Valkey neither reads nor answers for five seconds"],
  "cut-model": ["Pull the model's cable", "No call of the model comes through for two seconds"],
};
const SCRIPTED = "slow 5 say You broke it while I was answering, and here is the answer.";
const REAL = "Count from one to sixty in words, each on its own line.";
const BEGUN_MS = 100;
const BEGUN_FOR_MS = 15_000;

const order = (name) => ownCall("POST", "/order", { order: name });

export class Breaking {
  // `pane()` is the chat pane that is used now.
  constructor(orders, pane, inside) {
    Object.assign(this, { pane, inside });
    this.question = orders.includes("cut-model") ? SCRIPTED : REAL;
    const offered = Object.entries(BREAKS).filter(([name]) => orders.includes(name));
    const rows = offered.map(([name, [label, about]]) => explained(label, about, name, () => this.#break(name, label)));
    this.buttons = rows.map((row) => row.firstElementChild);
    document.querySelector("#breaks ul").append(...rows);
    document.querySelector("[popovertarget=breaks]").hidden = !this.buttons.length;
    document.querySelector("[popovertarget=anew]").hidden = !orders.includes("reset");
    document.querySelector("#anew .really").addEventListener("click", () => this.#reset());
  }

  // A question is asked, the fault strikes while it is being answered, and its trace is drawn to the end.
  async #break(name, label) {
    this.buttons.forEach((button) => (button.disabled = true));
    document.getElementById("breaks").hidePopover();
    try {
      const pane = this.pane();
      const said = await pane.say(this.question);
      const trace = this.inside.showTrace(pane.platform, said);
      await begun(trace);
      const { happened } = await order(name);
      for (const { at_ms, what } of happened) {
        trace.add({ at: new Date(at_ms).toISOString(), name: label, detail: what, broken: true });
      }
      await trace.over;
    } catch (problem) {
      this.pane().report(problem);
    } finally {
      this.buttons.forEach((button) => (button.disabled = false));
    }
  }

  async #reset() {
    const dialog = document.querySelector("#anew p");
    dialog.textContent = "Everything ends, and begins anew in some seconds …";
    document.querySelector("#anew .really").hidden = true;
    this.isEnding = true; // the page is loaded again as soon as its server is back
    await order("reset").catch((problem) => (dialog.textContent = problem.message));
  }
}

async function begun(trace) {
  const end = Date.now() + BEGUN_FOR_MS;
  while (!trace.has("turn began") && Date.now() < end) {
    await new Promise((resolve) => setTimeout(resolve, BEGUN_MS));
  }
}

// --- keys that look real and open nothing, made at each press: none is written down anywhere

const LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
const random = (length, alphabet = LETTERS) =>
  Array.from(crypto.getRandomValues(new Uint32Array(length)), (number) => alphabet[number % alphabet.length]).join("");
const upper = (length) => random(length, `${LETTERS.slice(0, 26)}234567`);
const hex = (length) => random(length, "0123456789abcdef");
const base64 = (text) => btoa(text).replaceAll("=", "");

export const FAKES = {
  "A bare token": () => `it stopped working: sk-proj-${random(48)}`,
  "GitHub": () => `please clone it with ghp_${random(36)}`,
  "AWS, two parts": () => `aws_access_key_id = AKIA${upper(16)}\naws_secret_access_key = ${random(40)}`,
  "An assignment": () => `DB_PASSWORD="${random(18)}!"`,
  "In a sentence": () => `my password is ${random(12)}, do not tell anybody`,
  "A curl header": () => `curl -H "Authorization: Bearer ${random(43)}" https://api.example.com/v1/me`,
  "A URL with a password": () => `postgres://app:${random(20)}@db.example.com:5432/prod`,
  "JSON": () => `{"service": "mail", "api_key": "${hex(40)}", "region": "eu"}`,
  "A JSON web token": () =>
    `eyJ${base64('{"alg":"HS256","typ":"JWT"}').slice(3)}.${base64(`{"sub":"${hex(12)}","admin":true}`)}.${random(43)}`,
  "A bot's token": () => `${random(10, "123456789")}:AA${random(33)}`,
  "A private key": () => {
    const lines = Array.from({ length: 6 }, () => random(64)).join("\n");
    return ["-----BEGIN", "PRIVATE KEY-----\n"].join(" ") + lines + ["\n-----END", "PRIVATE KEY-----"].join(" ");
  },
};

// The menu of forms: a press writes one for the person to send, and what the model saw of it is shown afterwards.
export function offerFakes(pane, inside) {
  for (const [label, form] of Object.entries(FAKES)) {
    const offer = button({ className: "quiet", textContent: label }, () => {
      const chosen = pane();
      document.getElementById("fakes").hidePopover();
      chosen.writing.begin(form());
      chosen.onceSaid = (said) => inside.showSeen(chosen.platform, said);
    });
    document.querySelector("#fakes ul").append(make("li", {}, offer));
  }
}
