// One message as a list item. `said.html` comes from the emulator, which escapes all that people wrote.

const HUES = 360;
const FAR_APART = 137; // neighbouring ids get hues that cannot be mistaken for each other

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

export function render(said, isMine, quoted, actions) {
  const item = document.getElementById("message").content.firstElementChild.cloneNode(true);
  const part = (selector) => item.querySelector(selector);
  item.dataset.id = said.id;
  item.dataset.mine = isMine;
  item.dataset.bot = said.author.is_bot;
  part(".face").textContent = initialsOf(said.author.name);
  part(".face").style.setProperty("--hue", hueOf(said.author.id));
  part(".who b").textContent = said.author.name;
  part(".badge").hidden = !said.author.is_bot;
  const at = new Date(said.at_ms);
  part("time").dateTime = at.toISOString();
  part("time").textContent = at.toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" });
  part(".edited").hidden = !said.edited;
  part(".text").innerHTML = said.html;
  if (said.reply_to) {
    part(".quoted").hidden = false;
    part(".quoted").textContent = quoted ? `${quoted.author.name}: ${quoted.text}` : "a message that is gone";
  }
  for (const name of said.files) {
    part(".files").hidden = false;
    part(".files").append(Object.assign(document.createElement("li"), { textContent: name }));
  }
  part(".private").hidden = !said.only_for;
  part(".buttons").hidden = !said.buttons.length;
  for (const { id, label } of said.buttons) {
    const button = Object.assign(document.createElement("button"), { type: "button", textContent: label });
    button.dataset.id = id;
    button.addEventListener("click", () => actions.press(said, id));
    part(".buttons").append(button);
  }
  part(".reply").addEventListener("click", () => actions.reply(said));
  part(".change").hidden = part(".remove").hidden = !isMine;
  part(".change").addEventListener("click", () => actions.change(said));
  part(".remove").addEventListener("click", () => actions.remove(said));
  return item;
}
