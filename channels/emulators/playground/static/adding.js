// The form for somebody or somewhere new.

import { call } from "./api.js";

export class Adding {
  // `where()` gives the chosen place and all places; `added(what, made)` is awaited before the form closes.
  constructor(pane, path, where, added, report) {
    Object.assign(this, { pane, path, where, added, report });
    this.form = pane.querySelector(".new");
    this.#opener("person").addEventListener("click", () => this.#open("person"));
    this.#opener("place").addEventListener("click", () => this.#open("place"));
    this.form.querySelector(".cancel").addEventListener("click", () => this.#close());
    this.form.addEventListener("submit", (submitted) => {
      submitted.preventDefault();
      this.#add().catch(report);
    });
    this.form.addEventListener("keydown", (pressed) => pressed.key === "Escape" && this.#close());
  }

  #opener(what) {
    return this.pane.querySelector(`.add-${what}`);
  }

  #open(what) {
    this.what = what;
    this.form.hidden = false;
    this.form.querySelector(".new-kind").parentElement.hidden = what === "person";
    this.form.querySelector(".new-title-label").textContent = what === "person" ? "Person's name" : "Name";
    this.form.querySelector(".new-title").value = "";
    this.form.querySelector(".new-title").focus();
  }

  #close() {
    this.form.hidden = true;
    this.#opener(this.what).focus();
  }

  async #add() {
    const title = this.form.querySelector(".new-title").value.trim();
    const kind = this.form.querySelector(".new-kind").value;
    const parent_id = kind === "thread" ? this.#group()?.id : undefined;
    const made = this.what === "person"
      ? await call("POST", `${this.path}/people`, { name: title })
      : await call("POST", `${this.path}/places`, { kind, title, parent_id });
    this.report("");
    await this.added(this.what, made);
    this.#close();
    this.pane.querySelector("textarea").focus();
  }

  // A thread goes into the chosen group, the group of the chosen thread, or the first group there is.
  #group() {
    const { place, places } = this.where();
    const groups = places.filter((each) => each.kind === "group");
    return groups.find((each) => each.id === place?.id || each.id === place?.parent_id) ?? groups[0];
  }
}
