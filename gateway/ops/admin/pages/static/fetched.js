// Asks our own API. What it refuses is an error with its `status`.

export async function fetched(path) {
  const answer = await fetch(path, { headers: { Accept: "application/json" }, cache: "no-store" });
  return granted(answer).json();
}

function granted(answer) {
  if (!answer.ok) throw Object.assign(new Error(`${answer.url}: ${answer.status}`), { status: answer.status });
  return answer;
}

export const element = id => document.getElementById(id);

// A copy of what a template holds.
export const copy = template => template.content.firstElementChild.cloneNode(true);
