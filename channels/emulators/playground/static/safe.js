// What an emulator shows of a message, without anything that could act: the emulators escape what people wrote, and
// here only what a message may consist of is let in, whatever they let through.

const TAGS = new Set(
  "a b blockquote br code del div em h1 h2 h3 h4 h5 h6 hr i li ol p pre s small span strong sub sup table tbody td th thead time tr u ul"
    .toUpperCase().split(" "),
);
const ATTRIBUTES = new Set(["class", "data-language", "start", "tabindex"]);
const LINK = /^(https?:\/\/|mailto:)/i;

export function safe(html) {
  const parsed = new DOMParser().parseFromString(html, "text/html"); // inert: nothing loads, nothing runs
  const fragment = document.createDocumentFragment();
  fragment.append(...[...parsed.body.childNodes].flatMap(cleaned));
  return fragment;
}

function cleaned(node) {
  if (node.nodeType === Node.TEXT_NODE) {
    return [document.createTextNode(node.data)];
  }
  if (node.nodeType !== Node.ELEMENT_NODE || ["SCRIPT", "STYLE"].includes(node.tagName)) {
    return [];
  }
  const inner = [...node.childNodes].flatMap(cleaned);
  if (!TAGS.has(node.tagName)) {
    return node.tagName === "IMG" ? [document.createTextNode(node.alt)] : inner;
  }
  const copy = document.createElement(node.tagName);
  for (const { name, value } of node.attributes) {
    if (ATTRIBUTES.has(name)) {
      copy.setAttribute(name, value);
    }
  }
  if (node.tagName === "A" && LINK.test(node.getAttribute("href") ?? "")) {
    Object.assign(copy, { href: node.getAttribute("href"), target: "_blank", rel: "noopener noreferrer" });
  }
  copy.append(...inner);
  return [copy];
}
