// Files on both sides: what a message carries, and what somebody is about to send.

const IMAGE = /\.(png|jpe?g|gif|webp|avif|bmp)$/i;
const SOUND = /\.(og[ga]|opus|mp3|m4a|wav|flac)$/i;
const TEXT = /\.(txt|md|csv|tsv|json|ya?ml|toml|log|py|js|ts|html?|css|xml|sh|sql|rs|go|diff|patch)$/i;
const PREVIEW_CHARS = 4000;
const BYTES_MAX = 45 * 1024 * 1024; // of one message: in base64 it must fit into what the playground takes

export function shownFile(name, url) {
  const entry = document.createElement("li");
  const link = make("a", { textContent: name, href: url, download: name });
  if (IMAGE.test(name)) {
    const open = make("a", { href: url, download: name, className: "picture" });
    open.append(make("img", { src: url, alt: name, loading: "lazy" }));
    entry.append(open);
  } else if (SOUND.test(name)) {
    entry.append(make("audio", { src: url, controls: true, preload: "none", ariaLabel: name }));
  }
  entry.append(link);
  if (TEXT.test(name)) {
    entry.append(preview(name, url));
  }
  return entry;
}

function preview(name, url) {
  const details = make("details", { className: "preview" });
  const text = make("pre", { tabIndex: 0, ariaLabel: `Beginning of ${name}` });
  details.append(make("summary", { textContent: "Preview" }), text);
  details.addEventListener("toggle", async () => {
    if (details.open && !text.textContent) {
      const whole = await fetch(url).then((answer) => answer.text()).catch(() => "The file cannot be read.");
      text.textContent = whole.length > PREVIEW_CHARS ? `${whole.slice(0, PREVIEW_CHARS)}\n…` : whole;
    }
  });
  return details;
}

function make(tag, properties) {
  return Object.assign(document.createElement(tag), properties);
}

// What is attached to the message being written.
export class Attachments {
  constructor(list, report) {
    this.list = list;
    this.report = report;
    this.files = [];
  }

  async add(files) {
    for (const file of files) {
      if (this.files.reduce((sum, { size }) => sum + size, file.size) > BYTES_MAX) {
        this.report(new Error(`${file.name} does not fit: one message takes ${BYTES_MAX / 1024 / 1024} MiB of files.`));
      } else {
        const { name, size } = file;
        this.files.push({ name: name || "pasted", size, media_type: typeOf(file), url: await dataUrl(file) });
      }
    }
    this.#draw();
  }

  clear() {
    this.files = [];
    this.#draw();
  }

  get shared() {
    return this.files.map(({ name, media_type, url }) => ({ name, media_type, base64: url.slice(url.indexOf(",") + 1) }));
  }

  #draw() {
    this.list.hidden = !this.files.length;
    this.list.replaceChildren(...this.files.map((file, number) => this.#entry(file, number)));
  }

  #entry(file, number) {
    const entry = document.createElement("li");
    if (file.media_type.startsWith("image/")) {
      entry.append(make("img", { src: file.url, alt: "" }));
    }
    const remove = make("button", { type: "button", className: "quiet", textContent: "×", ariaLabel: `Do not send ${file.name}` });
    remove.addEventListener("click", () => {
      this.files.splice(number, 1);
      this.#draw();
      (this.list.querySelector("button") ?? this.list.closest("form").querySelector("textarea")).focus();
    });
    entry.append(make("span", { textContent: file.name }), remove);
    return entry;
  }
}

// A voice note is what every platform calls it: Opus in Ogg.
function typeOf(file) {
  return /\.(og[ga]|opus)$/i.test(file.name) ? "audio/ogg" : file.type || "application/octet-stream";
}

function dataUrl(file) {
  return new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve(reader.result);
    reader.onerror = () => reject(new Error(`${file.name} cannot be read.`));
    reader.readAsDataURL(file);
  });
}
