// Forms that do something. Each is a request to our API, which a script could make as well: `data-way` and `action` are
// its method and path, its fields the body (a field with `data-query` goes into the address, one with `data-path` into
// `{name}` of the path). `data-asks` is what is asked once before, `data-means` what it means, `data-done` what is said
// afterwards; `{name}` in them is a value of the answer. `data-then` is the page that comes next.

const part = id => document.getElementById(id);
const SAID = "trivet-said"; // survives the reload that shows what has changed

export function say(text, isTrouble = false) {
  part("told").textContent = text;
  part("told").classList.toggle("trouble", isTrouble);
}

function sure({ asks, means }, button) {
  if (!asks) return Promise.resolve(true);
  const dialog = part("sure");
  part("sure-title").textContent = asks;
  part("sure-means").textContent = means ?? "";
  part("yes").textContent = button.textContent.trim() || "Yes";
  dialog.showModal();
  part("no").focus();
  return new Promise(answer => {
    const end = isSure => () => { dialog.onclose = null; dialog.close(); answer(isSure); };
    part("yes").onclick = end(true);
    part("no").onclick = end(false);
    dialog.onclose = () => answer(false);
  });
}

function valueOf(field) {
  const text = field.value.trim();
  if (field.type === "checkbox") return field.checked;
  if (field.dataset.kind === "list") return text.split(/[\s,]+/).filter(Boolean);
  return field.type === "number" ? Number(text) : text;
}

function requestOf(form) {
  let path = form.getAttribute("action");
  const body = {};
  const query = new URLSearchParams();
  for (const field of form.elements) {
    if (!field.name || (field.value.trim() === "" && !("empty" in field.dataset))) continue;
    if ("path" in field.dataset) path = path.replace(`{${field.name}}`, encodeURIComponent(field.value.trim()));
    else if ("query" in field.dataset) query.set(field.name, field.value.trim());
    else body[field.name] = valueOf(field);
  }
  const way = form.dataset.way;
  const more = way === "PUT" || Object.keys(body).length ? { body: JSON.stringify(body) } : {};
  return [query.size ? `${path}?${query}` : path, way, more];
}

function troubleOf(detail, status) {
  if (Array.isArray(detail)) return detail.map(each => `${each.where.at(-1)}: ${each.problem}`).join("; ");
  return detail ?? `it was refused (${status})`;
}

const filled = (text, values) => text.replace(/\{(\w+)\}/g, (_, name) => values?.[name] ?? "");

async function act(form, button) {
  if (!(await sure(form.dataset, button))) return;
  const [path, method, more] = requestOf(form);
  const headers = { "Trivet-Form-Token": document.body.dataset.formToken, "Content-Type": "application/json" };
  button.disabled = true;
  try {
    const answer = await fetch(path, { method, headers, cache: "no-store", ...more });
    const said = await answer.json().catch(() => null);
    if (answer.ok) {
      sessionStorage.setItem(SAID, filled(form.dataset.done ?? "", said));
      if (form.dataset.then) location.assign(form.dataset.then);
      else location.reload();
    } else if (answer.status === 401) say("You are signed out. Sign in again; nothing was changed.", true);
    else say(`Nothing was changed: ${troubleOf(said?.detail, answer.status)}.`, true);
  } catch {
    say("Trivet does not answer. It is not known whether that was done: look again in a moment.", true);
  } finally {
    button.disabled = false;
  }
}

addEventListener("submit", event => {
  const form = event.target;
  if (!form.dataset.way) return; // a form that asks for a page
  event.preventDefault();
  act(form, event.submitter ?? form.querySelector("button"));
});

document.querySelector("nav [aria-current]")?.scrollIntoView({ inline: "center", block: "nearest" }); // on a phone

const before = sessionStorage.getItem(SAID);
if (before) say(before);
sessionStorage.removeItem(SAID);

// A page that is looked at shows what happens: its parts with `data-live` are fetched again every few seconds, unless
// somebody is busy in them. Nobody asks while it is hidden, so the admin process may rest.
const EVERY_MS = 4000;

const isBusy = element => element.contains(document.activeElement) || element.querySelector("details[open], dialog[open]");

async function refresh() {
  const live = [...document.querySelectorAll("[data-live]")];
  if (!live.length || document.hidden || part("sure").open) return;
  const answer = await fetch(location.href, { cache: "no-store" });
  if (!answer.ok || answer.redirected) return;
  const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
  for (const element of live) {
    const other = fresh.getElementById(element.id);
    if (other && !isBusy(element) && other.innerHTML !== element.innerHTML) element.replaceWith(other);
  }
}

setInterval(() => refresh().catch(() => {}), EVERY_MS);
