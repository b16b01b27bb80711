"""CommonMark, read once into a small frozen tree that the platforms' renderers write down again.

The parser is markdown-it-py with tables and strikethrough, never a set of regular expressions: a model
forgets to close what it opened. Blocks form a tree of bounded depth; inlines are flat runs of text with a
set of marks, so that a paragraph can be cut anywhere without breaking anything. What the parser would
drop (unused link definitions, cells beyond the header, nesting beyond reason) stays visible as written.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, Final, TypeAlias

import regex
from markdown_it import MarkdownIt
from markdown_it.token import Token

from channels.syntax import FOOTNOTE_REF, FOOTNOTES, MATH, extend

URL_CHARS_MAX: Final = 1500  # longer ones are shown as text, which can be split; a link cannot
INFO_WORDS_MAX: Final = 2  # ```python app.py
_LANGUAGE: Final = regex.compile(r"[\w+#.-]{1,32}")
_VISIBLE: Final = regex.compile(r"[^\s\p{Cc}\p{Cf}]")
_UNWANTED: Final = regex.compile(r"[\x00-\x08\x0b\x0e-\x1f\x7f\u202a-\u202e]")
_LINE_ENDS: Final = regex.compile(r"\r\n?|[\x0c\x85\u2028\u2029]")
_SURROGATES: Final = regex.compile(r"[\ud800-\udfff]")


class Mark(StrEnum):
    """What may be said about a run. `IMAGE` and `BARE_URL` go with a `url` only."""

    BOLD = "bold"
    ITALIC = "italic"
    STRIKE = "strike"
    CODE = "code"
    IMAGE = "image"
    BARE_URL = "bare_url"


@dataclass(frozen=True, slots=True)
class Run:
    """Text with the same marks throughout. A newline is a line break. `url` is http(s) or empty."""

    text: str
    marks: frozenset[Mark] = frozenset()
    url: str = ""


Runs: TypeAlias = tuple[Run, ...]


@dataclass(frozen=True, slots=True)
class Paragraph:
    runs: Runs


@dataclass(frozen=True, slots=True)
class Heading:
    level: int
    runs: Runs


@dataclass(frozen=True, slots=True)
class Fence:
    """Literal lines without a trailing newline; `language` is one word or empty."""

    text: str
    language: str = ""


@dataclass(frozen=True, slots=True)
class Quote:
    blocks: Blocks


@dataclass(frozen=True, slots=True)
class Item:
    """`is_done` is None for an ordinary item. A continued item goes on from an earlier message: no marker."""

    blocks: Blocks
    is_done: bool | None = None
    is_continued: bool = False


@dataclass(frozen=True, slots=True)
class Listing:
    """`start` is the number of the first item, None for a bulleted list."""

    items: tuple[Item, ...]
    start: int | None = None
    is_tight: bool = True


class Align(StrEnum):
    LEFT = "left"
    CENTER = "center"
    RIGHT = "right"


Row: TypeAlias = tuple[Runs, ...]


@dataclass(frozen=True, slots=True)
class Table:
    """All rows are as long as `head` and `aligns`."""

    head: Row
    rows: tuple[Row, ...]
    aligns: tuple[Align, ...]


@dataclass(frozen=True, slots=True)
class Rule:
    pass


Block: TypeAlias = Paragraph | Heading | Fence | Quote | Listing | Table | Rule
Blocks: TypeAlias = tuple[Block, ...]


def parse(text: str) -> Blocks:
    """The tree of any text, in time about linear in its length. Never raises.

    Empty for a text in which there is nothing to see. A text that consists of markup alone is shown as it
    was written, for an answer must not vanish.
    """
    source = _settled(text)
    if not is_visible(source):
        return ()
    env: dict[str, Any] = {}
    blocks = _blocks(_Tokens(_PARSER.parse(source, env)))
    blocks += _footnotes(env) + _unused_definitions(env, source, blocks)
    return blocks if any(map(_shows, blocks)) else (Paragraph((Run(source.strip()),)),)


def is_visible(text: str) -> bool:
    """True if a reader would see anything of it: platforms refuse blank messages."""
    return _VISIBLE.search(text) is not None


def plain_text(runs: Iterable[Run]) -> str:
    """The text of some runs without their marks."""
    return "".join(run.text for run in runs)


def _settled(text: str) -> str:
    """Text as every platform takes it: one kind of line end, and none of the control characters that
    platforms delete behind our back (Telegram also drops U+202A-202E, which moves every later offset)."""
    return _UNWANTED.sub("", _LINE_ENDS.sub("\n", _SURROGATES.sub("\ufffd", text)))


def _make_parser() -> MarkdownIt:
    # Raw HTML is off, for it is to be shown as text; the length of a link's text is bounded elsewhere.
    parser = MarkdownIt("commonmark", {"html": False, "maxNesting": 24}).enable(["table", "strikethrough"])
    extend(parser)
    return parser


_PARSER: Final = _make_parser()


class _Tokens:
    """The parser's flat token list, read front to back."""

    def __init__(self, tokens: Sequence[Token]) -> None:
        self._tokens = iter(tokens)

    def until(self, closing: str) -> Iterator[Token]:
        """Tokens up to `closing`, which is consumed too. Nested ones of the same kind are taken by whoever
        reads their opening token."""
        for token in self._tokens:
            if token.type == closing:
                return
            yield token


def _blocks(tokens: _Tokens, closing: str = "") -> Blocks:
    found: list[Block] = []
    for token in tokens.until(closing):
        found.extend(_block(token, tokens))
    return tuple(found)


def _block(token: Token, tokens: _Tokens) -> Blocks:
    match token.type:
        case "paragraph_open":
            return _filled(Paragraph(_leaf(tokens, "paragraph_close")))
        case "heading_open":
            return _filled(Heading(int(token.tag[1:]), _leaf(tokens, "heading_close")))
        case "fence" | "code_block":
            return _fence(token)
        case "blockquote_open":
            return _filled(Quote(_blocks(tokens, "blockquote_close")))
        case "bullet_list_open":
            return _filled(_listing(tokens, "bullet_list_close", None))
        case "ordered_list_open":
            return _filled(_listing(tokens, "ordered_list_close", int(token.attrs.get("start", 1))))
        case "table_open":
            return (_table(tokens),)
        case "hr":
            return (Rule(),)
        case _:
            return ()


def _filled(block: Paragraph | Heading | Quote | Listing) -> Blocks:
    """Nothing for a block without content: an empty heading or quote has nothing to say."""
    match block:
        case Paragraph() | Heading():
            return (block,) if is_visible(plain_text(block.runs)) else ()
        case Quote():
            return (block,) if block.blocks else ()
        case Listing():
            return (block,) if block.items else ()


def _shows(block: Block) -> bool:
    return not isinstance(block, Listing) or any(item.blocks for item in block.items)


def _leaf(tokens: _Tokens, closing: str) -> Runs:
    return tuple(run for token in tokens.until(closing) for run in _runs(token.children or ()))


def _fence(token: Token) -> Blocks:
    """The code, after a caption that keeps what the info string says beyond the language."""
    language, caption = _language(token.info.strip())
    captions = (Paragraph((Run(caption),)),) if is_visible(caption) else ()
    body = token.content.rstrip().lstrip("\n")
    return (*captions, Fence(body, language)) if is_visible(body) else captions


def _language(info: str) -> tuple[str, str]:
    """The language an info string names, and the rest of it. Many words are text on the wrong line."""
    match = _LANGUAGE.match(info)
    if match is None or len(info.split()) > INFO_WORDS_MAX:
        return "", info
    return match[0], info[match.end() :].lstrip(" ,:;")


def _listing(tokens: _Tokens, closing: str, start: int | None) -> Listing:
    items: list[Item] = []
    is_tight = True
    for token in tokens.until(closing):
        if token.type == "list_item_open":
            item_is_tight, blocks = _item_blocks(tokens)
            is_tight = is_tight and item_is_tight
            items.append(_item(blocks))
    return Listing(tuple(items), start, is_tight)


def _item_blocks(tokens: _Tokens) -> tuple[bool, Blocks]:
    found: list[Block] = []
    is_tight = True
    for token in tokens.until("list_item_close"):
        if token.type == "paragraph_open" and not token.hidden:
            is_tight = False
        found.extend(_block(token, tokens))
    return is_tight, tuple(found)


def _item(blocks: Blocks) -> Item:
    if not blocks or not isinstance(blocks[0], Paragraph):
        return Item(blocks)
    first, *others = blocks[0].runs
    box, is_boxed = first.text[:4].lower(), not first.marks
    if not is_boxed or box not in ("[ ] ", "[x] "):
        return Item(blocks)
    rest = Paragraph(tuple(run for run in (replace(first, text=first.text[4:]), *others) if run.text))
    return Item((*_filled(rest), *blocks[1:]), is_done=box == "[x] ")


def _table(tokens: _Tokens) -> Table:
    rows: list[Row] = []
    cells: list[Runs] = []
    aligns: list[Align] = []
    for token in tokens.until("table_close"):
        match token.type:
            case "th_open":
                aligns.append(Align(str(token.attrs.get("style", "")).partition(":")[2] or Align.LEFT))
            case "inline":
                cells.append(_runs(token.children or ()))
            case "tr_close":
                rows.append(tuple(cells))
                cells = []
    return Table(rows[0], tuple(rows[1:]), tuple(aligns))


def _footnotes(env: dict[str, Any]) -> Blocks:
    notes = env.get(FOOTNOTES, {})
    return tuple(Paragraph((Run(f"[{label}] "), *_runs(note.children or ()))) for label, note in notes.items())


def _unused_definitions(env: dict[str, Any], source: str, blocks: Blocks) -> Blocks:
    """Link definitions that no link uses, as they were written: `[note]: remember` may be meant as text."""
    references: dict[str, Any] = env.get("references", {})
    if not references:
        return ()
    used = frozenset(_urls(blocks))
    lines = source.split("\n")
    unused = [
        reference["map"] for reference in references.values() if reference["href"] not in used and "map" in reference
    ]
    unused += [reference["map"] for reference in env.get("duplicate_refs", ()) if "map" in reference]
    return tuple(Paragraph((Run("\n".join(lines[first:last]).strip()),)) for first, last in sorted(unused))


def _urls(blocks: Blocks) -> Iterator[str]:
    for block in blocks:
        match block:
            case Paragraph(runs) | Heading(_, runs):
                yield from (run.url for run in runs)
            case Quote(inner):
                yield from _urls(inner)
            case Listing(items):
                for item in items:
                    yield from _urls(item.blocks)
            case Table(head, rows):
                yield from (run.url for row in (head, *rows) for cell in row for run in cell)
            case _:
                pass


_MARK_TOKENS: Final = {"strong": Mark.BOLD, "em": Mark.ITALIC, "s": Mark.STRIKE}


class _RunWriter:
    """Collects runs from inline tokens. Bold within bold is bold, so marks count how often they are open."""

    def __init__(self) -> None:
        self._runs: list[Run] = []
        self._open: dict[Mark, int] = {}
        self._label_start = 0

    def add(self, text: str, *marks: Mark, url: str = "") -> None:
        if not text:
            return
        run = Run(text, frozenset((*marks, *(mark for mark, depth in self._open.items() if depth))), url)
        last = self._runs[-1] if self._runs else None
        if last and len(self._runs) > self._label_start and (last.marks, last.url) == (run.marks, run.url):
            self._runs[-1] = replace(last, text=last.text + text)
        else:
            self._runs.append(run)

    def shift(self, mark: Mark, by: int) -> None:
        self._open[mark] = self._open.get(mark, 0) + by

    def open_link(self) -> None:
        self._label_start = len(self._runs)

    def close_link(self, url: str, *, is_auto: bool) -> None:
        label = self._runs[self._label_start :]
        shown = plain_text(label)
        if not _is_linkable(url):
            if shown != url and not is_auto:
                self.add(f" ({url})" if shown else url)
        elif is_auto or shown == url or not is_visible(shown):
            del self._runs[self._label_start :]
            self.add(shown if is_visible(shown) else url, Mark.BARE_URL, url=url)
        else:
            self._runs[self._label_start :] = [replace(run, url=url) for run in label]
        self._label_start = len(self._runs)

    def runs(self) -> Runs:
        return tuple(self._runs)


def _is_linkable(url: str) -> bool:
    return url.lower().startswith(("http://", "https://")) and len(url) <= URL_CHARS_MAX


def _runs(tokens: Sequence[Token]) -> Runs:
    writer = _RunWriter()
    url, is_auto = "", False
    for token in tokens:
        kind, _, end = token.type.rpartition("_")
        if kind in _MARK_TOKENS and end in ("open", "close"):
            writer.shift(_MARK_TOKENS[kind], token.nesting)
        elif token.type in ("softbreak", "hardbreak"):
            writer.add("\n")
        elif token.type in ("code_inline", MATH):
            writer.add(token.content, Mark.CODE)
        elif token.type == "link_open":
            url, is_auto = str(token.attrs.get("href", "")), token.info == "auto"
            writer.open_link()
        elif token.type == "link_close":
            writer.close_link(url, is_auto=is_auto)
            url = ""
        elif token.type == "image":
            _add_image(writer, token, url)
        elif token.type in ("text", "text_special", FOOTNOTE_REF):
            writer.add(token.content)
    return writer.runs()


def _add_image(writer: _RunWriter, token: Token, link: str) -> None:
    source = str(token.attrs.get("src", ""))
    alt = plain_text(_runs(token.children or ())).replace("\n", " ").strip()
    if link or not _is_linkable(source):
        # An image within a link is the link's label; one that nobody can open is its description.
        writer.add(alt or "image", Mark.IMAGE) if link else writer.add(f"{alt} ({source})" if alt else source)
    else:
        writer.add(alt or "image", Mark.IMAGE, url=source)
