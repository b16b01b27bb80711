// One bar for each day, stacked of parts: each has the colour of its place, `part-0` and on.

import { draw, frame, put } from "./plots.js";

const NAMES_EVERY_PX = 72;

// `bars`: [{ name, parts, title }], `name` stands below a bar where there is room.
export function drawBars(place, bars, { say, least }) {
  const most = Math.max(...bars.map(({ parts }) => parts.reduce((sum, part) => sum + part, 0)));
  const made = frame(place, most, { say, least });
  const step = (made.width - made.left) / bars.length;
  const every = Math.ceil(NAMES_EVERY_PX / step);
  const drawn = bars.flatMap(({ name, parts, title }, nth) => {
    const x = made.left + nth * step;
    let below = 0;
    const rects = parts.map((part, number) => {
      const [y, bottom] = [made.y(below + part), made.y(below)];
      below += part;
      return draw("rect", { class: `part-${number}`, x: x + step * 0.12, y, width: step * 0.76, height: bottom - y });
    });
    const hint = draw("title", {}, title);
    const isNamed = (bars.length - 1 - nth) % every === 0;
    const label = { class: "scale", x: x + step / 2, y: made.base, "text-anchor": nth === bars.length - 1 && every > 1 ? "end" : "middle" };
    const whole = draw("rect", { class: "hit", x, y: 0, width: step, height: made.y(0) });
    return [draw("g", {}, hint, ...rects, whole), ...(isNamed ? [draw("text", label, name)] : [])];
  });
  put(place, made, ...made.lines, ...drawn);
}
