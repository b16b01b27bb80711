"""An operator's own secret formats: the rules of `scrub.rules_file`, in our format or in that of gitleaks.

    [prefix.acme]                          [[rules]]
    anchors = ["acme_"]                    id = "acme"
    body = "base62:32"                     regex = '''\\b(acme_[a-zA-Z0-9]{32})\\b'''
                                           keywords = ["acme_"]

The expressions are somebody else's, so they run on RE2, which never backtracks: the time grows with the text and with
nothing else. What RE2 cannot do is refused with its reason. A rule sees one line at a time and no more of it than
`WINDOW_CHARS` from one of its words on; a stream is held that long, so it finds what the whole text would show."""

from __future__ import annotations

import math
import random
import re
import tomllib
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from gateway.contracts.errors import ConfigError
from gateway.scrub.known import placeholder_in, united
from gateway.scrub.rules import ALPHABETS, CHECKS, SURROGATE, Check, Movable, SecretSpan, expanded, finder, trie_pattern
from gateway.scrub.view import closed_until, normalised, unit_end

if TYPE_CHECKING:
    from gateway.config.features import ScrubSettings  # loads pydantic, which the supervisor lives without

OWN: Final = "own"
"""The kind of all that these rules find. Their names stay out of placeholders: they may hold words such as `key`."""

WINDOW_CHARS: Final = 1_024  # so much of a line is read from a rule's word on, and a stream is held at most so long
STEP_CHARS: Final = 512  # so much later the next window of a longer line begins: no match that is shorter is missed
LOOK_BACK_CHARS: Final = 96  # so far before the word a match may begin, but no secret: a stream gave it away
RULES_FILE_BYTES_MAX: Final = 2 * 1024 * 1024  # the largest public collection has 100 kB
RULES_MAX: Final = 2_000
KEYLESS_RULES_MAX: Final = 50  # a rule without a word reads every line, some 10 microseconds each
_PROGRAM_BYTES_MAX: Final = 1024 * 1024  # of one expression with what it remembers; beyond it is slower, and as right
_COMPLETE_SHARE: Final = 0.75  # as in our own rules: a key that lost a quarter is still worth hiding

_LINE: Final = re.compile(rf"[^\s](?:[^\r\n]{{0,{STEP_CHARS - 1}}})")
_LINE_END: Final = re.compile(r"[\r\n]")
_ACROSS_LINES: Final = re.compile(r"\(\?[imU]*s|\[[^\]]*(?:\\s\\S|\\S\\s|\\w\\W|\\W\\w|\\d\\D|\\D\\d)")
_LONG_TEXT: Final = re.compile(r"'''.*?'''|\"\"\".*?\"\"\"", re.DOTALL)
_SLOT: Final = re.compile(r"<(\w+):(\d{1,4})>")
_UNIT: Final = re.compile(r"[^\s\u2e80-\ud7ff\uff01-\uffef]+|[\u2e80-\ud7ff]+")


@dataclass(frozen=True, slots=True)
class Allowlist:
    """What a gitleaks rule does not mean: any of these (`needs_all`: each of the two) in the secret or around it."""

    patterns: tuple[Any, ...]
    stopwords: tuple[str, ...]
    target: str
    needs_all: bool

    def allows(self, secret: str, match: str, line: str) -> bool:
        """Tell whether a finding is none."""
        seen = {"match": match, "line": line}.get(self.target, secret)
        lowered = secret.lower()
        asked = [any(pattern.search(seen) for pattern in self.patterns)] if self.patterns else []
        asked += [any(word in lowered for word in self.stopwords)] if self.stopwords else []
        return bool(asked) and (all(asked) if self.needs_all else any(asked))


@dataclass(frozen=True, slots=True)
class OwnRule:
    """One rule. It is tried only in a window that holds one of its `keywords` (lower case), in every one if there are
    none. `group`: the part of a match that is the secret, 0 for the first that matched, or all of it."""

    id: str
    line: int
    pattern: Any
    keywords: tuple[str, ...] = ()
    group: int = 0
    entropy: float = 0.0
    checks: tuple[Check, ...] = ()
    allowlists: tuple[Allowlist, ...] = ()

    def secrets(self, line: str) -> Iterator[tuple[int, int]]:
        """Yield where in a line, or a part of one, secrets of this rule begin and end."""
        for found in self.pattern.finditer(line):
            groups = [self.group] if self.group else range(1, self.pattern.groups + 1)
            start, end = next((span for span in map(found.span, groups) if span[1] > span[0]), found.span())
            secret = line[start:end]
            if (
                secret
                and (not self.entropy or entropy(secret) > self.entropy)
                and all(check(secret) for check in self.checks)
                and placeholder_in(line, start, end) is None
                and not any(each.allows(secret, found.group(), line) for each in self.allowlists)
            ):
                yield start, end


def entropy(secret: str) -> float:
    """Return Shannon's entropy of the characters, in bits per character."""
    counts = Counter(secret).values()
    return -sum(count / len(secret) * math.log2(count / len(secret)) for count in counts)


class OwnRules:
    """The rules in force, what they leave alone, and the search for their words."""

    def __init__(
        self, rules: Sequence[OwnRule], *, allowed_values: Iterable[str] = (), allowed_places: Iterable[str] = ()
    ) -> None:
        """Keep the rules. `allowed_values` no rule of any kind removes; in `allowed_places` (the text of a session key,
        or its beginning up to a sign) these rules remove nothing."""
        self.rules = tuple(rules)
        self.allowed_values = frozenset(map(normalised, allowed_values))
        self._places = tuple(allowed_places)
        self._without_rules = OwnRules((), allowed_values=allowed_values) if self._places else self
        self._finder = finder({word for rule in rules for word in rule.keywords})
        self._reads_all = any(not rule.keywords for rule in rules)

    def within(self, chat: str) -> OwnRules:
        """Return the same, without the rules where this chat is one of the places that are allowed more."""
        is_free = any(chat == place or (chat.startswith(place) and chat[len(place)] in ":/.") for place in self._places)
        return self._without_rules if is_free else self

    def words(self, text: str, lowered: str, start: int, end: int) -> Iterable[int]:
        """Return where words of rules stand in `text[start:end]`; one that reads all has each line for its word."""
        if self._reads_all:
            return [found.start() for found in _LINE.finditer(text, start, end)]
        return [at for _, at, _ in self._finder.find(lowered, start, end)] if self.rules else []

    def asked_in(self, lowered: str, start: int, end: int) -> Iterator[OwnRule]:
        """Yield the rules that have a word in this window, or need none."""
        words = {self._finder.literals[which] for which, _, _ in self._finder.find(lowered, start, end)}
        return (rule for rule in self.rules if not rule.keywords or not words.isdisjoint(rule.keywords))


class OwnRuleReader(Movable):
    """Reads a growing text for one machine, a window at a time; keeps the secrets until they are cut."""

    __slots__ = ("_opens_at", "_read_until", "_sought_until", "_words", "rules", "spans")
    POSITIONS = ("_opens_at", "_read_until", "_sought_until", "_words", "spans")

    def __init__(self, rules: OwnRules) -> None:
        self.spans: list[SecretSpan] = []  # what was found, in order, none overlapping another
        self.rules = rules
        self._words: deque[int] = deque()
        self._sought_until = self._read_until = 0
        self._opens_at: int | None = None

    def pass_by(self, at: int) -> None:
        """Drop what ends before `at`."""
        if self.spans:
            self.spans = [span for span in self.spans if span.end > at]

    def settle(self, text: str, lowered: str, start: int, border: int, *, is_last: bool) -> int:
        """Look through all windows in `text[start:border]` that are whole; returns where the first begins that is not,
        else `border`. With `is_last` the text ends there, and each is whole."""
        sought_from = max(start, self._sought_until)
        if sought_from < border:
            self._words.extend(self.rules.words(text, lowered, sought_from, border))
            self._sought_until = border
        while True:
            if self._opens_at is None:
                while self._words and self._words[0] < max(start, self._read_until):
                    self._words.popleft()
                if not self._words or self._words[0] >= border:
                    return border
                self._opens_at = _beginning_of(text, start, self._words[0])
            opens_at, limit = self._opens_at, self._opens_at + WINDOW_CHARS
            line_end = _LINE_END.search(text, opens_at, min(border, limit))
            if line_end is None and border < limit and not is_last:
                return opens_at
            stop = line_end.start() if line_end else min(border, limit)
            self._look(text, lowered, opens_at, stop, border)
            self._read_until = stop if stop < limit else opens_at + STEP_CHARS
            self._opens_at = None

    def reaches_over(self, border: int) -> int:
        """Return where an open window or a secret begins that ends behind `border`; else `border`."""
        begun = [span.start for span in self.spans if span.start < border < span.end]
        return min([*begun, border, border if self._opens_at is None else self._opens_at])

    def first_word(self, text: str, lowered: str, start: int, end: int) -> int:
        """Return where in `text[start:end]` a window would begin; else `end`."""
        words = self.rules.words(text, lowered, start, end)
        return min((_beginning_of(text, start, at) for at in words), default=end)

    def _look(self, text: str, lowered: str, opens_at: int, stop: int, border: int) -> None:
        near = max(0, opens_at - LOOK_BACK_CHARS)
        base = max(near, text.rfind("\n", near, opens_at) + 1, text.rfind("\r", near, opens_at) + 1)
        line = SURROGATE.sub("\ufffd", text[base:stop])
        found: list[SecretSpan] = []
        for rule in self.rules.asked_in(lowered, opens_at, stop):
            for start, end in rule.secrets(line):
                if base + end > opens_at:
                    # What the window has cut goes on as far as its run does.
                    ends_at = unit_end(text, stop - 1, border) if base + end == stop < border else base + end
                    found.append(SecretSpan(max(opens_at, base + start), ends_at, f"{OWN}/{rule.id}"))
        if found:
            while self.spans and self.spans[-1].end > opens_at:
                found.append(self.spans.pop())
            self.spans += united(found)


def _beginning_of(text: str, start: int, word_at: int) -> int:
    """Return where the window of a word begins: with its run, which is given away whole or not at all."""
    return closed_until(text, max(start, word_at - LOOK_BACK_CHARS), word_at + 1)


# A file of rules, row by row: taken, refused because it asks for what a text does not have, or wrong.


class RefusedRule(NamedTuple):
    """A rule that is not in force, and why. `is_mistake`: its author has to correct it before anything starts."""

    id: str
    line: int
    reason: str
    is_mistake: bool

    @property
    def place(self) -> str:
        """Return where it stands, in front of what is said of it; nothing where that is not known."""
        return f"line {self.line}: " if self.line else ""


class RulesFile(NamedTuple):
    """What became of the rules of one file, in its order."""

    taken: tuple[OwnRule, ...]
    refused: tuple[RefusedRule, ...]


class _Refused(Exception):
    """A rule of a gitleaks file asks for what there is not here: the file as a whole may still be used."""


_GITLEAKS_FIELDS: Final = frozenset(
    {"id", "description", "regex", "secretgroup", "entropy", "keywords", "path", "tags", "allowlist", "allowlists"}
)
_ROW_FIELDS: Final[Mapping[str, frozenset[str]]] = {
    "prefix": frozenset({"anchors", "body", "glued", "checks", "examples", "counter_examples"}),
    "shape": frozenset({"anchors", "pattern", "checks", "examples", "counter_examples"}),
}
_GITLEAKS_TABLES: Final = frozenset(
    {"title", "description", "minversion", "extend", "rules", "allowlist", "allowlists", "beta"}
)


def own_rules(scrub: ScrubSettings) -> OwnRules | None:
    """Load what is configured about own rules; None if nothing is. Raises `ConfigError` as `load_rules` does."""
    rules = load_rules(scrub.rules_file) if scrub.rules_file is not None else ()
    if not rules and not scrub.allowed_values:
        return None
    return OwnRules(rules, allowed_values=scrub.allowed_values, allowed_places=scrub.allowed_places)


def load_rules(path: Path) -> tuple[OwnRule, ...]:
    """Load the rules of a file. Raises `ConfigError`: with a file that cannot be read as it was meant nothing starts.
    What a gitleaks file asks for beyond texts is no mistake; `trivet doctor` tells it."""
    found = read_rules(path)
    mistake = next((row for row in found.refused if row.is_mistake), None)
    why = f"{mistake.place}rule {mistake.id}: {mistake.reason}" if mistake else "it has no rule that can be used"
    if mistake or not found.taken:
        raise ConfigError(f"scrub.rules_file: {path}: {why}; correct it, `trivet scrub --check {path}` shows all of it")
    return found.taken


def read_rules(path: Path) -> RulesFile:
    """Read a file of rules in either format. Raises `ConfigError` if it is none at all."""
    where = f"scrub.rules_file: {path}"
    if find_spec("re2") is None:
        raise ConfigError(f"{where} needs the extra `rules` (google-re2), which is not installed: install it")
    try:
        with path.open("rb") as file:
            octets = file.read(RULES_FILE_BYTES_MAX + 1)
        text = octets.decode("utf-8-sig")
        tables = tomllib.loads(text)
    except OSError as error:
        raise ConfigError(f"{where} cannot be read ({error.strerror}): correct the path or its rights") from error
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigError(f"{where} is not valid TOML: {error}; correct that line") from error
    if len(octets) > RULES_FILE_BYTES_MAX:
        raise ConfigError(f"{where} is larger than {RULES_FILE_BYTES_MAX:,} bytes: leave out what you do not need")
    is_gitleaks = "rules" in tables
    known = _GITLEAKS_TABLES if is_gitleaks else _ROW_FIELDS.keys()
    for name, table in tables.items():
        if (name.lower() if is_gitleaks else name) not in known or (not is_gitleaks and not isinstance(table, dict)):
            raise ConfigError(
                f"{where}: {name} is unknown: rules are [prefix.NAME], [shape.NAME] or gitleaks' [[rules]]"
            )
    rows = list(_gitleaks_rows(text, tables) if is_gitleaks else _own_rows(text, tables))
    if len(rows) > RULES_MAX:
        raise ConfigError(f"{where} has more than {RULES_MAX:,} rules: leave out what you do not need")
    return _sorted_out(rows)


_Row = tuple[str, int, Callable[[], OwnRule]]  # the name of a rule, its line, and what makes it


def _sorted_out(rows: Iterable[_Row]) -> RulesFile:
    taken: dict[str, OwnRule] = {}
    refused: list[RefusedRule] = []
    keyless = 0
    for name, line, make in rows:
        try:
            if name in taken:
                raise ValueError("another rule has this name")
            rule = make()
            keyless += not rule.keywords
            if not rule.keywords and keyless > KEYLESS_RULES_MAX:
                raise _Refused(
                    f"it has no keywords: more than {KEYLESS_RULES_MAX} rules of that kind cost too much time"
                )
            taken[name] = rule
        except (ValueError, TypeError, _Refused) as error:
            refused.append(RefusedRule(name, line, str(error), not isinstance(error, _Refused)))
    return RulesFile(tuple(taken.values()), tuple(refused))


def _compiled(expression: object) -> Any:
    """Compile an expression. Raises `ValueError` with RE2's reason: look-around, back-references, many repetitions."""
    import re2  # noqa: PLC0415 - start-up: most have no such file

    if not isinstance(expression, str) or not expression:
        raise ValueError("its expression is no text")
    options = re2.Options()
    options.log_errors, options.max_mem = False, _PROGRAM_BYTES_MAX
    try:
        pattern = re2.compile(expression, options)
    except re2.error as error:
        reason = error.args[0]
        raise ValueError(f"RE2 does not take it: {reason.decode() if isinstance(reason, bytes) else reason}") from None
    return pattern


def _searching(expression: object) -> Any:
    """Compile the expression of a rule; see `_compiled`. Raises `_Refused` for one that only line breaks fit."""
    pattern = _compiled(expression)
    if _ACROSS_LINES.search(str(expression)):
        raise _Refused("it reads over several lines, and a rule sees one line at a time")
    if pattern.search("") is not None:
        raise ValueError("it matches where there is nothing")
    return pattern


def _keywords(words: object) -> tuple[str, ...]:
    """Return of each keyword the longest part that no space or change of script divides, in lower case."""
    runs = (_UNIT.findall(word.lower()) for word in _texts(words, "keywords"))
    longest = [max(run, key=len) if run else "" for run in runs]
    return tuple(dict.fromkeys(longest)) if all(longest) else ()


def _texts(found: object, name: str) -> Sequence[str]:
    if not isinstance(found, list) or not all(isinstance(each, str) for each in found):
        raise ValueError(f"{name} is no list of texts")
    return found


def _gitleaks_rows(text: str, tables: Mapping[str, Any]) -> Iterator[_Row]:
    """Yield the rules of a file in gitleaks' format (its README, "Configuration"); names of fields in any case."""
    everywhere = {name.lower(): table for name, table in tables.items()}
    rules = tables["rules"]
    if not isinstance(rules, list) or not all(isinstance(rule, dict) for rule in rules):
        raise ConfigError("scrub.rules_file: rules is no list of tables: write [[rules]] above each")
    lines = _lines_of(text, r"\[\[\s*\"?rules\"?\s*\]", len(rules))
    for number, (rule, line) in enumerate(zip(rules, lines, strict=True), 1):
        fields = {name.lower(): value for name, value in rule.items()}
        name = str(fields.get("id") or f"number {number}")
        yield name, line, partial(_gitleaks_rule, fields, name, line, everywhere)


def _gitleaks_rule(fields: Mapping[str, Any], name: str, line: int, everywhere: Mapping[str, Any]) -> OwnRule:
    if "id" not in fields:
        raise ValueError("it has no id")
    if "path" in fields:
        reason = "it is for files with certain names only" if "regex" in fields else "it looks at names of files only"
        raise _Refused(reason)
    if "required" in fields:
        raise _Refused("it needs other rules near it")
    if strange := fields.keys() - _GITLEAKS_FIELDS:
        raise _Refused(f"{', '.join(sorted(strange))} is not known here")
    pattern = _searching(fields.get("regex"))
    group, least = fields.get("secretgroup", 0), fields.get("entropy", 0.0)
    if not isinstance(group, int) or not 0 <= group <= pattern.groups:
        raise ValueError(f"secretGroup {group} is none of its {pattern.groups} groups")
    if not isinstance(least, int | float):
        raise ValueError("entropy is no number")  # noqa: TRY004 - a file of its author's
    asked = [*_tables(fields), *(table for table in _tables(everywhere) if name in table.get("targetRules", [name]))]
    return OwnRule(
        name,
        line,
        pattern,
        _keywords(fields.get("keywords", [])),
        group,
        float(least),
        allowlists=tuple(filter(None, map(_allowlist, asked))),
    )


def _tables(fields: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the lists of what is allowed, in the older spelling and in the newer."""
    older, newer = [fields["allowlist"]] if "allowlist" in fields else [], fields.get("allowlists", [])
    if not isinstance(newer, list) or not all(isinstance(table, dict) for table in (*older, *newer)):
        raise ValueError("allowlists is no list of tables")
    return [*older, *newer]


def _allowlist(table: Mapping[str, Any]) -> Allowlist | None:
    """Build what a table allows; None if it is about paths and commits alone, which texts do not have."""
    needs_all = str(table.get("condition", "OR")).upper() in ("AND", "&&")
    patterns, stopwords = _texts(table.get("regexes", []), "regexes"), _texts(table.get("stopwords", []), "stopwords")
    if not (patterns or stopwords) or (needs_all and (table.get("paths") or table.get("commits"))):
        return None
    target = str(table.get("regexTarget", ""))
    return Allowlist(tuple(map(_compiled, patterns)), tuple(map(str.lower, stopwords)), target, needs_all)


def _own_rows(text: str, tables: Mapping[str, Any]) -> Iterator[_Row]:
    """Yield the rules of a file in the format of our own `rules.toml`."""
    for kind, table in tables.items():
        for (name, fields), line in zip(table.items(), _lines_of(text, rf"\[\s*{kind}\s*\.", len(table)), strict=True):
            yield name, line, partial(_own_rule, kind, fields, name, line)


def _own_rule(kind: str, fields: Any, name: str, line: int) -> OwnRule:
    if not isinstance(fields, dict):
        raise ValueError(f"it is no table: write [{kind}.{name}]")  # noqa: TRY004 - a file of its author's
    if strange := fields.keys() - _ROW_FIELDS[kind]:
        raise ValueError(f"{', '.join(sorted(strange))} is unknown: there are {', '.join(sorted(_ROW_FIELDS[kind]))}")
    anchors = _texts(fields.get("anchors"), "anchors")
    checks = _texts(fields.get("checks", ["varied"] if kind == "prefix" else []), "checks")
    if not anchors or not all(anchors):
        raise ValueError("it has no anchors")
    if unknown := [check for check in checks if check not in CHECKS]:
        raise ValueError(f"check {unknown[0]} is unknown: there are {', '.join(CHECKS)}")
    expression = fields.get("pattern") if kind == "shape" else _of_body(anchors, fields)
    if isinstance(expression, str):
        expression = expanded(expression)
    pattern = _searching(expression)
    group = pattern.groupindex.get("secret", 0)
    rule = OwnRule(name, line, pattern, _keywords(list(anchors)), group, checks=tuple(CHECKS[each] for each in checks))
    for example in _texts(fields.get("examples", []), "examples"):
        if not any(rule.secrets(_drawn(example))):
            raise ValueError(f"its example {example!r} is not found")
    for example in _texts(fields.get("counter_examples", []), "counter_examples"):
        if any(rule.secrets(_drawn(example))):
            raise ValueError(f"its counter-example {example!r} is found")
    return rule


def _of_body(anchors: Sequence[str], fields: Mapping[str, Any]) -> str:
    """Write an anchor and its `alphabet:count` as an expression; three quarters of the characters are enough."""
    name, _, count = str(fields.get("body", "")).partition(":")
    if name not in ALPHABETS or not count.isdecimal() or not 0 < int(count) <= WINDOW_CHARS // 2:
        raise ValueError(f"body is no alphabet:count, where alphabets are {', '.join(ALPHABETS)}")
    before = "" if fields.get("glued") is True else "(?:^|[^A-Za-z0-9])"
    least = int(int(count) * _COMPLETE_SHARE)
    return f"{before}(?P<secret>(?:{trie_pattern(anchors)})[{ALPHABETS[name]}]{{{least},}})"


def _drawn(example: str) -> str:
    """Fill the slots `<alphabet:count>` of an example, always in the same way."""
    chance = random.Random(example)

    def fill(slot: re.Match[str]) -> str:
        if slot[1] not in ALPHABETS:
            return slot[0]
        chars = re.findall(f"[{ALPHABETS[slot[1]]}]", "".join(map(chr, range(33, 127))))
        return "".join(chance.choices(chars, k=int(slot[2])))

    return _SLOT.sub(fill, example)


def _lines_of(text: str, header: str, count: int) -> Sequence[int]:
    """Return the lines of so many tables with such a header, outside of long texts; zeros if there are not so many."""
    plain = _LONG_TEXT.sub(lambda found: "\n" * found[0].count("\n"), text)
    found = [number for number, line in enumerate(plain.splitlines(), 1) if re.match(header, line.lstrip())]
    return found if len(found) == count else [0] * count
