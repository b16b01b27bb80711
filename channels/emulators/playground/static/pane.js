// One platform: who writes, where, what was said there, and the switches that make it fail.

import { button, call, explained, keyOf, make, ownCall } from "./api.js";
import { fromAdmin } from "./inside.js";
import { Talk } from "./talk.js";
import { Writing } from "./writing.js";

const TYPING_MS = 5500;
const TOAST_MS = 6000;
const TITLE_CHARS = 60;
const ROLES = ["admin", "member", "guest", "stranger", "blocked"];
const LANGUAGES = { en: "English", de: "Deutsch", es: "Español", ru: "Русский", zh: "中文" };
const TAGS = { discord: { en: "en-US", es: "es-ES", zh: "zh-CN" }, slack: { en: "en-US", de: "de-DE", es: "es-ES", ru: "ru-RU", zh: "zh-CN" } };
const DOING = { typing: "is typing", upload_photo: "is sending a photo", upload_document: "is sending a file" };

export class Pane {
  constructor({ platform, can, bot, tries, inside, onChoice, onNews }) {
    Object.assign(this, { platform, can, bot, inside, onChoice, onNews });
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
    const where = () => ({ person: this.person, place: this.place, places: this.places, people: [bot, ...this.people] });
    this.faults = new Faults(platform, this.part(".faults"), this.report);
    this.talk = new Talk(this.part(".said"), this.part(".news"), (said) => this.#around(said), (...act) =>
      this.#act(...act).catch(this.report),
    );
    this.writing = new Writing({
      form: this.part(".write"), path, can, where, report: this.report,
      said: (said) => this.#follow(said).catch(this.report),
    });
    this.part(".role").append(...ROLES.map((role) => new Option(role, role)));
    this.part(".language").append(...Object.entries(LANGUAGES).map(([tag, name]) => new Option(name, tag)));
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
      await Promise.all([this.#load(), this.faults.refresh(), this.#learnRoles()]);
    });
  }

  // What each person is to the bot: what an admin decided, else a stranger.
  async #learnRoles() {
    const grants = await fromAdmin("grants").catch(() => undefined);
    this.roles = grants && new Map(grants.map(({ key, role }) => [key, role]));
    this.#showAbout();
  }

  get key() {
    return keyOf(this.platform, this.person?.id);
  }

  #showAbout() {
    this.part(".role").disabled = !this.roles;
    this.part(".role").value = this.roles?.get(this.key) ?? "stranger";
    this.part(".language").value = (this.person?.language || "en").split("-")[0];
  }

  async #grant(role) {
    await ownCall("PUT", `/admin/grants/${encodeURIComponent(this.key)}`, { role });
    await this.#learnRoles();
  }

  async #speak(language) {
    const tag = TAGS[this.platform]?.[language] ?? language;
    await call("POST", this.path("language"), { person_id: this.person.id, language: tag });
    this.people = (await call("GET", this.path("people"))).people;
    this.writing.menu.forget();
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
    const people = this.people.filter((each) => !each.is_bot);
    refill(this.part(".person"), people.map((each) => new Option(each.name, each.id)));
    this.#showAbout();
  }

  #fillPlaces() {
    refill(this.part(".place"), placeOptions(this.places, this.person, this.unread));
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
        this.part(".tries").open = !this.talk.messages.size;
        this.onChoice(this);
      }
    });
  }

  // What may be tried is unfolded until something has been said; a press writes it down, and sends nothing yet.
  #offer(tries) {
    const offered = tries.map(({ topic, text, place }) => {
      const offer = button({ className: "quiet" }, () => this.#try(text, place).catch(this.report));
      offer.append(make("b", { textContent: topic }), " ", make("code", { textContent: text }));
      return make("li", {}, offer);
    });
    this.part(".tries ul").append(...offered);
    this.part(".tries").hidden = !tries.length;
  }

  async #try(text, where) {
    const kinds = where === "group" ? ["group", "thread"] : ["dm"];
    if (!kinds.includes(this.place?.kind)) {
      const there = this.places.find((each) => each.kind === kinds[0] && [null, this.person.id].includes(each.person_id));
      await this.#goTo(there.id);
    }
    this.part(".mention").checked = where === "group";
    this.writing.begin(text);
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

  // Says something as the chosen person in the chosen place, to the bot, beside what is being written.
  say(text) {
    const { person, place } = this;
    const asked = { person_id: person.id, place_id: place.id, text, mention_bot: place.kind !== "dm" };
    return call("POST", this.path("say"), asked);
  }

  // What was said went where the platform put it: on Slack an answer opens a thread.
  async #follow(said) {
    if (said) {
      this.onceSaid?.(said);
      this.onceSaid = undefined;
    }
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
      this.part(".tries").open &&= this.talk.messages.size > 0; // the first message folds them
      this.talk.keep(event.said);
      if (event.kind === "said") {
        this.#learnRoles(); // perhaps it says that one is let in
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
    this.part(".role").addEventListener("change", ({ target }) => this.#grant(target.value).catch(this.report));
    this.part(".language").addEventListener("change", ({ target }) => this.#speak(target.value).catch(this.report));
    this.part(".person").addEventListener("change", () => {
      this.#learnRoles();
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
    } else if (name === "trace") {
      this.inside.showTrace(this.platform, said);
    } else if (name === "seen") {
      await this.inside.showSeen(this.platform, said);
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
      this.#showAbout();
    }
    await this.#load();
  }
}

// What was chosen stays chosen, as long as it is there.
function refill(select, options) {
  const chosen = select.value;
  select.replaceChildren(...options);
  select.value = options.some((each) => each.value === chosen) ? chosen : (options[0]?.value ?? "");
}

// The places a person can write in, as options: their direct chat, then each group, with its threads below it.
function placeOptions(places, person, unread) {
  const option = (place, name) => new Option(unread.has(place.id) ? `${name} •` : name, place.id);
  const threadsOf = (parentId) => places.filter((each) => each.kind === "thread" && each.parent_id === parentId);
  const withThreads = (place, name) =>
    [option(place, name), ...threadsOf(place.id).map((thread) => option(thread, `\u2003↳ ${thread.title}`))];
  const direct = places.filter((each) => each.kind === "dm" && each.person_id === person?.id);
  const groups = places.filter((each) => each.kind === "group");
  return [
    ...direct.flatMap((place) => withThreads(place, "direct chat")),
    ...groups.flatMap((group) => withThreads(group, group.title)),
  ];
}

// The form for somebody or somewhere new.

class Adding {
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

// The fault switches of one pane. What strikes a number of times is armed by a press and goes back by itself.

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

class Faults {
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
    const row = explained(label, about, `${platform}-${label.replaceAll(" ", "-")}`, () => act().catch(this.report));
    const button = row.firstElementChild;
    button.append(make("span"));
    if (name) {
      button.setAttribute("aria-pressed", "false");
      this.buttons.set(name, { button, label });
    }
    return row;
  }
}

const ALL_OFF = Object.fromEntries([
  ...COUNTED.map(([name]) => [name, 0]),
  ...LASTING.map(([name, , , , off]) => [name, off]),
]);
