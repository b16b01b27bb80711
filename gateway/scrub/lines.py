"""Secrets that their line tells, and lines that the one above tells: a row of `lines.toml` for each.

echo … | sudo -S apt update      smtp.login("ann", "…")      Recovery codes      kind: Secret
                                                             1. 8f2k1-…          data: …

An anchor is found (lookahead.py), the rule's pattern is matched from there to the end of the line, and then, if it
has one, the pattern for the rows below. A line is read when it is whole, so nothing depends on how the text arrived."""

from __future__ import annotations

import re
import tomllib
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from itertools import islice
from pathlib import Path
from re import _parser  # type: ignore[attr-defined]  # it alone tells how long a match can be
from typing import Any, Final

from gateway.scrub.announced import AnnouncedValue
from gateway.scrub.judge import Bond, is_pass_phrase, is_secret, is_shaped
from gateway.scrub.known import PLACEHOLDER, in_placeholder, placeholder_in
from gateway.scrub.rules import CHECKS, Check, SecretSpan, expanded, trie_pattern
from gateway.scrub.states import State, StepResult
from gateway.scrub.view import flattening, is_cjk, stretches
from gateway.scrub.words import Announcement, KeywordFamily, backwards, family_of_name, vocabulary

# Seed phrases: twelve to twenty-four words of one list of BIP-39, which nobody says in a row by chance.
#
# Those in English are found wherever they stand; those in nine other languages behind an announcement (`lines.toml`).

RULE: Final = "seed-phrase"
WORDS_MIN: Final = 12
WORDS_MAX: Final = 24
_LANGUAGES: Final = 10
_DISTINCT_MIN: Final = 9
_DISTINCT_OF_TWELVE_MIN: Final = 6
_WORD_CHARS_MAX: Final = 8
_CHARS_MIN: Final = WORDS_MIN * 4 - 1
_FLAT: Final = flattening("abcdefghijklmnopqrstuvwxyz \n")
_PIECE: Final = re.compile(r"[^ \n]+")
_BEFORE: Final = "\"'`(:=,>"
_LAST_WORD: Final = re.compile(rf"(?<![^\s{_BEFORE}])[a-z]{{3,{_WORD_CHARS_MAX}}}[ \n]\Z")
_BETWEEN: Final = re.compile(r"[\s\d.):,;、|·-]+")


@cache
def _listed(language: int = 0) -> frozenset[str]:
    """Return one of the ten lists, by default the English one: all are two megabytes, which few processes ever need."""
    lists = Path(__file__).with_name("mnemonics.txt").read_text(encoding="utf-8").splitlines()[1:]
    return frozenset(lists[language].split())


def is_mnemonic(value: str) -> bool:
    """Tell whether most of a value's words are of one of the ten lists; how many, the rule's pattern says."""
    words = [word for word in _BETWEEN.split(value) if word]
    return any(4 * len(_listed(language).intersection(words)) >= 3 * len(words) > 0 for language in range(_LANGUAGES))


def seed_phrases(text: str, octets: bytes, start: int, end: int) -> list[SecretSpan]:
    """Return the seed phrases in `text[start:end]`, which are these octets."""
    return [
        phrase
        for at, stop in stretches(octets, start, _FLAT, _CHARS_MIN)
        if _may_hold(text[at:stop].split())
        for phrase in _in_stretch(text, at, stop)
    ]


def _in_stretch(text: str, at: int, stop: int) -> Iterator[SecretSpan]:
    """Yield the phrases in a stretch of small letters and spaces."""
    listed = _listed()
    is_glued = at > 0 and not text[at - 1].isspace() and text[at - 1] not in _BEFORE
    words: list[tuple[int, int]] = []
    for word in _PIECE.finditer(text, at, stop):
        after = text[stop : stop + 1]
        is_whole = word.end() < stop or is_cjk(after) or not (after.isalnum() or PLACEHOLDER.match(text, stop))
        is_word = is_whole and word.group() in listed and not (word.start() == at and is_glued)
        if words and (not is_word or len(words) == WORDS_MAX or word.start() - words[-1][1] != 1):
            yield from _phrase(text, words)
            words = []
        if is_word:
            words.append(word.span())
    yield from _phrase(text, words)


def _may_hold(words: list[str]) -> bool:
    """Tell whether enough words of the list follow each other: one that is none lets all before it be passed over."""
    listed, last = _listed(), WORDS_MIN - 1
    while last < len(words):
        at = last
        while at > last - WORDS_MIN and words[at] in listed:
            at -= 1
        if at == last - WORDS_MIN and len(set(words[at + 1 : last + 1])) >= _DISTINCT_OF_TWELVE_MIN:
            return True
        last = at + WORDS_MIN if at > last - WORDS_MIN else last + WORDS_MIN // 2
    return False


def _phrase(text: str, spans: list[tuple[int, int]]) -> Iterator[SecretSpan]:
    words = [text[start:end] for start, end in spans]
    if len(words) >= WORDS_MIN and len(set(words)) >= _DISTINCT_MIN and words != sorted(words):
        yield SecretSpan(spans[0][0], spans[-1][1], RULE)


class ListedRun:
    """The words of the list that stand in a row before some place: the beginning of a phrase, perhaps."""

    __slots__ = ("_border", "_starts")

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._border = -1

    def open_at(self, text: str, start: int, border: int) -> int:
        """Return where in `text[start:border]` words begin that may become a phrase behind `border`; else `border`.

        Asked again for a border in the same row, it does not read it again."""
        if not (self._starts and self._starts[0] < border <= self._border):
            self._read(text, start, border)
        count = bisect_left(self._starts, border)
        return self._starts[count - count % WORDS_MAX] if count % WORDS_MAX else border

    def _read(self, text: str, start: int, border: int) -> None:
        listed, at = _listed(), border
        starts: list[int] = []
        while word := _LAST_WORD.search(text, max(start, at - _WORD_CHARS_MAX - 2), at):
            if word.group()[:-1] not in listed:
                break
            at = word.start()
            starts.append(at)
        self._starts, self._border = starts[::-1], border


_LINE_CHARS_MAX: Final = 400  # a longer line is read up to here, unless its rule says otherwise
_LOOK_BACK_CHARS: Final = 96
_TABLE_LOOK_BACK_CHARS: Final = 124  # what stands before an anchor; a stream keeps not much more
_ROWS_MAX: Final = 200
_MARK: Final = re.compile(  # what a quotation, a comment, a difference or a log puts in front of each line
    r" ?(?:[>+#/*-]{1,2} ?){1,2}|\d{4}-\d\d-\d\d[T ][\d:.,]{8,18}Z?(?: [A-Z]{4,8})?(?: [\w.-]{1,24}:)? "
    r"|[A-Z][a-z]{2} [ \d]\d [\d:]{8} \S{1,24} \S{1,24}: |[\w-]{1,24} {2,12}\| "
    r"|[\w-]{0,40}[./][\w./-]{1,60}[:-](?:\d{1,6}[:-])?"
    r"| {0,6}\d{1,5}(?:\t|  | {1,4}│ |: ?)|: \d{10}:\d+;|\^?[0-9a-f]{7,40} \([^()\n]{10,60}\) "
)
_NEXT_STRING: Final = re.compile(r"(?<=\n\",\n)\s{0,12}\"|\\{0,3}\", ?\\{0,3}\"")  # between lines in a list
_WRAPPED_END: Final = re.compile(
    r"\\{0,7}[\"'](?=[\]}),;:<\"']|\s*\Z|\s[\w:-]{1,20}=[\"'])|</|<br|\{(?:code|noformat)\}|\]\]>|\[/\w+\]|`"
)
"""Where the last line ends of a text that stands in quotes or in marks of its own."""

_WRAPPED_ENDS_MAX: Final = 16
_END_SIGN: Final = re.compile(r"\$(?=[)|]|\Z)")  # inside a set it is a sign like any other
_QUOTE: Final = re.compile(r"(?:\\\\(?:\{0,\d\}|\?))?\[(?:\"'|'\")\]")
_ANY_QUOTE: Final = r"(?:\\{0,7}[\"']|\"\"|'')"  # a quote: escaped in JSON, doubled in CSV, SQL and YAML
_Match = Callable[[str, int, int], re.Match[str] | None]
_SHAPE: Final = str.maketrans("123456789", "0" * 9)
_OF_COLUMNS: Final = (KeywordFamily.PERSONAL, KeywordFamily.KEY)
_CELL: Final = re.compile(r"[(,]|\\?[\"'](?P<value>(?:[^\"'\\]|\\.|''){0,256}?)\\?[\"']|[^(,\"']+")


def chosen(value: str) -> bool:
    """Tell whether a person could have chosen it as a password."""
    return is_secret(value, KeywordFamily.PERSONAL, Bond.ASSIGNED, is_quoted=False)


def words_in_base64(value: str) -> bool:
    """Tell whether a value may be base64 and is no word: what a Kubernetes Secret holds, and a ConfigMap does not."""
    return len(value) % 4 == 0 and (value.endswith("=") or (not value.islower() and not value.isdigit()))


_CHECKS: Final[Mapping[str, Check]] = {
    **CHECKS,
    "mnemonic": is_mnemonic,
    "chosen": chosen,
    "shaped": is_shaped,
    "pass_phrase": is_pass_phrase,
    "words_in_base64": words_in_base64,
}


def _line_start(text: str, at: int) -> int:
    """Return where the line that holds `at` begins, at most _TABLE_LOOK_BACK_CHARS before it."""
    begins = max(0, at - _TABLE_LOOK_BACK_CHARS)
    return text.rfind("\n", begins, at) + 1 or begins


def _mark_of(text: str, at: int) -> tuple[int, str]:
    """Return where the line that holds `at` begins, and the shape of the mark it begins with."""
    line = _line_start(text, at)
    mark = _MARK.match(text, line, at) if text[line - 1 : line] in ("", "\n") else None
    return line, mark.group().translate(_SHAPE) if mark else ""


def _behind(mark: str, text: str, line: int) -> int:
    """Return where the text of a line begins that may have the same mark as the one above."""
    for shared in (mark, mark[: mark.find(" ") + 1]):  # `> # users`, and a row below it: `> …`
        if shared and text[line : line + len(shared)].translate(_SHAPE) == shared:
            return line + len(shared)
    between = _NEXT_STRING.match(text, line)
    return between.end() if between else line


def _fits(match: _Match, text: str, at: int, stop: int, *, is_ended: bool) -> re.Match[str] | None:
    """Match a line; one that has to fit to its end and does not, without what ends the text that it is the last of."""
    if (found := match(text, at, stop)) or not is_ended:
        return found
    ends = islice(_WRAPPED_END.finditer(text, at, stop), _WRAPPED_ENDS_MAX)
    return next(filter(None, (match(text, at, end.start()) for end in ends)), None)


@dataclass(frozen=True, slots=True)
class LineRule:
    """One row of `lines.toml`; see its head for the fields."""

    id: str
    anchors: tuple[str, ...]
    before: re.Pattern[str] | None
    reach: int
    line: re.Pattern[str]
    until: re.Pattern[str] | None
    each: re.Pattern[str] | None
    head: re.Pattern[str] | None
    row: re.Pattern[str] | None
    gap: int
    chars_max: int
    checks: tuple[Check, ...]
    is_ended: bool  # does the line's pattern ask for its end?

    def may_begin(self, text: str, at: int, shown: str, shown_at: int) -> bool:
        """Tell whether what the rule wants before its anchor is there; until `shown_at` the text is as `shown` ends."""
        if self.before is None:
            return True
        if shown_at > max(0, at - _LOOK_BACK_CHARS):
            text, at = shown + text[shown_at:at], len(shown) + at - shown_at
        return self.before.search(text, max(0, at - self.reach), at) is not None

    def secrets(self, found: re.Match[str], *, is_new: bool) -> list[SecretSpan]:
        """Return what is cut of a matched line, or was cut if it is not new: a named group, or each part of it."""
        start, end = next((found.span(name) for name in found.re.groupindex if found.start(name) >= 0), (-1, -1))
        if start < 0:
            return []
        parts = [(start, end)]
        if self.each is not None and found.re is self.line:
            parts = [each.span(1) for each in self.each.finditer(found.string, start, end)]
        return [
            SecretSpan(*part, self.id)
            for part in parts
            if PLACEHOLDER.fullmatch(found.string, *part)
            or (is_new and all(check(found.string[slice(*part)]) for check in self.checks))
        ]


@dataclass(slots=True)
class RuledLines(State):
    """State: an anchor of a rule was read, and its line is matched when it is whole; then, line by line, those below.

    A line that is none of the rule's is given back to the machine, which comes here again at `due_at`."""

    POSITIONS = ("due_at", "interrupted", "read_until")

    rule: LineRule
    due_at: int | None = None  # where the next line begins that may belong to the rule; None: nowhere
    read_until: int | None = None  # up to where all secrets of a line were taken: no other anchor of the rule adds any
    interrupted: State | None = None  # what was open above, and goes on if this line is none of the rule's
    _columns: Mapping[int, KeywordFamily] = field(default_factory=dict)
    _parts: list[SecretSpan] = field(default_factory=list)  # secrets of the line that was read, and placeholders
    _is_below: bool = False
    _is_under_head: bool = False
    _mark: str = ""
    _misses: int = 0
    _rows: int = 0

    def waits(self, text: str, at: int, end: int, *, is_last: bool) -> bool:
        """Tell whether the line at `at` is not whole yet: until then there is nothing to look for."""
        return self._stop(text, at, end, is_last=is_last) is None

    def _stop(self, text: str, at: int, end: int, *, is_last: bool) -> int | None:
        until = None if self._is_below else self.rule.until
        return _line_end(text, at, end, self.rule.chars_max, until, is_last=is_last)

    def step(self, text: str, at: int, end: int, *, is_last: bool) -> StepResult:
        """See `State.step`. `at` is the anchor at first, then the beginning of a line."""
        if (stop := self._stop(text, at, end, is_last=is_last)) is None:
            return StepResult(at, waits=True)
        self.due_at = None
        is_row = self._is_below
        if self._matches(text, at, stop) and self.rule.row is not None and text[stop : stop + 1] == "\n":
            self.due_at = stop + 1
        if self._parts and is_row:
            self.interrupted = None
        secrets = [part for part in self._parts if not PLACEHOLDER.fullmatch(text, part.start, part.end)]
        return StepResult(at, is_over=True, found=secrets)

    def _matches(self, text: str, at: int, stop: int) -> bool:
        """Read one line; tell whether the next may belong to the rule."""
        rule = self.rule
        if not self._is_below:
            self._is_below = True
            found = _fits(rule.line.match, text, at, stop, is_ended=rule.is_ended)
            self._mark = _mark_of(text, at)[1] if found and rule.row else ""
            if found and rule.each:
                self.read_until = min(found.end(), at + rule.chars_max // 2)
            if found and "columns" in rule.line.groupindex:
                families = enumerate(map(family_of_name, found["columns"].split(",")))
                self._columns = {column: family for column, family in families if family in _OF_COLUMNS}
            self._parts = self._secrets(found, stop)
            return found is not None and (bool(self._columns) or "columns" not in rule.line.groupindex)
        assert rule.row is not None, "without one nothing is due below"
        self._rows += 1
        self._parts = []
        if text[at - 1] != "\n" or text.startswith('",\n', at):
            return self._rows < _ROWS_MAX
        at = _behind(self._mark, text, at)
        if rule.head is not None and rule.head.fullmatch(text, at, stop):
            self._is_under_head = True
            return True
        is_asked = self._is_under_head or rule.head is None
        found = _fits(rule.row.fullmatch, text, at, stop, is_ended=True) if is_asked else None
        self._parts = self._secrets(found, stop)
        self._misses = 0 if self._parts else self._misses + 1
        self._is_under_head = found is not None
        return self._misses <= rule.gap and self._rows < _ROWS_MAX

    def _secrets(self, found: re.Match[str] | None, stop: int) -> list[SecretSpan]:
        if found is None:
            return []
        text, is_new = found.string, placeholder_in(found.string, found.start(), stop) is None
        if not self._columns:
            return self.rule.secrets(found, is_new=is_new) if "columns" not in found.re.groupindex else []
        return [
            SecretSpan(*span, self.rule.id)
            for column, span in _cells(found)
            if (family := self._columns.get(column)) is not None
            and (
                PLACEHOLDER.fullmatch(text, *span)
                or (is_new and is_secret(text[slice(*span)], family, Bond.SAID, is_quoted=True))
            )
        ]


def _cells(found: re.Match[str]) -> Iterator[tuple[int, tuple[int, int]]]:
    """Yield the quoted values of the rows `(…, …), (…, …)`, each with the number of its column."""
    column = 0
    for cell in _CELL.finditer(found.string, *found.span("rows")) if found["rows"] else ():
        sign = cell.group()
        if sign in "(,":
            column = 0 if sign == "(" else column + 1
        elif cell["value"]:
            yield column, cell.span("value")


def may_open(rule: LineRule, text: str, at: int, end: int, *, is_last: bool) -> bool:
    """Tell whether a line with an anchor of the rule at `at` may be one of the rule's. It is none if it is whole in
    `text[:end]` and does not fit, or if the anchor is the kind that a placeholder names."""
    stop = _line_end(text, at, end, rule.chars_max, rule.until, is_last=is_last) if rule.each is None else None
    is_open = stop is None or _fits(rule.line.match, text, at, stop, is_ended=rule.is_ended) is not None
    return is_open and not in_placeholder(text, at)


def open_anchor(text: str, start: int, border: int) -> int:
    """Return where in `text[start:border]` an anchor of several words begins that goes on behind `border`, or may;
    else `border`."""
    beginnings, rests, chars_max = _beginnings()
    before = text[max(start, border - chars_max) : border].lower()
    longest = beginnings.match(before[::-1])
    behind = text[border : border + chars_max].lower() if longest else ""
    chars = range(longest.end() if longest else 0, 0, -1)
    each = ((count, rest) for count in chars for rest in rests.get(before[-count:], ()))
    return border - next((n for n, rest in each if rest.startswith(behind) or behind.startswith(rest)), 0)


@cache
def _beginnings() -> tuple[re.Pattern[str], Mapping[str, list[str]], int]:
    """Return what stands before a space in an anchor, the space included, to be read from its end; what may follow each
    of these; and how long the longest anchor is."""
    rests: dict[str, list[str]] = {}
    for space in (space for anchor in line_rules() for space in re.finditer(r"\s(?!\Z)", anchor)):
        rests.setdefault(space.string[: space.end()], []).append(space.string[space.end() :])
    return backwards(rests), rests, max(map(len, line_rules()))


@cache
def line_rules() -> Mapping[str, LineRule]:
    """Return the rules as shipped by their anchors, which are in lower case. Read once, at the first text."""
    tables = tomllib.loads(Path(__file__).with_name("lines.toml").read_text(encoding="utf-8"))
    parts = {"things": trie_pattern(vocabulary().things)}
    for name, part in tables["part"].items():
        parts[name] = expanded(part, parts)
    rules = [_rule(rule_id, row, parts) for rule_id, row in tables["line"].items()]
    return {form: rule for rule in rules for anchor in rule.anchors for form in (anchor, anchor.replace('"', '\\"'))}


def _rule(rule_id: str, row: Mapping[str, Any], parts: Mapping[str, str]) -> LineRule:
    def pattern(name: str) -> Any:
        if name not in row:
            return None
        written_out = _QUOTE.sub(lambda quote: _ANY_QUOTE, expanded(row[name], parts))
        return re.compile(written_out + (r"\Z" if name == "before" else ""))

    patterns = {name: pattern(name) for name in ("before", "line", "until", "each", "head", "row")}
    return LineRule(
        id=rule_id,
        anchors=tuple(row["anchors"]),
        reach=min(_LOOK_BACK_CHARS, _parser.parse(patterns["before"].pattern).getwidth()[1]) if "before" in row else 0,
        **patterns,
        gap=row.get("gap", 1),
        chars_max=row.get("chars_max", _LINE_CHARS_MAX),
        checks=tuple(_CHECKS[name] for name in row.get("checks", ())),
        is_ended=_END_SIGN.search(patterns["line"].pattern) is not None,
    )


def _line_end(
    text: str, at: int, end: int, chars_max: int, until: re.Pattern[str] | None = None, *, is_last: bool
) -> int | None:
    """Return where the line ends that `at` stands in, or where no more of it is read; None if that is not known yet."""
    limit = at + chars_max
    newline = text.find("\n", at, min(end, limit))
    stop = newline if newline >= 0 else min(end, limit)
    if until is not None and (over := until.search(text, at, stop)):
        return over.end()
    return stop if newline >= 0 or end >= limit or is_last else None


# A table with a column of secrets: the announcing word heads the column, the values stand in the rows below.
#
# | user | password |        user;password        User     Password
# |------|----------|        bob;…                bob      …
# | bob  | …        |
#
# Nothing but the rows tells that it is a table, so its header waits for the first of them.

_HEAD_CHARS_MAX: Final = 160
_COLUMN_NAME_CHARS_MAX: Final = 32  # the head of a column is a name of a few words
_HEAD: Final = re.compile(rf"[^\W\d_](?:[^\W\d]|[ _/-](?! )){{0,{_COLUMN_NAME_CHARS_MAX - 1}}}\d?")
_FIRST_HEAD: Final = re.compile(rf"{_HEAD.pattern}\Z")  # of the first column, behind what stands before it on its line
_AT_EDGE: Final = re.compile(r"[\\\"'`*]{0,6}[ \t]{0,40}(?:(?:<br/?>)?\r?\n|[|│,;\t]|\\t|(?<= ) )")
_MAY_END_CELL: Final = re.compile(r"\\{1,4}t|(?=[ \t\r|│,;\\\"'`*<])[\\\"'`*]{0,6}+ ?+(?:<br|[\s|│,;\"'`*]|\Z)")
"""What may become an edge when more of the text is there."""

_HEAD_REST: Final = re.compile(r"(?:[^\W\d]|[-/ \t|│,;\\\"'`*\r])*(?:<br/?>)?\n?")
"""What follows on the line of a header; any other character says that this is none."""

_RULE_LINE: Final = re.compile(r"(?:[\s|:=+\u2500-\u257f-]*(?:<br/?>)?|\",)\Z")
_PARTS_CELLS: Final = re.compile(r"[|│\t;,]|  |\\t")
_AROUND_CELL: Final = " \t\r\\\"'`*}]"
_BETWEEN_CELLS: Final = tuple(map(re.compile, (r"\|{1,2}|│", r"\t|\\{1,4}t", ";", ",", r"[ \t]{2,}")))
"""Signs that part the cells, those first that are no part of a text."""


@dataclass(slots=True)
class TableColumn(State):
    """State: an announcing word stands where the head of a column may stand."""

    POSITIONS = ("due_at", "interrupted")

    _word: Announcement  # it ends where the machine is until the header is read, whatever its own positions say by then
    due_at: int | None = None  # where the next row begins; the machine reads what a row holds beside its secrets
    interrupted: State | None = None
    _between: re.Pattern[str] | None = None
    _mark: str = ""
    _cells: int = 0
    _columns: dict[int, KeywordFamily] = field(default_factory=dict)
    _rows: int = 0

    def step(self, text: str, at: int, end: int, *, is_last: bool) -> StepResult:
        """See `State.step`. Without a header it is any announced value."""
        if self._between is None:
            if (below := self._below_header(text, at, end, is_last=is_last)) is None:
                return StepResult(at, waits=True)
            if below < 0:
                return StepResult(at, becomes=AnnouncedValue(self._word._replace(end=at)))
            self.due_at = below
            return StepResult(below - 1, is_over=True)
        return self._read_row(text, at, end, is_last=is_last)

    def _below_header(self, text: str, at: int, end: int, *, is_last: bool) -> int | None:
        """Return where the first row begins; negative if there is no table; None if that cannot be told yet."""
        limit = min(end, at + _HEAD_CHARS_MAX)
        if _AT_EDGE.match(text, at, limit) is None:
            is_open = not is_last and end - at < _HEAD_CHARS_MAX and not text[at:end].strip(_AROUND_CELL + "<br/>")
            return None if is_open else -1
        rest = _HEAD_REST.match(text, at, limit)
        if rest is None or not rest.group().endswith("\n"):
            is_open = not is_last and rest is not None and rest.end() == end and limit == end
            return None if is_open else -1
        line, mark = _mark_of(text, at)
        below = rest.end()
        if len(mark) > end - below and not is_last:
            return None
        self._mark = mark if _behind(mark, text, below) > below else ""
        line += len(self._mark)
        bar = text.find("|", line, at)
        line = bar if bar > line and text[bar - 2 : bar].rstrip().endswith(('"', "'", ">", "[", ":")) else line
        head = text[line : below - 1]
        for between in _BETWEEN_CELLS:
            if between.search(head.strip()):
                return self._columns_of(text, (line, at, below), end, between, is_last=is_last)
        return -1

    def _columns_of(
        self, text: str, head: tuple[int, int, int], end: int, between: re.Pattern[str], *, is_last: bool
    ) -> int | None:
        line, word_end, below = head
        if PLACEHOLDER.search(text, line, below):
            return -1
        heads = _cells_of(text, line, below - 1, between)
        named = next((at for at, head in enumerate(reversed(heads)) if not _HEAD.fullmatch(text, *head)), len(heads))
        heads = heads[-named - 1 :]  # what stands before the first of them is none of the table
        row_end = _line_end(text, below, end, _LINE_CHARS_MAX, is_last=is_last)
        if not named or row_end is None:
            return None if named else -1
        is_drawn = row_end > below and _RULE_LINE.match(text, _behind(self._mark, text, below), row_end) is not None
        cells = heads if is_drawn else self._row(text, below, row_end, between, len(heads))
        heads = heads[-len(cells) :]
        begins = max(heads[0][0], heads[0][1] - _COLUMN_NAME_CHARS_MAX)
        first = _FIRST_HEAD.search(text, begins, heads[0][1])  # `"content": "user;password`
        if placeholder_in(text, below, row_end) and not any(PLACEHOLDER.fullmatch(text, *each) for each in cells):
            self._between = between  # it had other cells when it was read first: nothing new is in it
            return below
        if not 2 <= len(cells) <= len(heads) or first is None:
            return -1
        heads[0] = first.span()
        columns: dict[int, KeywordFamily] = {}
        for which, (start, stop) in enumerate(heads):
            family = self._word.family if stop == word_end else family_of_name(text[start:stop])
            if family in _OF_COLUMNS:
                columns[which] = family
        if not columns:
            return -1
        self._between, self._cells, self._columns = between, len(heads), columns
        return below

    def _row(self, text: str, at: int, end: int, between: re.Pattern[str], count: int) -> list[tuple[int, int]]:
        """Return the cells of a row; if they are not so many, those before what ends the text that holds it."""
        cells = _cells_of(text, at := _behind(self._mark, text, at), end, between)
        is_row = len(cells) == count and not _WRAPPED_END.search(text, cells[-1][0] + 1, cells[-1][1])
        for ending in () if is_row else islice(_WRAPPED_END.finditer(text, at, end), _WRAPPED_ENDS_MAX):
            if len(shorter := _cells_of(text, at, ending.start(), between)) == count:
                return shorter
        return cells

    def _read_row(self, text: str, at: int, end: int, *, is_last: bool) -> StepResult:
        assert self._between is not None, "the header was read"
        if (row_end := _line_end(text, at, end, _LINE_CHARS_MAX, is_last=is_last)) is None:
            return StepResult(at, waits=True)
        self.due_at = None
        is_rule = _RULE_LINE.match(text, _behind(self._mark, text, at), row_end) is not None and row_end > at
        is_begun = text[at - 1] != "\n"
        cells = [] if is_rule or is_begun else self._row(text, at, row_end, self._between, self._cells)
        self._rows += 1
        if len(cells) in (0, self._cells) and self._rows <= _ROWS_MAX and row_end - at < _LINE_CHARS_MAX:
            self.due_at = row_end + 1 if text[row_end : row_end + 1] == "\n" else None
            is_new = cells and not PLACEHOLDER.search(text, at, row_end)  # it may have been too long when it was read
            return StepResult(at, is_over=True, found=self._secrets(text, cells) if is_new else ())
        return StepResult(at, is_over=True)

    def _secrets(self, text: str, cells: list[tuple[int, int]]) -> list[SecretSpan]:
        """Return the cells of a row that hold secrets."""
        return [
            SecretSpan(start, stop, family.rule)
            for (start, stop), family in ((cells[which], family) for which, family in self._columns.items())
            if not any(map(str.isspace, text[start:stop]))
            and is_secret(text[start:stop], family, Bond.SAID, is_quoted=False)
        ]


def may_be_head(word: Announcement, text: str, shown_at: int = -1) -> bool:
    """Tell whether the word is followed by the end of a cell, or by what leads to it; at the end of its line, whether
    there is a cell before it. A line that holds a secret, which ended at `shown_at`, is no header."""
    if word.family not in _OF_COLUMNS:
        return False
    is_last = text.startswith("\n", word.end)
    if not (follows_cell(text, word.start) if is_last else _MAY_END_CELL.match(text, word.end)):
        return False
    line = _line_start(text, word.start)
    return shown_at <= line and not (in_placeholder(text, line) or PLACEHOLDER.search(text, line, word.start))


def follows_cell(text: str, at: int) -> bool:
    """Tell whether a sign that parts the cells of a table stands before `at` on its line."""
    return _PARTS_CELLS.search(text, _line_start(text, at), at) is not None


def _cells_of(text: str, start: int, end: int, between: re.Pattern[str]) -> list[tuple[int, int]]:
    """Return the cells of one line without the space around them."""
    end = end if (line_break := text.find("<br", start, end)) < 0 else line_break
    start, end = _without(" \t\r|│", text, start, _without(" \t\r|│\"'}]", text, start, end)[1])
    parts: list[tuple[int, int]] = []
    for sign in between.finditer(text, start, end):
        if text.startswith('"', start) and text[start : sign.start()].count('"') == 1:
            continue  # a comma inside a cell
        parts.append((start, sign.start()))
        start = sign.end()
    return [_without(_AROUND_CELL, text, *part) for part in (*parts, (start, end))]


def _without(around: str, text: str, start: int, end: int) -> tuple[int, int]:
    while start < end and text[start] in around:
        start += 1
    while end > start and text[end - 1] in around:
        end -= 1
    return start, end
