// What stands on the board, family by family.

import { families } from "./families.js";
import { copy } from "./fetched.js";
import { Heading } from "./heading.js";
import { Places } from "./places.js";
import { Row } from "./row.js";

export class Board {
  #places;
  #make;

  // `make` makes the rows: `heading()` one above a family, `row()` one of a task.
  constructor(table, make) {
    this.#places = new Places(table);
    this.#make = make;
  }

  show(tasks) {
    const { heading, row } = this.#make;
    this.#places.show(
      families(tasks).flatMap(family => [
        { id: `of ${family.id}`, make: heading, what: family },
        ...family.members.map(member => ({ id: member.task.id, make: row, what: member })),
      ]),
    );
  }

  // Durations count up between two looks.
  tick() {
    for (const row of this.#places.rows()) row.tick();
  }
}

// The rows of a page that has these templates.
export function rowsOf(taskTemplate, familyTemplate) {
  return { heading: () => new Heading(copy(familyTemplate)), row: () => new Row(copy(taskTemplate)) };
}
