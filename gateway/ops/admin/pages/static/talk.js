// What was said, in order. Whatever people or models wrote goes in as text, never as markup.

import { copy } from "./fetched.js";
import { Places } from "./places.js";
import { moment, write } from "./words.js";

export class Talk {
  #places;
  #make;

  // `names`: how speakers are called, by role.
  constructor(list, template, names) {
    this.#places = new Places(list);
    this.#make = () => new Said(copy(template), names);
  }

  show(messages) {
    this.#places.show(messages.map(message => ({ id: message.seq, make: this.#make, what: message })));
  }
}

class Said {
  element;
  #names;

  constructor(element, names) {
    this.element = element;
    this.#names = names;
  }

  show(message) {
    const calls = message.tool_calls.map(call => `${call.name} ${call.arguments}`);
    this.element.dataset.role = message.role;
    write(this.element, ".speaker", this.#speaker(message));
    write(this.element, "time", moment(message.created_at));
    write(this.element, ".words", message.text);
    write(this.element, ".calls", calls.join("\n"));
    this.element.querySelector("time").dateTime = message.created_at;
    this.element.querySelector(".words").hidden = message.text === "";
    this.element.querySelector(".calls").hidden = calls.length === 0;
  }

  #speaker(message) {
    const name = message.kind === "compaction" ? "Summary" : (this.#names()[message.role] ?? message.role);
    return name + (message.is_error ? ", an error" : "") + (message.is_undone ? ", taken back" : "");
  }
}
