"""CommonMark, read once into the tree that the platforms' renderers write down again.

The parser is markdown-it-py with tables and strikethrough, never a set of regular expressions: a model
forgets to close what it opened. What the parser would drop (unused link definitions, cells beyond the
header, nesting beyond reason) stays visible as written.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, Final

import regex
from markdown_it import MarkdownIt
from markdown_it.token import Token

from channels.text.inlines import to_runs
from channels.text.syntax import FOOTNOTES, extend
from channels.text.tree import (
    Align,
    Block,
    Blocks,
    Fence,
    Heading,
    Item,
    Listing,
    Paragraph,
    Quote,
    Row,
    Rule,
    Run,
    Runs,
    Table,
    is_visible,
    plain_text,
    urls,
)

INFO_WORDS_MAX: Final = 2  # ```python app.py
_LANGUAGE: Final = regex.compile(r"[\w+#.-]{1,32}")
_UNWANTED: Final = regex.compile(r"[\x00-\x08\x0b\x0e-\x1f\x7f\u202a-\u202e]")
_LINE_ENDS: Final = regex.compile(r"\r\n?|[\x0c\x85\u2028\u2029]")
_SURROGATES: Final = regex.compile(r"[\ud800-\udfff]")


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
    return tuple(run for token in tokens.until(closing) for run in to_runs(token.children or ()))


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
                cells.append(to_runs(token.children or ()))
            case "tr_close":
                rows.append(tuple(cells))
                cells = []
    return Table(rows[0], tuple(rows[1:]), tuple(aligns))


def _footnotes(env: dict[str, Any]) -> Blocks:
    notes = env.get(FOOTNOTES, {})
    return tuple(Paragraph((Run(f"[{label}] "), *to_runs(note.children or ()))) for label, note in notes.items())


def _unused_definitions(env: dict[str, Any], source: str, blocks: Blocks) -> Blocks:
    """Link definitions that no link uses, as they were written: `[note]: remember` may be meant as text."""
    references: dict[str, Any] = env.get("references", {})
    if not references:
        return ()
    used = frozenset(urls(blocks))
    lines = source.split("\n")
    unused = [
        reference["map"] for reference in references.values() if reference["href"] not in used and "map" in reference
    ]
    unused += [reference["map"] for reference in env.get("duplicate_refs", ()) if "map" in reference]
    return tuple(Paragraph((Run("\n".join(lines[first:last]).strip()),)) for first, last in sorted(unused))
