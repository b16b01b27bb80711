// Rows in their order. Each keeps its elements for as long as it is shown, so focus, dots and open details stay.

export class Places {
  #parent;
  #head; // what stands before them, or null
  #shown = new Map();

  // They come behind what `parent` holds already.
  constructor(parent) {
    this.#parent = parent;
    this.#head = parent.lastElementChild;
  }

  // `wanted`: [{ id, make, what }]. `make()` makes a row, which has an `element` and shows `what` by `show(what)`.
  show(wanted) {
    const before = this.#shown;
    const ids = new Set(wanted.map(({ id }) => id));
    for (const [id, row] of before) if (!ids.has(id)) row.element.remove(); // first, so that nobody else has to move
    this.#shown = new Map();
    let last = this.#head;
    for (const { id, make, what } of wanted) {
      const row = before.get(id) ?? make();
      this.#shown.set(id, row);
      row.show(what);
      const next = last === null ? this.#parent.firstElementChild : last.nextElementSibling;
      if (next !== row.element) this.#parent.insertBefore(row.element, next);
      last = row.element;
    }
  }

  rows() {
    return this.#shown.values();
  }
}
