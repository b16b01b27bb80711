// Says when to look: at each event of a stream, and every three seconds while there is no stream.

import { LOOK_EVERY_MS } from "./looks.js";

const REOPEN_AFTER_MS = 10000; // a stream that was refused is tried again; one that was cut the browser opens itself

// `look` is called when something may have changed, `linked` with "live" or "polling" whenever that changes.
export function follow(url, { look, linked }) {
  let looking = null;

  const live = () => {
    clearInterval(looking);
    looking = null;
    linked("live");
  };
  const lost = () => {
    if (looking !== null) return;
    looking = setInterval(look, LOOK_EVERY_MS);
    linked("polling");
    look();
  };
  const open = () => {
    const source = new EventSource(url);
    source.addEventListener("open", () => { live(); look(); });
    source.addEventListener("board", () => look());
    source.addEventListener("error", () => {
      lost();
      if (source.readyState === EventSource.CLOSED) setTimeout(open, REOPEN_AFTER_MS);
    });
    addEventListener("pagehide", () => source.close(), { once: true });
  };
  open();
}
