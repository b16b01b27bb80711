// The page of what was spent: plots by day, and the numbers behind them by user and by day.

import { drawBars } from "./bars.js";
import { copy, element, fetched } from "./fetched.js";
import { Looks } from "./looks.js";
import { Places } from "./places.js";
import { MEASURES, byDay, byUser, lastDays, named, total } from "./spent.js";
import { cost, number, tokens, write } from "./words.js";

const PAGE = 500;
const PAGES = 20; // 10,000 rows: a hundred users for three months
const LEAST = { cost: 0.01, tokens: 4, calls: 4, turns: 4 }; // where a scale ends at the least
const SAY = { cost, tokens, calls: number, turns: number };
const dayName = new Intl.DateTimeFormat("en", { day: "numeric", month: "short", timeZone: "UTC" });

const users = new Places(element("users").tBodies[0]);
const days = new Places(element("days").tBodies[0]);
const looks = new Looks(look);
const query = new URLSearchParams(location.search);
const asked = { days: query.get("days") ?? "30", key: query.get("key") ?? "" };
let rows = [];

class Line {
  element = copy(element("line-template"));

  show({ name, sums }) {
    write(this.element, ".name", name);
    write(this.element, ".cost", cost(sums.cost));
    write(this.element, ".tokens", number(sums.tokens));
    write(this.element, ".calls", number(sums.calls));
    write(this.element, ".turns", number(sums.turns));
  }
}

class UserLine extends Line {
  constructor(key) {
    super();
    const chosen = document.createElement("button");
    chosen.type = "button";
    chosen.className = "name label-of-user";
    chosen.addEventListener("click", () => ask({ key: asked.key === key ? "" : key }));
    this.element.querySelector(".name").replaceWith(chosen);
  }

  show({ place, ...rest }) {
    super.show(rest);
    this.element.querySelector(".swatch").dataset.part = place;
    this.element.querySelector(".name").setAttribute("aria-pressed", String(asked.key === rest.name));
  }
}

// Newest day first: of more rows than we read, the oldest days are missing, and the page says so.
async function spent() {
  const found = [];
  const wanted = new URLSearchParams({ days: asked.days, limit: PAGE, ...(asked.key && { key: asked.key }) });
  for (let page = 0; page < PAGES; page++) {
    wanted.set("offset", page * PAGE);
    const more = await fetched(`/api/usage?${wanted}`);
    found.push(...more);
    if (more.length < PAGE) return { found, isWhole: true };
  }
  return { found, isWhole: false };
}

async function look() {
  try {
    const { found, isWhole } = await spent();
    rows = found;
    element("cut").hidden = isWhole;
    element("wrong").hidden = true;
  } catch (error) {
    if (error.status !== 422) throw error;
    rows = [];
    element("wrong").hidden = false;
  }
  show();
}

function show() {
  element("shown").hidden = rows.length === 0; // first: what is hidden has no width to draw in
  const all = total(rows);
  for (const measure of MEASURES) write(element("totals"), `.${measure}`, SAY[measure](all[measure]));
  const found = byUser(rows, "cost");
  const names = named(found);
  const span = lastDays(Number(asked.days));
  for (const measure of MEASURES) {
    const bars = byDay(rows, span, measure, names).map(({ day, sums, parts }) => {
      const name = dayName.format(new Date(day));
      return { name, parts, title: `${name}: ${SAY[measure](sums[measure])}` };
    });
    drawBars(element(`${measure}-plot`), bars, { say: SAY[measure], least: LEAST[measure] });
  }
  users.show(
    found.map(([key, sums], nth) => ({
      id: key,
      make: () => new UserLine(key),
      what: { name: key, sums, place: Math.min(nth, names.length) },
    })),
  );
  days.show(
    byDay(rows, span, "cost", []).filter(({ sums }) => sums.calls).reverse()
      .map(({ day, sums }) => ({ id: day, make: () => new Line(), what: { name: day, sums } })),
  );
  element("whose").textContent = asked.key ? `Only ${asked.key}.` : "Of all users.";
  element("everybody").hidden = asked.key === "";
  element("empty").hidden = rows.length > 0;
}

// Another question, which the address keeps, too.
function ask(changes) {
  Object.assign(asked, changes);
  history.replaceState(null, "", `?${new URLSearchParams(Object.entries(asked).filter(([, value]) => value))}`);
  looks.again();
}

if (![...element("span").options].some(({ value }) => value === asked.days)) asked.days = "30";
element("span").value = asked.days;
element("span").addEventListener("change", () => ask({ days: element("span").value }));
element("everybody").addEventListener("click", () => { ask({ key: "" }); element("span").focus(); });
addEventListener("resize", () => rows.length && show());
looks.watch("unhurried"); // it is much to read, and changes little
