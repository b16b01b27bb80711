// Who belongs together: the sub-agents that one turn asked for, with all that work for them. Nothing changes its place
// but a family whose last sub-agent ends: those at work come first, the newest of each in front. In a family each stands
// behind whom it works for, in the order in which they were asked for.

const asked = (one, other) => Date.parse(one.created_at) - Date.parse(other.created_at) || (one.id < other.id ? -1 : 1);
const isLive = task => task.finished_at === null;

// [{ id, key, isLive, members: [{ task, level, parent }] }], `parent` null where it is not on the board.
export function families(tasks) {
  const byId = new Map(tasks.map(task => [task.id, task]));
  const below = Map.groupBy([...tasks].sort(asked), task => (byId.has(task.parent_task_id) ? task.parent_task_id : null));
  const members = (task, level) => [
    { task, level, parent: byId.get(task.parent_task_id) ?? null },
    ...(below.get(task.id) ?? []).flatMap(child => members(child, level + 1)),
  ];
  const turns = Map.groupBy(below.get(null) ?? [], task => task.turn_id);
  return [...turns].map(([id, roots]) => family(id, roots.flatMap(root => members(root, 0)))).sort(newest);
}

function family(id, members) {
  return { id, key: members[0].task.key, isLive: members.some(({ task }) => isLive(task)), members };
}

function newest(one, other) {
  if (one.isLive !== other.isLive) return one.isLive ? -1 : 1;
  return asked(other.members[0].task, one.members[0].task);
}

// From the first start to the last end, or until now; null before anything has begun. What works for another is counted
// there: tokens and cost are those of the first in line.
export function sums({ members }) {
  const begun = members.map(({ task }) => task).filter(task => task.started_at !== null);
  const firsts = members.filter(({ level }) => level === 0).map(({ task }) => task);
  const since = Math.min(...begun.map(task => Date.parse(task.started_at)));
  const until = Math.max(...begun.map(task => Date.parse(task.started_at) + task.duration_ms));
  return {
    duration_ms: begun.length ? until - since : null,
    tokens: firsts.reduce((sum, task) => sum + task.tokens, 0),
    cost: firsts.reduce((sum, task) => sum + task.cost, 0),
  };
}
