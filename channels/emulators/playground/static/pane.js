// One platform: who writes, where, what was said there, and the switches that make it fail.

import { Adding } from "./adding.js";
import { call } from "./api.js";
import { Faults } from "./faults.js";
import { placeOptions } from "./places.js";
import { Talk } from "./talk.js";
import { Writing } from "./writing.js";

const TYPING_MS = 5500;
const TOAST_MS = 6000;
const TITLE_CHARS = 60;
const DOING = { typing: "is typing", upload_photo: "is sending a photo", upload_document: "is sending a file" };

export class Pane {
  constructor(platform, can, tries, onChoice, onNews) {
    Object.assign(this, { platform, can, onChoice, onNews });
    this.people = [];
    this.places = [];
    this.opened = []; // threads that the platform does not list before somebody has written there
    this.unread = new Set();
    this.loading = 0;
    this.held = [];
    this.element = document.getElementById("pane").content.firstElementChild.cloneNode(true);
    this.element.dataset.platform = platform;
    this.element.id = `pane-${platform}`;
    this.element.setAttribute("aria-label", platform);
    this.part("h2").textContent = platform;
    this.part("textarea").id = `text-${platform}`;
    this.part(".write label.hidden").htmlFor = `text-${platform}`;
    this.part(".menu").id = `menu-${platform}`;
    this.part(".said").setAttribute("aria-label", `Messages on ${platform}`);
    const path = `/stage/${platform}`;
    const where = () => ({ person: this.person, place: this.place, places: this.places });
    this.faults = new Faults(platform, this.part(".faults"), this.report);
    this.talk = new Talk(this.part(".said"), this.part(".news"), (said) => this.#around(said), (...act) =>
      this.#act(...act).catch(this.report),
    );
    this.writing = new Writing({
      form: this.part(".write"), path, can, where, report: this.report,
      said: (said) => this.#follow(said).catch(this.report),
    });
    this.#offer(tries);
    new Adding(this.element, path, where, (what, made) => this.#added(what, made), this.report);
    this.#listen();
  }

  part(selector) {
    return this.element.querySelector(selector);
  }

  get person() {
    return this.people.find((each) => each.id === this.part(".person").value);
  }

  get place() {
    return this.places.find((each) => each.id === this.part(".place").value);
  }

  report = (problem) => {
    this.part(".problem").textContent = problem.message ?? String(problem);
  };

  path(rest) {
    return `/stage/${this.platform}/${rest}`;
  }

  // --- what there is

  refresh() {
    return this.#holding(async () => {
      const [people, places] = await Promise.all([call("GET", this.path("people")), call("GET", this.path("places"))]);
      this.people = people.people;
      const isThere = (id) => places.places.some((place) => place.id === id);
      this.opened = this.opened.filter((each) => !isThere(each.id) && isThere(each.parent_id));
      this.places = [...places.places, ...this.opened];
      this.#fillPeople();
      this.#fillPlaces();
      await Promise.all([this.#load(), this.faults.refresh()]);
    });
  }

  // What happens while an answer is on its way may be newer than the answer: it is looked at afterwards.
  async #holding(work) {
    this.loading += 1;
    try {
      await work();
    } finally {
      this.loading -= 1;
    }
    while (!this.loading && this.held.length) {
      this.see(this.held.shift());
    }
  }

  #fillPeople() {
    const select = this.part(".person");
    const chosen = select.value;
    select.replaceChildren(...this.people.filter((each) => !each.is_bot).map((each) => new Option(each.name, each.id)));
    select.value = this.people.some((each) => each.id === chosen) ? chosen : (select.options[0]?.value ?? "");
  }

  #fillPlaces() {
    const select = this.part(".place");
    const chosen = select.value;
    const options = placeOptions(this.places, this.person, this.unread);
    select.replaceChildren(...options);
    select.value = options.some((each) => each.value === chosen) ? chosen : (options[0]?.value ?? "");
  }

  #load() {
    return this.#holding(async () => {
      const place = this.place;
      const isElsewhere = place?.id !== this.shown;
      if (isElsewhere) {
        this.shown = place?.id;
        this.writing.stop();
        this.#showTyping("");
      }
      this.unread.delete(place?.id);
      this.#fillPlaces();
      this.part(".address").textContent = this.part(".place").title = place?.address ?? "";
      this.#showParent(this.places.find((each) => each.id === place?.parent_id));
      const path = this.path(`messages?place=${encodeURIComponent(place?.id ?? "")}`);
      const given = place ? await call("GET", path) : { messages: [] };
      if (place?.id === this.place?.id) {
        this.talk.draw(given.messages.filter((each) => this.#isSeen(each)));
        this.onChoice(this);
      }
    });
  }

  // What may be tried is shown as long as nothing has been said; a press writes it down, and sends nothing yet.
  #offer(tries) {
    const offered = tries.map((text) => {
      const button = Object.assign(document.createElement("button"), { type: "button", className: "quiet", textContent: text });
      button.addEventListener("click", () => this.writing.begin(text));
      const item = document.createElement("li");
      item.append(button);
      return item;
    });
    this.part(".tries").replaceChildren(...offered);
    this.part(".tries").hidden = !tries.length;
  }

  #showParent(parent) {
    const back = this.part(".back");
    back.hidden = !parent;
    back.textContent = parent ? `‹ ${parent.kind === "dm" ? "direct chat" : parent.title}` : "";
    back.dataset.place = parent?.id ?? "";
  }

  async #goTo(place_id) {
    this.part(".place").value = place_id;
    await this.#load();
    this.part("textarea").focus();
  }

  // What was said went where the platform put it: on Slack an answer opens a thread.
  async #follow(said) {
    if (said && said.place_id !== this.place?.id) {
      await this.refresh();
      await this.#goTo(said.place_id);
    } else {
      this.talk.toEnd();
    }
  }

  #around(said) {
    const query = (number) => new URLSearchParams({ place: said.place_id, message: said.id, number });
    return {
      isMine: said.author.id === this.person?.id,
      quoted: this.talk.messages.get(said.reply_to),
      thread: this.places.find((each) => each.root_id === said.id && each.parent_id === this.place?.id),
      can: this.can,
      fileUrl: (_, number) => this.path(`file?${query(number)}`),
    };
  }

  // --- what happens

  see(event) {
    if (this.loading) {
      this.held.push(event);
    } else if (event.kind === "place") {
      this.refresh().catch(this.report);
    } else if (event.place_id === this.place?.id) {
      this.#seeHere(event);
    } else if (event.kind === "said" && this.#isSeen(event.said)) {
      this.unread.add(event.place_id);
      this.#fillPlaces();
      this.onNews(this);
    }
  }

  #seeHere(event) {
    if (event.kind === "typing") {
      this.#showTyping(event.status);
    } else if (event.kind === "deleted") {
      this.talk.remove(event.message_id);
    } else if (event.kind === "toast") {
      this.#showToast(event);
    } else if (event.kind === "draft") {
      this.talk.draft(event.said);
    } else if (this.#isSeen(event.said)) {
      this.talk.keep(event.said);
      if (event.kind === "said") {
        this.onNews(this);
        this.#showTyping(event.said.author.is_bot ? "" : this.doing);
      }
    }
    this.faults.soon();
  }

  #isSeen(said) {
    return !said.only_for || said.only_for === this.person?.id;
  }

  #showToast({ person_id, status }) {
    if (person_id === this.person?.id) {
      const line = this.part(".toast");
      clearTimeout(this.toastEnds);
      line.textContent = status;
      line.hidden = false;
      this.toastEnds = setTimeout(() => (line.hidden = true), TOAST_MS);
    }
  }

  #showTyping(status) {
    const line = this.part(".typing");
    clearTimeout(this.typingEnds);
    this.doing = status;
    const told = (DOING[status] ?? status ?? "").replaceAll("_", " ").replace(/(\.{3}|…)$/, "");
    line.textContent = told.startsWith("is ") ? `bot ${told}` : told;
    line.dataset.on = Boolean(status);
    if (status) {
      this.typingEnds = setTimeout(() => this.#showTyping(""), TYPING_MS);
    }
  }

  // --- what people do

  #listen() {
    this.part(".person").addEventListener("change", () => {
      this.#fillPlaces();
      this.#load().catch(this.report);
    });
    this.part(".place").addEventListener("change", () => this.#load().catch(this.report));
    this.part(".back").addEventListener("click", () => this.#goTo(this.part(".back").dataset.place).catch(this.report));
  }

  async #act(name, said, button_id) {
    const asked = { person_id: this.person.id, place_id: said.place_id, message_id: said.id };
    this.report("");
    if (name === "press") {
      await call("POST", this.path("press"), { ...asked, button_id });
    } else if (name === "reply") {
      this.writing.reply(said);
    } else if (name === "change") {
      this.writing.change(said);
    } else if (name === "remove") {
      await call("DELETE", this.path("messages"), { place_id: said.place_id, message_id: said.id });
    } else if (name === "branch") {
      const title = [...said.text.split("\n")[0]].slice(0, TITLE_CHARS).join("") || "Thread";
      await this.#open(await call("POST", this.path("thread"), { ...asked, title }));
    } else if (name === "share") {
      const own = this.places.find((each) => each.kind === "dm" && each.person_id === this.person.id);
      await call("POST", this.path("share"), { ...asked, to_id: own.id });
      await this.#goTo(own.id);
    }
  }

  async #open(thread) {
    this.opened.push(thread);
    await this.refresh();
    await this.#goTo(thread.id);
  }

  async #added(what, made) {
    await this.refresh();
    this.part(`.${what}`).value = made.id;
    if (what === "person") {
      this.#fillPlaces();
      this.part(".place").selectedIndex = 0;
    }
    await this.#load();
  }
}
