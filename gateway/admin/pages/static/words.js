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
  const seconds = Math.floor(ms / 1000);
  if (seconds < 60) return `${seconds} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ${seconds % 60} s`;
  return `${Math.floor(seconds / 3600)} h ${Math.floor(seconds / 60) % 60} min`;
}

export const tokens = count => (count < 1000 ? String(count) : `${(count / 1000).toFixed(1)}k`);

export const cost = dollars => (dollars === 0 ? "$0" : `$${dollars.toFixed(dollars < 0.1 ? 4 : 2)}`);

export const reason = word => word.replaceAll("_", " ");

// "2 running, 1 waits, 8 completed" of the states that occur.
export function summary(tasks) {
  const counts = Object.keys(STATES).map(state => [STATES[state], tasks.filter(task => task.state === state).length]);
  return counts.filter(([, count]) => count).map(([word, count]) => `${count} ${word}`).join(" · ");
}
