// Asks our own API. What it refuses is an error with its `status`.

export async function fetched(path) {
  const answer = await fetch(path, { headers: { Accept: "application/json" }, cache: "no-store" });
  return granted(answer).json();
}

// Asks for a change. The header shows that the script of a page of ours asks, not somebody else's form.
export async function ordered(method, path) {
  const answer = await fetch(path, { method, headers: { "Trivet-Page": "1" }, cache: "no-store" });
  granted(answer);
}

function granted(answer) {
  if (!answer.ok) throw Object.assign(new Error(`${answer.url}: ${answer.status}`), { status: answer.status });
  return answer;
}

export const element = id => document.getElementById(id);

// A copy of what a template holds.
export const copy = template => template.content.firstElementChild.cloneNode(true);
