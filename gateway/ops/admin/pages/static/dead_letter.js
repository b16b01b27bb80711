// A message that was given up, and what can be done about it, once more asked for.

import { copy, element, ordered } from "./fetched.js";
import { moment, number, reason, write } from "./words.js";

const ORDERS = {
  retry: {
    method: "POST",
    path: id => `/api/dead-letters/${encodeURIComponent(id)}/retry`,
    asks: "Try it again?",
    means: "The message goes back to its lane, behind what waits there, and is answered as if it had just come.",
    done: "The message is back on its lane.",
  },
  drop: {
    method: "DELETE",
    path: id => `/api/dead-letters/${encodeURIComponent(id)}`,
    asks: "Drop it?",
    means: "The message is forgotten for good. Nobody answers it any more.",
    done: "The message is dropped.",
  },
};

export class DeadLetter {
  element = copy(element("letter-template"));
  #id;
  #changed;

  // `changed` is called when it may be gone.
  constructor(id, changed) {
    this.#id = id;
    this.#changed = changed;
    for (const name of Object.keys(ORDERS)) {
      this.element.querySelector(`.${name}`).addEventListener("click", () => this.#ask(ORDERS[name]));
    }
  }

  show(letter) {
    write(this.element, ".text", letter.text || letter.message_id || letter.id);
    write(this.element, ".key", letter.key);
    write(this.element, ".reason", [reason(letter.reason), letter.error].filter(Boolean).join(": "));
    write(this.element, ".attempts", number(letter.attempts));
    write(this.element, "time", moment(letter.died_at));
    this.element.querySelector("time").dateTime = letter.died_at;
    this.element.querySelector(".retry").hidden = letter.message_id === ""; // what is no message has no lane
  }

  #ask(order) {
    const dialog = element("sure");
    write(dialog, "h2", order.asks);
    write(dialog, ".means", order.means);
    write(dialog, "blockquote", this.element.querySelector(".text").textContent);
    element("yes").onclick = () => { dialog.close(); this.#give(order); };
    element("no").onclick = () => dialog.close();
    dialog.showModal();
  }

  async #give(order) {
    const told = element("told");
    try {
      await ordered(order.method, order.path(this.#id));
      told.textContent = order.done;
    } catch (error) {
      told.textContent = error.status === 404 ? "It was gone already." : "That did not work. Nothing was changed.";
    }
    this.#changed();
  }
}
