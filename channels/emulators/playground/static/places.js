// The places a person can write in, as options: their direct chat, then each group with its threads below it.

export function placeOptions(places, person, unread) {
  const option = (place, name) => new Option(unread.has(place.id) ? `${name} •` : name, place.id);
  const threadsOf = (parentId) => places.filter((each) => each.kind === "thread" && each.parent_id === parentId);
  const options = [];
  for (const place of places.filter((each) => each.kind === "dm" && each.person_id === person?.id)) {
    options.push(option(place, "direct chat"));
    options.push(...threadsOf(place.id).map((thread) => option(thread, `\u2003↳ ${thread.title}`)));
  }
  for (const group of places.filter((each) => each.kind === "group")) {
    options.push(option(group, group.title));
    options.push(...threadsOf(group.id).map((thread) => option(thread, `\u2003↳ ${thread.title}`)));
  }
  return options;
}
