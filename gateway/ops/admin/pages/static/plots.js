// Plots as SVG: what they are drawn of. Everything is in pixels of the place where it stands; colours are classes.

const HEIGHT = 150;
const LEFT = 52; // for the numbers of the scale
const TOP = 8;
const BOTTOM = 22; // for the names below

export function draw(name, attributes, ...children) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

// Where a scale ends that holds `value`: at a number that one can halve in one's head.
function roundUp(value) {
  if (value <= 0) return 1;
  const ten = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 4, 6, 8, 10].map(step => step * ten).find(step => step >= value * 0.999999);
}

// A frame with three lines and their numbers. `say` says a number; `least` is the least that a scale ends at.
export function frame(place, most, { say, least = 0 }) {
  const width = Math.max(place.clientWidth, 200);
  const top = Math.max(roundUp(most), least);
  const y = value => TOP + (HEIGHT - TOP - BOTTOM) * (1 - value / top);
  const lines = [0, top / 2, top].flatMap(value => [
    draw("line", { class: "grid", x1: LEFT, x2: width, y1: y(value), y2: y(value) }),
    draw("text", { class: "scale", x: LEFT - 8, y: y(value) + 4, "text-anchor": "end" }, say(value)),
  ]);
  return { left: LEFT, width, y, base: HEIGHT - 6, lines };
}

// Hidden from those who do not see: what it shows stands in words beside it.
export function put(place, { width }, ...parts) {
  place.replaceChildren(draw("svg", { width, height: HEIGHT, viewBox: `0 0 ${width} ${HEIGHT}`, "aria-hidden": "true" }, ...parts));
}
