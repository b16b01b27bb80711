// The control API of this page's own server. Every failure becomes an Error with a sentence to show.

export async function call(method, path, body) {
  const answer = await fetch(path, {
    method,
    headers: body === undefined ? {} : { "Content-Type": "application/json" },
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

// Calls `onEvent` for each event of every stage. The browser reconnects by itself; `onOpen` then catches up.
export function watch(onEvent, onOpen, onLost) {
  const source = new EventSource("/stage/events");
  source.onopen = onOpen;
  source.onerror = onLost;
  source.onmessage = (message) => onEvent(JSON.parse(message.data));
}

export function make(tag, properties) {
  return Object.assign(document.createElement(tag), properties);
}
