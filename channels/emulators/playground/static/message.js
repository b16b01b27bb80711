// One message as a list item, and the same item brought up to date without building it anew.

import { shownFile } from "./files.js";
import { safe } from "./safe.js";

const HUES = 360;
const FAR_APART = 137; // neighbouring ids get hues that cannot be mistaken for each other
const PARTS = [".who", ".above", ".quoted", ".text", ".files", ".buttons", ".private", ".below"];

export function hueOf(id) {
  let sum = 7;
  for (const character of id) {
    sum = (sum * 31 + character.charCodeAt(0)) % HUES;
  }
  return (sum * FAR_APART) % HUES;
}

export function initialsOf(name) {
  return name.split(/\s+/).slice(0, 2).map((word) => [...word][0] ?? "").join("").toUpperCase();
}

// `around` is what the message itself does not know: isMine, quoted, thread, can, fileUrl(said, number).
export function render(said, around) {
  const item = document.getElementById("message").content.firstElementChild.cloneNode(true);
  const part = (selector) => item.querySelector(selector);
  item.dataset.id = said.id;
  item.dataset.mine = around.isMine;
  item.dataset.bot = said.author.is_bot;
  part(".face").textContent = initialsOf(said.author.name);
  part(".face").style.setProperty("--hue", hueOf(said.author.id));
  part(".who b").textContent = said.author.name;
  part(".badge").hidden = !said.author.is_bot;
  const at = new Date(said.at_ms);
  part("time").dateTime = at.toISOString();
  part("time").textContent = at.toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" });
  part(".edited").hidden = !said.edited;
  part(".text").append(safe(said.html));
  part(".above").hidden = !said.above;
  part(".above").textContent = said.above;
  if (said.reply_to) {
    const { quoted } = around;
    part(".quoted").hidden = false;
    part(".quoted").textContent = quoted ? `${quoted.author.name}: ${quoted.text}` : "a message that is gone";
  }
  part(".files").hidden = !said.files.length;
  part(".files").append(...said.files.map((name, number) => shownFile(name, around.fileUrl(said, number))));
  part(".private").hidden = !said.only_for;
  part(".buttons").hidden = !said.buttons.length;
  for (const { id, label } of said.buttons) {
    const button = Object.assign(document.createElement("button"), { type: "button", textContent: label });
    button.dataset.id = id;
    part(".buttons").append(button);
  }
  part(".below").hidden = !around.thread;
  part(".below").textContent = around.thread ? `Open the thread: ${around.thread.title}` : "";
  part(".change").hidden = part(".remove").hidden = !around.isMine;
  part(".branch").hidden = !around.can.has("thread");
  for (const act of item.querySelectorAll(".acts button")) {
    act.setAttribute("aria-label", `${act.textContent} (${said.author.name}, ${part("time").textContent})`);
  }
  return item;
}

// Only what differs is replaced, so that nothing flickers and an opened file or a selection elsewhere stays.
export function patch(item, newer) {
  const hadFocus = item.contains(document.activeElement);
  for (const selector of PARTS) {
    const [old, now] = [item.querySelector(selector), newer.querySelector(selector)];
    if (old.outerHTML !== now.outerHTML) {
      old.replaceWith(now);
    }
  }
  if (hadFocus && !item.contains(document.activeElement)) {
    item.focus(); // a button that had the focus is gone: its message takes it
  }
}
