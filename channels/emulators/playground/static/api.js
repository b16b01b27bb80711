// The control API of this page's own server. Every failure becomes an Error with a sentence to show.

export async function call(method, path, body, headers = {}) {
  const answer = await fetch(path, {
    method,
    headers: body === undefined ? headers : { ...headers, "Content-Type": "application/json" },
    body: body === undefined ? undefined : JSON.stringify(body),
  }).catch(() => {
    throw new Error("The playground does not answer.");
  });
  const given = await answer.json().catch(() => ({}));
  if (!answer.ok) {
    throw new Error(given.error || `The playground answered ${answer.status}.`);
  }
  return given;
}

// What only this page may ask for: its server has given it a token.
export function ownCall(method, path, body) {
  return call(method, path, body, { "X-Page-Token": document.querySelector("meta[name=page-token]").content });
}

// A person's session key: no key holds a colon or a slash of an id.
export function keyOf(platform, id) {
  return `${platform}:${encodeURIComponent(id).replaceAll("%40", "@").replaceAll("%24", "$")}`;
}

// Calls `onEvent` for each event of every stage. The browser reconnects by itself; `onOpen` then catches up.
export function watch(onEvent, onOpen, onLost) {
  const source = new EventSource("/stage/events");
  source.onopen = onOpen;
  source.onerror = onLost;
  source.onmessage = (message) => onEvent(JSON.parse(message.data));
}

export function make(tag, properties = {}, ...inner) {
  const element = Object.assign(document.createElement(tag), properties);
  element.append(...inner);
  return element;
}

export function button(properties, act) {
  const made = make("button", { type: "button", ...properties });
  made.addEventListener("click", act);
  return made;
}

// An item of a list: a button, and the sentence that says what it does.
export function explained(label, about, name, act) {
  const sentence = make("p", { textContent: about, id: `about-${name}` });
  const made = button({ textContent: label }, act);
  made.setAttribute("aria-describedby", sentence.id);
  return make("li", {}, made, sentence);
}
