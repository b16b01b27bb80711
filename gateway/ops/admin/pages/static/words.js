// Numbers and states as people read them.

export const STATES = {
  queued: "waits",
  running: "running",
  completed: "completed",
  failed: "failed",
  cancelled: "cancelled",
  timed_out: "timed out",
};

export function duration(ms) {
  const seconds = Math.round(ms / 1000);
  if (seconds < 60) return `${seconds} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min${seconds % 60 ? ` ${seconds % 60} s` : ""}`;
  return `${Math.floor(seconds / 3600)} h ${Math.floor(seconds / 60) % 60} min`;
}

// The pages are English, so are their numbers.
const short = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });
const dollars = places =>
  new Intl.NumberFormat("en", { style: "currency", currency: "USD", minimumFractionDigits: places, maximumFractionDigits: places });
const money = { none: dollars(0), some: dollars(2), little: dollars(4) };

export const tokens = count => short.format(count).replace("K", "k");

export const cost = usd => money[usd === 0 ? "none" : usd < 0.1 ? "little" : "some"].format(usd);

// "21:04" of today, else with its day.
export function moment(iso) {
  const at = new Date(iso);
  const isToday = at.toDateString() === new Date().toDateString();
  return at.toLocaleString([], isToday ? { timeStyle: "short" } : { dateStyle: "medium", timeStyle: "short" });
}

export const people = count => (count === 1 ? "1 sub-agent" : `${count} sub-agents`);

// "runs file_read, shell": what a sub-agent does now; "" where nothing is known of it.
export function doing(now) {
  const named = now?.tools.join(", ");
  switch (now?.what) {
    case "model":
      return "asks its model";
    case "tools":
      return `runs ${named || "a tool"}`;
    case "sub_agents":
      return `waits for ${people(now.sub_agents)}`;
    case "approval":
      return `waits for approval${named ? ` of ${named}` : ""}`;
    default:
      return "";
  }
}

// "2 running, 1 waits, 8 completed" of the states that occur.
export function summary(tasks) {
  const counts = Object.keys(STATES).map(state => [STATES[state], tasks.filter(task => task.state === state).length]);
  return counts.filter(([, count]) => count).map(([word, count]) => `${count} ${word}`).join(" · ");
}

// Only what changed, so that nobody who listens to the page hears it all again.
export function write(element, selector, text) {
  const part = element.querySelector(selector);
  if (part.textContent !== text) part.textContent = text;
}
