"""Parse CommonMark, with what models write beyond it, into the tree that renderers write down.

Bare URLs (found before emphasis, so that `_` in a path stays), footnotes, TeX between its usual delimiters, a bound
on nesting that shows the rest as written, and tables that lose no cell."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, Final

import regex
from markdown_it import MarkdownIt
from markdown_it.rules_block import StateBlock
from markdown_it.rules_block.table import escapedSplit, getLine, table
from markdown_it.rules_inline import StateInline
from markdown_it.token import Token

from channels.markdown import tree
from gateway.contracts.messages import is_visible

FOOTNOTES: Final = "trivet_footnotes"  # the parse environment's dict of label -> inline token
FOOTNOTE_REF: Final = "footnote_ref"
MATH: Final = "math_inline"
BLOCK_LEVEL_MAX: Final = 20  # ten lists within lists; deeper is an accident or an attack
FORMULA_CHARS_MAX: Final = 1000
FORMULA_LINES_MAX: Final = 50  # a fence that never closes must not make the search quadratic

_BARE_URL: Final = re.compile(r"://[^\s<>\"`*\\^{}|]{1,2000}")
_SCHEME: Final = re.compile(r"(?:^|[^A-Za-z0-9])(https?)$", re.IGNORECASE)
_REFERENCE: Final = re.compile(r"\[\^([^\]\s^]{1,32})\]")
_DEFINITION: Final = re.compile(r"\[\^([^\]\s^]{1,32})\]:[ \t]*(.*)")
_DOLLARS: Final = re.compile(r"\$(?![\s$])([^$\n]{0,1000}?[^\s$\\])\$(?![\w$])")
_DOLLAR_PAIRS: Final = re.compile(r"\$\$([^$]{1,1000})\$\$")
_TEX_BRACKETS: Final = {"(": r"\)", "[": r"\]"}
_TEX_SIGNS: Final = re.compile(r"[\\^_={}]")


def extend(parser: MarkdownIt) -> None:
    """Add all rules of this module to `parser`."""
    parser.block.ruler.before("table", "nesting_bound", _nesting_bound, {"alt": []})
    parser.block.ruler.before("table", "math_block", _math_block, {"alt": ["paragraph", "blockquote", "list"]})
    parser.block.ruler.before("reference", "footnote_definition", _footnote_definition, {"alt": ["paragraph"]})
    parser.block.ruler.at("table", _whole_table, {"alt": ["paragraph", "reference"]})
    parser.inline.ruler.before("newline", "bare_url", _bare_url)
    parser.inline.ruler.before("escape", "math", _math)
    parser.inline.ruler.before("link", "footnote_ref", _footnote_ref)


def _nesting_bound(state: StateBlock, start_line: int, end_line: int, silent: bool) -> bool:
    """Bound the nesting: beyond it, the rest of the container is one paragraph of literal text."""
    if silent or state.level < BLOCK_LEVEL_MAX:
        return False
    token = state.push("paragraph_open", "p", 1)
    token.map = [start_line, end_line]
    inline = state.push("inline", "", 0)
    inline.content = state.getLines(start_line, end_line, state.blkIndent, False).strip()
    inline.children = []
    state.push("paragraph_close", "p", -1)
    state.line = end_line
    return True


def _whole_table(state: StateBlock, start_line: int, end_line: int, silent: bool) -> bool:
    """Parse a table, unless one of its rows has more cells than the header: those would be lost."""
    if silent:
        return table(state, start_line, end_line, True)
    count, level, line, parent = len(state.tokens), state.level, state.line, state.parentType
    if not table(state, start_line, end_line, False):
        return False
    columns = sum(token.type == "th_open" for token in state.tokens[count:])
    if all(_cells(state, row) <= columns for row in range(start_line, state.line) if row != start_line + 1):
        return True
    del state.tokens[count:]
    state.level, state.line, state.parentType = level, line, parent
    return False


def _cells(state: StateBlock, line: int) -> int:
    cells = escapedSplit(getLine(state, line).strip())
    return len(cells) - (not cells[0]) - (len(cells) > 1 and not cells[-1])


def _footnote_definition(state: StateBlock, start_line: int, end_line: int, silent: bool) -> bool:
    """Parse `[^label]: text` and the lines that follow up to a blank one."""
    match = _DEFINITION.fullmatch(getLine(state, start_line))
    if match is None or state.is_code_block(start_line):
        return False
    if silent:
        return True
    next_line = start_line + 1
    while next_line < end_line and not state.isEmpty(next_line):
        if state.sCount[next_line] < state.blkIndent or _DEFINITION.fullmatch(getLine(state, next_line)):
            break
        next_line += 1
    more = (getLine(state, line).strip() for line in range(start_line + 1, next_line))
    token = state.push("inline", "", 0)
    token.content = "\n".join((match[2].strip(), *more)).strip()
    token.children = []
    notes: dict[str, Any] = state.env.setdefault(FOOTNOTES, {})
    label = match[1] if match[1] not in notes else f"{match[1]} ({len(notes) + 1})"
    notes[label] = token
    state.line = next_line
    return True


def _footnote_ref(state: StateInline, silent: bool) -> bool:
    match = _REFERENCE.match(state.src, state.pos, state.posMax)
    if match is None or match[1] not in state.env.get(FOOTNOTES, {}):
        return False
    if not silent:
        state.push(FOOTNOTE_REF, "", 0).content = f"[{match[1]}]"
    state.pos = match.end()
    return True


def _math_block(state: StateBlock, start_line: int, end_line: int, silent: bool) -> bool:
    r"""Parse `$$` or `\[` alone on a line, up to its counterpart: shown as code."""
    opening = getLine(state, start_line).strip()
    closing = {"$$": "$$", r"\[": r"\]"}.get(opening)
    if closing is None or state.is_code_block(start_line):
        return False
    for line in range(start_line + 1, min(end_line, start_line + FORMULA_LINES_MAX)):
        if state.sCount[line] < state.blkIndent and not state.isEmpty(line):
            return False
        if getLine(state, line).strip() == closing:
            if not silent:
                token = state.push("fence", "code", 0)
                token.info = "latex"
                token.content = state.getLines(start_line + 1, line, state.blkIndent, True)
                state.line = line + 1
            return True
    return False


def _math(state: StateInline, silent: bool) -> bool:
    r"""Parse TeX between `$`, `$$`, `\(` and `\[`. A price is not TeX, and `\[x\]` may be mere brackets."""
    found = _formula(state.src, state.pos, state.posMax)
    if found is None:
        return False
    if not silent:
        state.push(MATH, "code", 0).content = found[0].strip().replace("\n", " ")
    state.pos = found[1]
    return True


def _formula(source: str, start: int, end: int) -> tuple[str, int] | None:
    if source[start] == "\\":
        closing = _TEX_BRACKETS.get(source[start + 1 : start + 2])
        at = source.find(closing, start + 2, min(end, start + FORMULA_CHARS_MAX)) if closing else -1
        inner = source[start + 2 : at]
        return (inner, at + 2) if at > 0 and _TEX_SIGNS.search(inner) else None
    if source[start] != "$" or (start and (source[start - 1].isalnum() or source[start - 1] == "$")):
        return None
    match = _DOLLAR_PAIRS.match(source, start, end) or _DOLLARS.match(source, start, end)
    return (match[1], match.end()) if match and match[1].strip() else None


def _bare_url(state: StateInline, silent: bool) -> bool:
    """Parse `https://…` outside a link's label, without the punctuation that ends a sentence."""
    if state.src[state.pos] != ":" or state.linkLevel > 0:
        return False
    scheme = _SCHEME.search(state.pending[-6:])
    match = _BARE_URL.match(state.src, state.pos, state.posMax)
    if scheme is None or match is None:
        return False
    rest = _without_tail(match[0])
    if len(rest) <= len("://"):
        return False
    url = scheme[1] + rest
    href = state.md.normalizeLink(url)
    if not state.md.validateLink(href):
        return False
    if not silent:
        state.pending = state.pending[: -len(scheme[1])]
        opening = state.push("link_open", "a", 1)
        opening.attrs = {"href": href}
        opening.info = "auto"
        state.push("text", "", 0).content = url
        state.push("link_close", "a", -1)
    state.pos += len(rest)
    return True


def _without_tail(url: str) -> str:
    """Strip trailing punctuation, which belongs to the sentence, and so does a bracket that the URL did not open."""
    while url and (url[-1] in ".,;:!?'_~…。，、" or _closes_nothing(url)):
        url = url[:-1]
    return url


def _closes_nothing(url: str) -> bool:
    opening = {")": "(", "]": "["}.get(url[-1])
    return opening is not None and url.count(url[-1]) > url.count(opening)


# From the parser's inline tokens to runs: marks counted, links checked, images and footnotes named.

URL_CHARS_MAX: Final = 1500  # longer ones are shown as text, which can be split; a link cannot
_MARK_TOKENS: Final = {"strong": tree.Mark.BOLD, "em": tree.Mark.ITALIC, "s": tree.Mark.STRIKE}


class _RunWriter:
    """Collects runs from inline tokens. Bold within bold is bold, so marks count how often they are open."""

    def __init__(self) -> None:
        self._runs: list[tree.TextRun] = []
        self._open: dict[tree.Mark, int] = {}
        self._label_start = 0

    def add(self, text: str, *marks: tree.Mark, url: str = "") -> None:
        if not text:
            return
        run = tree.TextRun(text, frozenset((*marks, *(mark for mark, depth in self._open.items() if depth))), url)
        last = self._runs[-1] if self._runs else None
        if last and len(self._runs) > self._label_start and (last.marks, last.url) == (run.marks, run.url):
            self._runs[-1] = replace(last, text=last.text + text)
        else:
            self._runs.append(run)

    def shift(self, mark: tree.Mark, by: int) -> None:
        self._open[mark] = self._open.get(mark, 0) + by

    def open_link(self) -> None:
        self._label_start = len(self._runs)

    def close_link(self, url: str, *, is_auto: bool) -> None:
        label = self._runs[self._label_start :]
        shown = tree.plain_text(label)
        if not _is_linkable(url):
            if shown != url and not is_auto:
                self.add(f" ({url})" if shown else url)
        elif is_auto or shown == url or not is_visible(shown):
            del self._runs[self._label_start :]
            self.add(shown if is_visible(shown) else url, tree.Mark.BARE_URL, url=url)
        else:
            self._runs[self._label_start :] = [replace(run, url=url) for run in label]
        self._label_start = len(self._runs)

    def runs(self) -> tree.Runs:
        return tuple(self._runs)


def _is_linkable(url: str) -> bool:
    return url.lower().startswith(("http://", "https://")) and len(url) <= URL_CHARS_MAX


def to_runs(tokens: Sequence[Token]) -> tree.Runs:
    writer = _RunWriter()
    url, is_auto = "", False
    for token in tokens:
        kind, _, end = token.type.rpartition("_")
        if kind in _MARK_TOKENS and end in ("open", "close"):
            writer.shift(_MARK_TOKENS[kind], token.nesting)
        elif token.type in ("softbreak", "hardbreak"):
            writer.add("\n")
        elif token.type in ("code_inline", MATH):
            writer.add(token.content, tree.Mark.CODE)
        elif token.type == "link_open":
            url, is_auto = str(token.attrs.get("href", "")), token.info == "auto"
            writer.open_link()
        elif token.type == "link_close":
            writer.close_link(url, is_auto=is_auto)
            url = ""
        elif token.type == "image":
            source = str(token.attrs.get("src", ""))
            alt = tree.plain_text(to_runs(token.children or ())).replace("\n", " ").strip()
            if url:
                writer.add(alt or "image", tree.Mark.IMAGE)  # the image is the link's label
            elif _is_linkable(source):
                writer.add(alt or "image", tree.Mark.IMAGE, url=source)
            elif source.startswith("data:"):
                writer.add(alt or "image")
            else:
                writer.add(f"{alt} ({source})" if alt else source)
        elif token.type in ("text", "text_special", FOOTNOTE_REF):
            writer.add(token.content)
    return writer.runs()


# CommonMark, read once into the tree from which the platforms' renderers write.
#
# The parser is markdown-it-py with tables and strikethrough, never a set of regular expressions: a model forgets to
# close what it opened. Text that the parser would drop (unused link definitions, cells beyond the header, nesting
# beyond reason) stays visible as written.

INFO_WORDS_MAX: Final = 2  # ```python app.py
_LANGUAGE: Final = regex.compile(r"[\w+#.-]{1,32}")
_UNWANTED: Final = regex.compile(r"[\x00-\x08\x0b\x0e-\x1f\x7f\u202a-\u202e]")
_LINE_ENDS: Final = regex.compile(r"\r\n?|[\x0c\x85\u2028\u2029]")
_SURROGATES: Final = regex.compile(r"[\ud800-\udfff]")


def parse(text: str) -> tree.Blocks:
    """Parse any text into a tree, in time about linear in its length. Never raises.

    Empty for a text in which there is nothing to see. A text that consists of markup alone is shown as it was written,
    for an answer must not vanish."""
    # The form that every platform takes: one kind of line end, and none of the control
    # characters that platforms delete without a word (Telegram also drops U+202A-202E, which moves every later
    # offset).
    source = _UNWANTED.sub("", _LINE_ENDS.sub("\n", _SURROGATES.sub("\ufffd", text)))
    if not is_visible(source):
        return ()
    env: dict[str, Any] = {}
    blocks = _blocks(_Tokens(_PARSER.parse(source, env)))
    blocks += _footnotes(env) + _unused_definitions(env, source, blocks)
    return blocks if any(map(_shows, blocks)) else (tree.Paragraph((tree.TextRun(source.strip()),)),)


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
        """Yield tokens up to `closing`, which is consumed too. The reader of an opening token of the same kind takes
        the tokens nested in it."""
        for token in self._tokens:
            if token.type == closing:
                return
            yield token


def _blocks(tokens: _Tokens, closing: str = "") -> tree.Blocks:
    found: list[tree.Block] = []
    for token in tokens.until(closing):
        found.extend(_block(token, tokens))
    return tuple(found)


def _block(token: Token, tokens: _Tokens) -> tree.Blocks:
    match token.type:
        case "paragraph_open":
            return _filled(tree.Paragraph(_leaf(tokens, "paragraph_close")))
        case "heading_open":
            return _filled(tree.Heading(int(token.tag[1:]), _leaf(tokens, "heading_close")))
        case "fence" | "code_block":
            return _fence(token)
        case "blockquote_open":
            return _filled(tree.QuoteBlock(_blocks(tokens, "blockquote_close")))
        case "bullet_list_open":
            return _filled(_listing(tokens, "bullet_list_close", None))
        case "ordered_list_open":
            return _filled(_listing(tokens, "ordered_list_close", int(token.attrs.get("start", 1))))
        case "table_open":
            return (_table(tokens),)
        case "hr":
            return (tree.RuleBlock(),)
        case _:
            return ()


def _filled(block: tree.Paragraph | tree.Heading | tree.QuoteBlock | tree.Listing) -> tree.Blocks:
    """Drop a block without content: an empty heading or quote has nothing to say."""
    match block:
        case tree.Paragraph() | tree.Heading():
            return (block,) if is_visible(tree.plain_text(block.runs)) else ()
        case tree.QuoteBlock():
            return (block,) if block.blocks else ()
        case tree.Listing():
            return (block,) if block.items else ()


def _shows(block: tree.Block) -> bool:
    return not isinstance(block, tree.Listing) or any(item.blocks for item in block.items)


def _leaf(tokens: _Tokens, closing: str) -> tree.Runs:
    return tuple(run for token in tokens.until(closing) for run in to_runs(token.children or ()))


def _fence(token: Token) -> tree.Blocks:
    """Return the code, after a caption that keeps what the info string says beyond the language."""
    language, caption = _language(token.info.strip())
    captions = (tree.Paragraph((tree.TextRun(caption),)),) if is_visible(caption) else ()
    body = token.content.rstrip().lstrip("\n")
    return (*captions, tree.Fence(body, language)) if is_visible(body) else captions


def _language(info: str) -> tuple[str, str]:
    """Return the language an info string names, and the rest of it. Many words are text on the wrong line."""
    match = _LANGUAGE.match(info)
    if match is None or len(info.split()) > INFO_WORDS_MAX:
        return "", info
    return match[0], info[match.end() :].lstrip(" ,:;")


def _listing(tokens: _Tokens, closing: str, start: int | None) -> tree.Listing:
    items: list[tree.Item] = []
    is_tight = True
    for token in tokens.until(closing):
        if token.type == "list_item_open":
            item_is_tight, blocks = _item_blocks(tokens)
            is_tight = is_tight and item_is_tight
            items.append(_item(blocks))
    return tree.Listing(tuple(items), start, is_tight)


def _item_blocks(tokens: _Tokens) -> tuple[bool, tree.Blocks]:
    found: list[tree.Block] = []
    is_tight = True
    for token in tokens.until("list_item_close"):
        if token.type == "paragraph_open" and not token.hidden:
            is_tight = False
        found.extend(_block(token, tokens))
    return is_tight, tuple(found)


def _item(blocks: tree.Blocks) -> tree.Item:
    if not blocks or not isinstance(blocks[0], tree.Paragraph):
        return tree.Item(blocks)
    first, *others = blocks[0].runs
    box, is_boxed = first.text[:4].lower(), not first.marks
    if not is_boxed or box not in ("[ ] ", "[x] "):
        return tree.Item(blocks)
    rest = tree.Paragraph(tuple(run for run in (replace(first, text=first.text[4:]), *others) if run.text))
    return tree.Item((*_filled(rest), *blocks[1:]), is_done=box == "[x] ")


def _table(tokens: _Tokens) -> tree.Table:
    rows: list[tree.Row] = []
    cells: list[tree.Runs] = []
    aligns: list[tree.Align] = []
    for token in tokens.until("table_close"):
        match token.type:
            case "th_open":
                aligns.append(tree.Align(str(token.attrs.get("style", "")).partition(":")[2] or tree.Align.LEFT))
            case "inline":
                cells.append(to_runs(token.children or ()))
            case "tr_close":
                rows.append(tuple(cells))
                cells = []
    return tree.Table(rows[0], tuple(rows[1:]), tuple(aligns))


def _footnotes(env: dict[str, Any]) -> tree.Blocks:
    notes = env.get(FOOTNOTES, {})
    return tuple(
        tree.Paragraph((tree.TextRun(f"[{label}] "), *to_runs(note.children or ()))) for label, note in notes.items()
    )


def _unused_definitions(env: dict[str, Any], source: str, blocks: tree.Blocks) -> tree.Blocks:
    """Link definitions that no link uses, as they were written: `[note]: remember` may be meant as text."""
    references: dict[str, Any] = env.get("references", {})
    if not references:
        return ()
    used = frozenset(tree.urls(blocks))
    lines = source.split("\n")
    unused = [
        reference["map"] for reference in references.values() if reference["href"] not in used and "map" in reference
    ]
    unused += [reference["map"] for reference in env.get("duplicate_refs", ()) if "map" in reference]
    return tuple(
        tree.Paragraph((tree.TextRun("\n".join(lines[first:last]).strip()),)) for first, last in sorted(unused)
    )
