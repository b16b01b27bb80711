// What was spent, summed up: by day, by user, and by both, for one measure.

export const MEASURES = ["cost", "tokens", "calls", "turns"];
const NAMED = 5; // users with a colour of their own; the others share one

const nothing = () => ({ cost: 0, tokens: 0, calls: 0, turns: 0 });

function add(sum, row) {
  sum.cost += row.cost;
  sum.tokens += row.prompt_tokens + row.completion_tokens;
  sum.calls += row.calls;
  sum.turns += row.turns;
  return sum;
}

// "2026-11-22" and the days before it, oldest first, in UTC as the ledger counts them.
export function lastDays(count, now = Date.now()) {
  return Array.from({ length: count }, (_, place) => new Date(now - (count - 1 - place) * 86_400_000).toISOString().slice(0, 10));
}

const summed = (rows, of) =>
  rows.reduce((sums, row) => sums.set(row[of], add(sums.get(row[of]) ?? nothing(), row)), new Map());

export const total = rows => rows.reduce(add, nothing());

// [[key, sums]], the greatest spender first.
export function byUser(rows, measure) {
  const found = [...summed(rows, "key")];
  return found.sort(([, one], [, other]) => other[measure] - one[measure] || other.tokens - one.tokens);
}

// [{ day, sums, parts }]: every one of `days`; `parts` are the amounts of each of `names`, and of all others last.
export function byDay(rows, days, measure, names) {
  const ofDay = Map.groupBy(rows, row => row.day);
  return days.map(day => {
    const users = summed(ofDay.get(day) ?? [], "key");
    const sums = total(ofDay.get(day) ?? []);
    const parts = names.map(name => users.get(name)?.[measure] ?? 0);
    return { day, sums, parts: [...parts, Math.max(sums[measure] - parts.reduce((sum, part) => sum + part, 0), 0)] };
  });
}

export const named = users => users.slice(0, NAMED).map(([key]) => key);
