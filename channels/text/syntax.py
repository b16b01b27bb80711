"""What people and models write beyond CommonMark, as rules for markdown-it-py's tables of rules.

Bare URLs (found before emphasis, so that `_` in a path stays), footnotes, TeX between its usual delimiters,
a bound on nesting that shows the rest as written, and tables that lose no cell.
"""

from __future__ import annotations

import re
from typing import Any, Final

from markdown_it import MarkdownIt
from markdown_it.rules_block import StateBlock
from markdown_it.rules_block.table import escapedSplit, getLine, table
from markdown_it.rules_inline import StateInline

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
    """Beyond the bound, the rest of the container is one paragraph of literal text."""
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
    """A table, unless one of its rows has more cells than the header: those would be lost."""
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
    """`[^label]: text` and the lines that follow up to a blank one."""
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
    """`$$` or `\\[` alone on a line, up to its counterpart: shown as code."""
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
    """TeX between `$`, `$$`, `\\(` and `\\[`. A price is not TeX, and `\\[x\\]` may be mere brackets."""
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
    """`https://…` outside a link's label, without the punctuation that ends a sentence."""
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
    """Trailing punctuation belongs to the sentence, and so does a bracket that the URL did not open."""
    while url and (url[-1] in ".,;:!?'_~…。，、" or _closes_nothing(url)):
        url = url[:-1]
    return url


def _closes_nothing(url: str) -> bool:
    opening = {")": "(", "]": "["}.get(url[-1])
    return opening is not None and url.count(url[-1]) > url.count(opening)
