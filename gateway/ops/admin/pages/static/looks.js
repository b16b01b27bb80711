// Looks at the server, one look at a time, and says in the page's heading how it goes: #connection, #updated.

import { element } from "./fetched.js";

export const LOOK_EVERY_MS = 3000;

const LINKS = {
  live: "Live",
  polling: "No live updates: looking every 3 seconds",
  away: "The server does not answer: trying every 3 seconds",
};

export class Looks {
  #look;
  #link = "connecting";
  #isAway = false;
  #isLooking = false;
  #looksAgain = false;

  // `look` fetches and shows; what it throws counts as no answer.
  constructor(look) {
    this.#look = look;
  }

  // One look at a time; a change that is told of meanwhile leads to one more.
  async again() {
    this.#looksAgain = true;
    if (this.#isLooking) return;
    this.#isLooking = true;
    while (this.#looksAgain) {
      this.#looksAgain = false;
      try {
        await this.#look();
        this.#isAway = false;
        sayWhen(new Date());
      } catch {
        this.#isAway = true;
        if (this.#link === "live") setTimeout(() => this.again(), LOOK_EVERY_MS); // else somebody has us look
      }
      this.#say();
    }
    this.#isLooking = false;
  }

  // How we hear of changes.
  linked(state) {
    this.#link = state;
    this.#say();
  }

  // A live region: it speaks when the connection changes, and at no other time.
  #say() {
    const state = this.#isAway ? "away" : this.#link;
    const said = element("connection");
    if (said.dataset.state === state || !(state in LINKS)) return;
    said.dataset.state = state;
    said.textContent = LINKS[state];
  }
}

function sayWhen(now) {
  element("updated").dateTime = now.toISOString();
  element("updated").textContent = now.toLocaleTimeString();
}
