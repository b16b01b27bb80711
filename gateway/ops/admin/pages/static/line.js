// A line over the last minutes. Right is now.

import { draw, frame, put } from "./plots.js";
import { duration } from "./words.js";

// `points`: [{ at, value }], oldest first, `at` in milliseconds; `span_ms` is how much of the past is shown.
export function drawLine(place, points, { span_ms, say, least }) {
  const now = points.at(-1).at;
  const made = frame(place, Math.max(...points.map(({ value }) => value)), { say, least });
  const x = at => made.width - 2 - ((now - at) / span_ms) * (made.width - made.left);
  const along = points.map(({ at, value }) => `${x(at).toFixed(1)},${made.y(value).toFixed(1)}`);
  const area = [`${x(points[0].at).toFixed(1)},${made.y(0)}`, ...along, `${x(now)},${made.y(0)}`];
  put(
    place,
    made,
    ...made.lines,
    draw("polygon", { class: "area", points: area.join(" ") }),
    draw("polyline", { class: "line", points: along.join(" ") }),
    draw("text", { class: "scale", x: made.left, y: made.base }, `${duration(span_ms)} ago`),
    draw("text", { class: "scale", x: made.width, y: made.base, "text-anchor": "end" }, "now"),
  );
}
