// One platform: who writes, where, what was said there, and the switches that make it fail.

import { call } from "./api.js";
import { Faults } from "./faults.js";
import { render } from "./message.js";
import { placeOptions } from "./places.js";

const TYPING_MS = 5500;
const TOAST_MS = 6000;
const NEAR_END_PX = 80;

export class Pane {
  constructor(platform, onChoice) {
    this.platform = platform;
    this.onChoice = onChoice;
    this.people = [];
    this.places = [];
    this.messages = new Map();
    this.unread = new Set();
    this.loading = 0;
    this.held = [];
    this.answering = null;
    this.changing = null;
    this.element = document.getElementById("pane").content.firstElementChild.cloneNode(true);
    this.element.dataset.platform = platform;
    this.element.id = `pane-${platform}`;
    this.element.setAttribute("aria-label", platform);
    this.part("h2").textContent = platform;
    this.part("textarea").id = `text-${platform}`;
    this.part(".write label.hidden").htmlFor = `text-${platform}`;
    this.part(".said").setAttribute("aria-label", `Messages on ${platform}`);
    this.faults = new Faults(platform, this.part(".faults"), this.report);
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
      this.places = places.places;
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
      if (place?.id !== this.shown) {
        this.shown = place?.id;
        this.#stopReply();
        this.#showTyping("");
      }
      this.unread.delete(place?.id);
      this.#fillPlaces();
      this.part(".address").textContent = place?.address ?? "";
      const path = this.path(`messages?place=${encodeURIComponent(place?.id ?? "")}`);
      const given = place ? await call("GET", path) : { messages: [] };
      if (place?.id === this.place?.id) {
        this.messages = new Map(given.messages.filter((each) => this.#isSeen(each)).map((each) => [each.id, each]));
        this.#draw();
        this.onChoice(this);
      }
    });
  }

  #draw() {
    this.part(".said").replaceChildren(...[...this.messages.values()].map((said) => this.#item(said)));
    this.#toEnd();
  }

  #item(said) {
    const actions = {
      reply: (which) => this.#startReply(which),
      change: (which) => this.#startChange(which),
      remove: (which) => this.#remove(which),
      press: (which, button) => this.#press(which, button).catch(this.report),
    };
    return render(said, said.author.id === this.person?.id, this.messages.get(said.reply_to), actions);
  }

  #isAtEnd() {
    const list = this.part(".said");
    return list.scrollHeight - list.scrollTop - list.clientHeight < NEAR_END_PX;
  }

  #toEnd() {
    this.part(".said").scrollTop = this.part(".said").scrollHeight;
  }

  // --- what happens

  see(event) {
    if (this.loading) {
      this.held.push(event);
    } else if (event.kind === "place") {
      this.refresh().catch(this.report);
    } else if (event.place_id === this.place?.id) {
      this.#seeHere(event);
    } else if (event.kind === "said") {
      this.unread.add(event.place_id);
      this.#fillPlaces();
    }
  }

  #seeHere(event) {
    if (event.kind === "typing") {
      this.#showTyping(event.status);
    } else if (event.kind === "deleted") {
      this.messages.delete(event.message_id);
      this.part(`li[data-id="${CSS.escape(event.message_id)}"]`)?.remove();
    } else if (event.kind === "toast") {
      this.#showToast(event);
    } else if (this.#isSeen(event.said)) {
      this.#keep(event.said);
    }
    this.faults.refresh().catch(this.report);
  }

  #keep(said) {
    const list = this.part(".said");
    const isAtEnd = this.#isAtEnd();
    const old = this.part(`li[data-id="${CSS.escape(said.id)}"]`);
    this.messages.set(said.id, said);
    if (old) {
      const item = this.#item(said); // a button that had the focus may be gone: its message takes it
      const hadFocus = old.contains(document.activeElement);
      old.replaceWith(item);
      if (hadFocus) {
        item.focus();
      }
    } else {
      list.append(this.#item(said));
      if (said.author.is_bot) {
        this.#showTyping("");
      }
    }
    if (isAtEnd) {
      this.#toEnd();
    }
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
    line.textContent = status && status !== "typing" ? `bot: ${status.replaceAll("_", " ")}` : status && "bot is typing";
    line.dataset.on = Boolean(status);
    if (status) {
      this.typingEnds = setTimeout(() => this.#showTyping(""), TYPING_MS);
    }
  }

  // --- what people do

  #listen() {
    const list = this.part(".said");
    list.addEventListener("scroll", () => (this.isAtEnd = this.#isAtEnd()));
    new ResizeObserver(() => this.isAtEnd !== false && this.#toEnd()).observe(list);
    this.part(".person").addEventListener("change", () => {
      this.#fillPlaces();
      this.#load().catch(this.report);
    });
    this.part(".place").addEventListener("change", () => this.#load().catch(this.report));
    this.part(".add-person").addEventListener("click", () => this.#openNew("person"));
    this.part(".add-place").addEventListener("click", () => this.#openNew("place"));
    this.part(".new .cancel").addEventListener("click", () => this.#closeNew());
    this.part(".new").addEventListener("submit", (submitted) => {
      submitted.preventDefault();
      this.#add().catch(this.report);
    });
    this.part(".new").addEventListener("keydown", (pressed) => pressed.key === "Escape" && this.#closeNew());
    this.part(".answering button").addEventListener("click", () => this.#stopReply());
    this.part(".write").addEventListener("submit", (submitted) => {
      submitted.preventDefault();
      this.#send().catch(this.report);
    });
    this.part("textarea").addEventListener("keydown", (pressed) => {
      if (pressed.key === "Enter" && !pressed.shiftKey && !pressed.isComposing) {
        pressed.preventDefault();
        this.part(".write").requestSubmit();
      } else if (pressed.key === "Escape") {
        this.#stopReply();
      }
    });
    this.part("textarea").addEventListener("input", () => this.#fit());
  }

  #fit() {
    const area = this.part("textarea");
    area.style.height = "auto";
    area.style.height = `${area.scrollHeight + 2}px`;
  }

  async #press(said, button_id) {
    this.part(".problem").textContent = "";
    const pressed = { person_id: this.person.id, place_id: this.place.id, message_id: said.id, button_id };
    await call("POST", this.path("press"), pressed);
  }

  async #send() {
    const text = this.part("textarea").value;
    if (!text.trim() || !this.person || !this.place) {
      return;
    }
    this.part(".problem").textContent = "";
    if (this.changing) {
      await call("PATCH", this.path("messages"), { place_id: this.place.id, message_id: this.changing.id, text });
    } else {
      await call("POST", this.path("say"), {
        person_id: this.person.id,
        place_id: this.place.id,
        text,
        mention_bot: this.part(".mention").checked,
        reply_to: this.answering?.id,
      });
    }
    this.part("textarea").value = "";
    this.#fit();
    this.#stopReply();
    this.#toEnd();
  }

  async #remove(said) {
    await call("DELETE", this.path("messages"), { place_id: said.place_id, message_id: said.id }).catch(this.report);
  }

  #startReply(said) {
    this.#stopReply();
    this.answering = said;
    this.#announce(`Replying to ${said.author.name}: ${said.text}`);
  }

  #startChange(said) {
    this.#stopReply();
    this.changing = said;
    this.part("textarea").value = said.text;
    this.#fit();
    this.#announce("Editing your message");
  }

  #announce(text) {
    this.part(".answering").hidden = false;
    this.part(".answering span").textContent = text;
    this.part("textarea").focus();
  }

  #stopReply() {
    if (this.changing) {
      this.part("textarea").value = "";
      this.#fit();
    }
    this.answering = this.changing = null;
    this.part(".answering").hidden = true;
  }

  // --- somebody and somewhere new

  #openNew(what) {
    const form = this.part(".new");
    this.adding = what;
    form.hidden = false;
    this.part(".new-kind").parentElement.hidden = what === "person";
    this.part(".new-title-label").textContent = what === "person" ? "Person's name" : "Name";
    this.part(".new-title").value = "";
    this.part(".new-title").focus();
  }

  #closeNew() {
    this.part(".new").hidden = true;
    this.part(this.adding === "person" ? ".add-person" : ".add-place").focus();
  }

  async #add() {
    const title = this.part(".new-title").value.trim();
    if (this.adding === "person") {
      const person = await call("POST", this.path("people"), { name: title });
      await this.refresh();
      this.part(".person").value = person.id;
      this.#fillPlaces();
      this.part(".place").selectedIndex = 0;
    } else {
      const kind = this.part(".new-kind").value;
      const parent_id = kind === "thread" ? this.#group()?.id : undefined;
      const place = await call("POST", this.path("places"), { kind, title, parent_id });
      await this.refresh();
      this.part(".place").value = place.id;
    }
    this.part(".problem").textContent = "";
    await this.#load();
    this.#closeNew();
    this.part("textarea").focus();
  }

  // A thread goes into the chosen group, the group of the chosen thread, or the first group there is.
  #group() {
    const groups = this.places.filter((each) => each.kind === "group");
    return groups.find((each) => each.id === this.place?.id || each.id === this.place?.parent_id) ?? groups[0];
  }
}
