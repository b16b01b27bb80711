"""The rules of `rules.toml`, and the one pattern that finds where any of them may begin.

A rule is a few literal beginnings (its anchors) and a bounded pattern for what follows. Nothing is ever
searched with an unbounded pattern over a whole text: an anchor is found, the rule is matched there, and
what it matched is stepped over; so the work grows with the length of the text and with nothing else."""

from __future__ import annotations

import base64
import binascii
import contextlib
import hashlib
import itertools
import json
import operator
import re
import sys
import tomllib
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from operator import itemgetter
from pathlib import Path
from typing import Any, ClassVar, Final, NamedTuple, Self

# One pass over a text for hundreds of literals at once, on whichever engine is installed.
#
# Two engines, one answer: the Rust automaton of `ahocorasick_rs` (the extra `accelerator`; it has no wheels for
# musl) and, where it is absent, a regular expression of the standard library that branches once per character.
# Whoever asks cannot tell them apart but by the clock; `trivet doctor` says which one is at work.

with contextlib.suppress(ImportError):
    import ahocorasick_rs

Hit = tuple[int, int, int]  # which of the literals stands there, where it begins and where it ends
_PLAIN_WORD: Final = re.compile(r"[^\w\s]{0,2}+(?:[^\W\d_]++(?:['.][^\W\d_]++)?|\d{1,2}+)?[^\w\s]{0,3}")
"""No more than two digits: what is remembered outlives the text it stood in, and a password with digits must not."""
_WORDS_KEPT: Final = 8_192

SURROGATE: Final = re.compile("[\ud800-\udfff]")  # half a character, which Python's text may hold and UTF-8 may not


class TrieFinder:
    """Exact search for a fixed set of literals, on the standard library; a hit names its literal by its place in
    `literals`. What is found in a plain word is remembered: people use few of them, again and again."""

    __slots__ = ("_across", "_at_once", "_firsts", "_seen", "_within", "literals")

    def __init__(self, literals: Iterable[str]) -> None:
        self.literals = tuple(sorted(set(literals)))
        self._across = re.compile(trie_pattern(literal for literal in self.literals if " " in literal) or "(?!)")
        rests: dict[str, set[str]] = {}
        self._firsts: dict[str, set[str]] = {}
        for head, space, rest in (literal.partition(" ") for literal in self.literals):
            rests.setdefault((head + space)[0], set()).add((head + space)[1:])
            self._firsts.setdefault(head + space, set()).update(rest[:1] for _ in space)
        # each alternative has a first letter of its own, so `re` passes over what begins none; few are tried in a row
        halves = [[head for head in rests if ("a" <= head <= "z") is of] for of in (True, False)]
        branches = ("|".join(_escaped(head) + trie_pattern(rests[head]) for head in half) for half in halves)
        self._within = tuple(re.compile(branch or "(?!)") for branch in branches)
        self._seen: dict[str, list[tuple[int, str, set[str]]]] = {}
        places = {literal: place for place, literal in enumerate(self.literals)}
        self._at_once = {
            literal: [(places[literal[:n]], n) for n in range(1, len(literal) + 1) if literal[:n] in places]
            for literal in ("", *self.literals)
        }

    def find(self, text: str, start: int = 0, end: int | None = None) -> list[Hit]:
        """Find every place of every literal in `text[start:end]`, also overlapping ones, by start and then by end."""
        hits: list[Hit] = []
        seen, stop = self._seen, len(text) if end is None else end
        for word in text[start:end].split(" "):
            behind = start + len(word) + 1
            for at, inside, firsts in seen[word] if word in seen else self._in_word(word):
                goes_on = firsts and behind <= stop and not firsts.isdisjoint(("", text[behind : behind + 1]))
                crossing = self._across.match(text, start + at, stop) if goes_on else None
                longest = crossing[0] if crossing else inside
                hits += [(which, start + at, start + at + length) for which, length in self._at_once[longest]]
            start = behind
        return hits

    def _in_word(self, word: str) -> list[tuple[int, str, set[str]]]:
        """Return where in a word literals begin, with the longest in it, and with what one goes on behind the word."""
        found: list[tuple[int, str, set[str]]] = []
        for pattern in self._within:
            at = -1
            while longest := pattern.search(f"{word} ", at + 1):
                at, literal = longest.start(), longest[0]
                inside = pattern.match(word, at) if literal[-1] == " " else longest
                found.append((at, inside[0] if inside else "", self._firsts[literal]))
        found.sort()
        if len(word) <= _WORD_CHARS_MAX and len(self._seen) < _WORDS_KEPT and _PLAIN_WORD.fullmatch(word):
            self._seen[word] = found
        return found


class AutomatonFinder:
    """The same search on the Aho-Corasick automaton of `ahocorasick_rs`: one step per byte, however many literals."""

    __slots__ = ("_automaton", "literals")

    def __init__(self, literals: Iterable[str]) -> None:
        self.literals = tuple(sorted(set(literals)))
        self._automaton = ahocorasick_rs.AhoCorasick(self.literals, store_patterns=False)

    def find(self, text: str, start: int = 0, end: int | None = None) -> list[Hit]:
        """See `TrieFinder.find`."""
        piece = text[start:end]
        try:
            hits = self._automaton.find_matches_as_indexes(piece, overlapping=True)
        except UnicodeEncodeError:
            hits = self._automaton.find_matches_as_indexes(SURROGATE.sub("\ufffd", piece), overlapping=True)
        hits.sort(key=_BY_PLACE)
        return [(which, at + start, stop + start) for which, at, stop in hits] if start else hits


_BY_PLACE: Final = itemgetter(1, 2)

Finder = TrieFinder | AutomatonFinder
ENGINE: type[Finder] = AutomatonFinder if "ahocorasick_rs" in sys.modules else TrieFinder  # the one at work here


def finder(literals: Iterable[str]) -> Finder:
    """Build the search for these literals, on the engine in use."""
    return ENGINE(literals)


def engine_name() -> str:
    """Return the name of the engine for people."""
    return "ahocorasick_rs" if ENGINE is AutomatonFinder else "re (the extra `accelerator` is not installed)"


def trie_pattern(literals: Iterable[str]) -> str:
    """Build a pattern that matches any of the literals, the longest first, and branches once per character. Characters
    after which the same follows are one set: an alphabet in the middle of an anchor costs one step, not many."""
    root: dict[str, Any] = {}
    for literal in literals:
        node = root
        for char in literal:
            node = node.setdefault(char, {})
        node[""] = {}

    def branch(node: dict[str, Any]) -> str:
        alike: dict[str, list[str]] = {}
        for char, child in sorted(node.items()):
            if char:
                alike.setdefault(branch(child), []).append(_escaped(char))
        ways = [(f"[{''.join(each)}]" if len(each) > 1 else each[0]) + rest for rest, each in alike.items()]
        if not ways:
            return ""
        body = ways[0] if len(ways) == 1 else f"(?:{'|'.join(ways)})"
        return f"(?:{body})?" if "" in node else body

    return branch(root)


_escaped: Final = cache(re.escape)


# What a rule may ask of a candidate beyond its shape. Each check is named in rules.toml.
#
# A check says "this cannot be a secret" (a placeholder, plain words, a counter) or proves that it is one by decoding
# it. No checksum is ever required where a typing error would still leak most of the key; the exceptions are the kinds
# that have no other mark (`base58check`).

Check = Callable[[str], bool]

_PERIOD_MAX: Final = 16
_STAND_IN_WORDS: Final = ("example", "sample", "placeholder", "changeme", "redacted", "replace", "insert")
_STAND_IN_SIGNS: Final = ("...", "***", "####", "xxxx", "XXXX")
_MASKS: Final = "####"  # what goes on so was hidden before it came here
_YOURS: Final = re.compile("(?:your|YOUR|Your)(?=[-_ A-Z])")
_COUNTED: Final = ("123456789", "abcdefgh", "ABCDEFGH")
_WORDLIKE: Final = re.compile(
    r"(?:[a-z]{1,16}|[A-Z]{1,16}|[A-Z][a-z]{1,16})\d{0,4}|\d{1,4}|\d{1,3}[a-z]{1,2}|[a-z]\d{1,2}[a-z]|v?\d[\d.]{0,6}|v\d+(?:alpha|beta|rc)\d*|",
    re.ASCII,
)
_SEPARATOR: Final = re.compile(r"[-_./+=~:]")
_NAME: Final = re.compile(r"(?:(?:[A-Z]?[a-z]++|[A-Z])(?:\d(?=[A-Z][a-z]{2}))?)++\d{0,4}", re.ASCII)
_HUMP: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", re.ASCII)
_HUMP_CHARS_MEAN: Final = 4  # words have some five letters; runs of one kind of character in a random token have two
_WORD_CHARS_MAX: Final = 16
UNSPOKEN: Final = re.compile(r"(?!ngth|http)[bcdfghjklmnpqrtvwxz]{4}|[bcdfghjklmnpqrstvwxz]{5}", re.ASCII | re.I)
_RARE_LETTERS: Final = frozenset("jqxzvkw")
_RARE_EVERY_CHARS: Final = 7  # in names, one letter of twenty is one of those; in a random token, one of four

_BASE58: Final = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
_BASE62: Final = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"


def is_placeholder(text: str) -> bool:
    """Tell whether documentation writes it in place of a secret: EXAMPLE, xxxx, abcdefgh, one pattern repeated."""
    return says_placeholder(text) or is_counted(text)


def says_placeholder(text: str) -> bool:
    """Tell whether a text says of itself that it is a stand-in."""
    lowered = text.lower()
    return (
        any(map(lowered.__contains__, _STAND_IN_WORDS))
        or any(map(text.__contains__, _STAND_IN_SIGNS))
        or ("your" in lowered and _YOURS.search(text) is not None)
    )


def is_counted(text: str) -> bool:
    """Tell whether a text is typed by running along the keys: neighbours in the alphabet, or one pattern repeated."""
    if any(map(text.__contains__, _COUNTED)):
        return True
    codes = list(map(ord, text))
    steps = list(map(operator.sub, codes[1:], codes))
    if 2 * (steps.count(0) + steps.count(1)) > len(text):
        return True
    longest = min(_PERIOD_MAX, len(text) // 2)
    return text.find(text[:-longest], 1) > 0 and any(text.startswith(text[at:]) for at in range(1, longest + 1))


def is_wordy(text: str) -> bool:
    """Tell whether a text is words, identifiers or versions: pieces between `-_./`, each a word or a small number."""
    return all(_WORDLIKE.fullmatch(piece) or _is_name(piece) for piece in _SEPARATOR.split(text))


def _is_name(piece: str) -> bool:
    """Tell whether a piece is an identifier in humps (`requiredTypesForDisplay2`), few enough to be words."""
    if _NAME.fullmatch(piece) is None:
        return False
    humps = _HUMP.findall(piece)
    return len(humps) * _HUMP_CHARS_MEAN <= len(piece) + _HUMP_CHARS_MEAN and max(map(len, humps)) <= _WORD_CHARS_MAX


def _is_spoken(text: str) -> bool:
    """Tell whether a text is pronounceable: seldom four consonants in a row, and few letters that are rare in words."""
    rare = sum(1 for char in text.lower() if char in _RARE_LETTERS)
    return UNSPOKEN.search(text) is None and rare * _RARE_EVERY_CHARS <= len(text) + _RARE_EVERY_CHARS


def varied(secret: str) -> bool:
    """Tell whether a secret has enough different characters, no pronounceable words, and is no placeholder."""
    is_talk = is_wordy(secret) and _is_spoken(secret)
    return len(set(secret)) >= min(10, 5 + len(secret) // 12) and not is_talk and not is_placeholder(secret)


def made(secret: str) -> bool:
    """Tell whether a secret is varied and not of one case: for a prefix that ordinary names have as well."""
    letters = secret.translate(_NO_SIGNS)
    return varied(secret) and not (letters.isalpha() and (letters.islower() or letters.isupper()))


_NO_SIGNS: Final = dict.fromkeys(map(ord, "-_./+=~:"))


def distinct(secret: str) -> bool:
    """Tell whether it has enough different characters and is not a placeholder; may be letters only."""
    return len(set(secret)) >= min(8, len(secret) // 2) and not is_placeholder(secret)


def has_digit(secret: str) -> bool:
    """Tell whether it has at least one digit: words of one case have none."""
    return any(char.isdigit() for char in secret)


def _decoded(text: str) -> bytes | None:
    padded = text.replace("-", "+").replace("_", "/")
    try:
        return base64.b64decode(padded + "=" * (-len(padded) % 4), validate=True)
    except binascii.Error:
        return None


def jwt(secret: str) -> bool:
    """Tell whether the header is JSON that names an algorithm, or the payload is JSON as well."""
    header, _, rest = secret.partition(".")
    if rest.startswith("eyJ"):
        return True
    try:
        fields = json.loads(_decoded(header) or b"")
    except ValueError:
        return False
    return isinstance(fields, dict) and bool({"alg", "enc", "typ"} & fields.keys())


def discord(secret: str) -> bool:
    """Tell whether the first segment is the bot's id, 17 to 20 digits, in base64."""
    decoded = _decoded(secret.partition(".")[0])
    return decoded is not None and decoded.isdigit() and 17 <= len(decoded) <= 20


def base58check(secret: str) -> bool:
    """Check that the last four bytes are the double SHA-256 of the rest: Bitcoin's own proof."""
    if not set(_BASE58).issuperset(secret):
        return False
    number = 0
    for char in secret:
        number = number * 58 + _BASE58.index(char)
    whole = number.to_bytes((number.bit_length() + 7) // 8, "big")
    body, checksum = whole[:-4], whole[-4:]
    return hashlib.sha256(hashlib.sha256(body).digest()).digest()[:4] == checksum


_STANDS_IN: Final = re.compile(r"(?i)your[-_]|[-_]here\b|placeholder|<|\{\{|\*\*\*|\.\.\.|%[sd]\b")


def no_reference(secret: str) -> bool:
    """Tell whether a secret is neither a variable nor a stand-in such as `password` or `***`."""
    return (
        not re.match(r"[${<\[]|%(?![2-7][0-9A-Fa-f])", secret)
        and len(set(secret)) >= 3
        and not _STAND_INS.fullmatch(secret)
        and not secret.isspace()
        and not _STANDS_IN.search(secret)
    )


_LOGIN: Final = re.compile(
    r"[*_~]*(?!(?i:mailto|e?-?mail|to|from|b?cc|by|sips?|xmpp|acct|tel|author|contact|user|re|fw|reply-to):)"
    r"[A-Za-z][\w.+-]{1,40}:(?=\D*\d)(?=[^a-z]*[a-z])(?=[\w.-]*[A-Z!#$%&*+?^~])(?P<password>\S{8,})"
)


def login(secret: str) -> bool:
    """Tell whether it is a name and a password with a colon between them, and no label with an address behind it."""
    found = _LOGIN.fullmatch(secret)
    return found is not None and no_reference(found["password"])


_STAND_INS: Final = re.compile(
    r"(?i:(?:my|your)?[-_]?(?:pass(?:w(?:or)?d|phrase)?|pw|pwd|secret|token|key|user(?:name)?|login|name)"
    r"|admin|root|guest|postgres|mysql|redis|test(?:123)?|foo|bar|baz|(?:change|replace)[-_]?me|none|null|x{3,})"
)


def crc32_base62(body: str) -> bool:
    """Check GitHub's own proof, which npm took over: the last six characters are the CRC32 of the others in base62."""
    number, digits = binascii.crc32(body[:-6].encode()), ""
    while number:
        number, digit = divmod(number, 62)
        digits = _BASE62[digit] + digits
    return body[-6:] == digits.rjust(6, "0")


CHECKS: Final[Mapping[str, Check]] = {
    check.__name__: check
    for check in (varied, made, distinct, has_digit, login, no_reference, jwt, discord, base58check)
}
_PROOFS: Final = frozenset([jwt, discord, base58check])
"""Asked of the whole token, which is decoded; the others are asked of what stands behind the anchor."""


ALPHABETS: Final[Mapping[str, str]] = tomllib.loads(Path(__file__).with_name("alphabets.toml").read_text("utf-8"))
_LOOSE_CHARS_MIN: Final = 4
_LOOSE_WORD_CHARS_MIN: Final = 6  # shorter anchors are told from words and from names of constants by their case alone
_NAMED: Final = re.compile(r"\[:(\w+):\]")
_BRACES: Final = re.compile(r"\{([^}]*)\}")
PRINTABLE: Final = "".join(map(chr, range(33, 127)))
_COMPLETE_SHARE: Final = 0.75  # a key that lost a quarter of its characters is still worth hiding
_TAKEN_CHARS_MAX: Final = 20  # of what stands before an anchor, the token before may have taken so much
_SURPLUS_CHARS: Final = 8  # how much longer than nominal the part of a token is that the checks look at
_JUDGED_CHARS_MAX: Final = 120  # a longer secret is judged by its beginning: a rule that fails often must fail cheaply
_IN_A_WORD: Final = re.compile(
    r"(?!(?<=\\[nrtbf0])|(?<=%[0-9A-Fa-f][0-9A-Fa-f])|(?<=\\u[0-9a-fA-F]{4}))(?:(?<=[A-Za-z0-9])|(?<=[A-Za-z0-9][_-]))"
)
"""Behind a letter, or in the middle of an identifier such as `task_test_…` or `x-sk-…`. An escaped newline or an
encoded sign before a token ends in a letter, too, and is no part of a word."""

_ESCAPED: Final = re.compile(r"[nrtbf0]")
_ASKS_FOR_THE_END: Final = re.compile(r"\\[ZbB]|\$(?=[)|]|\Z)|\(\?P=|\(\?<?![^)]*(?:\[\^|\\[sSW])")
"""What may hold where a run ends and not where the text goes on behind it; all else holds there as well."""
_ENDS_BEFORE: Final = re.compile(r"\(\?!\[[^\]^][^\]]*\]\)")
"""What may follow a token is asked of its run: where a secret of ours begins, the run of a token has ended."""

Site = tuple[int, str]  # where an anchor stands, and the longest of those that stand there


class SecretSpan(NamedTuple):
    """One secret: where it lies in the view, and the id of the rule that says so."""

    start: int
    end: int
    rule: str

    def moved(self, by: int) -> SecretSpan:
        """Return the same secret in a text that lost `by` characters at its front."""
        return SecretSpan(self.start - by, self.end - by, self.rule)


class Movable:
    """What has positions in a text that is still arriving."""

    __slots__ = ()

    POSITIONS: ClassVar[tuple[str, ...]] = ()
    """The attributes that are positions, something with positions, lists of these, or None."""

    def moved(self, by: int) -> Self:
        """Shift all positions: the text lost `by` characters at its front."""
        for name in self.POSITIONS:
            setattr(self, name, _moved(getattr(self, name), by))
        return self


def _moved(position: Any, by: int) -> Any:
    match position:
        case int():
            return position - by
        case list() | deque():
            return type(position)(_moved(each, by) for each in position)
        case _:
            return position and position.moved(by)


class Left(NamedTuple):
    """What stands before the anchor and belongs to the secret: a run of one alphabet, of bounded length."""

    run: re.Pattern[str]
    least: int
    most: int

    def start(self, text: str, anchor_at: int, floor: int, *, is_behind: bool) -> int | None:
        """Return where the left part begins; None if the run is too short or goes on too far. Behind a token, which may
        have taken all of a short one, any length will do."""
        is_taken = is_behind and self.most <= _TAKEN_CHARS_MAX
        if anchor_at - floor < self.least and not is_taken:
            return None
        before = text[max(floor, anchor_at - self.most - 1) : anchor_at][::-1]
        found = self.run.match(before)
        length = found.end() if found else 0
        start = anchor_at - length
        if length and text[max(start - 1, 0)] == "\\" and _ESCAPED.match(text, start):
            start, length = start + 1, length - 1
        return start if length <= self.most and (self.least <= length or (is_taken and start == floor)) else None


@dataclass(frozen=True, slots=True)
class SecretRule:
    """One kind of secret that can be told by its own looks. See the head of `rules.toml` for the fields."""

    id: str
    anchors: tuple[str, ...]  # the longest first
    body: str  # the pattern of anchor and body
    chars: str  # what the body is made of, if it is one alphabet
    more: str
    left: Left | None
    is_glued: bool
    checks: tuple[Check, ...]
    proofs: tuple[Check, ...]
    checksum_chars: int
    nominal: int
    is_ended: bool = False  # does the body ask what follows it?

    def match(self, run: str, anchor_at: int, floor: int, *, is_behind: bool = False) -> SecretSpan | None:
        """Return the secret of this rule whose anchor is at `anchor_at` of a run, not before `floor`, where another
        one has ended if `is_behind`."""
        if (found := _compiled(self.body).match(run, anchor_at)) is None:
            return None
        is_part = "secret" in found.re.groupindex
        start, stop = found.span("secret") if is_part else found.span()
        if self.left is not None:
            if (before := self.left.start(run, anchor_at, floor, is_behind=is_behind)) is None:
                return None
            start = before
        whole = run[start:stop]
        if not all(proof(whole) for proof in self.proofs):
            return None
        behind = whole if is_part or self.left else whole[self._anchor_chars(whole) :]
        if self.checksum_chars and crc32_base62(behind[: self.checksum_chars]):
            return SecretSpan(start, stop - len(behind) + self.checksum_chars, self.id)
        if not all(check(behind[:_JUDGED_CHARS_MAX]) for check in self.checks):
            dots = run.find("..", anchor_at, stop)  # the sentence goes on behind them
            return self.match(run[:dots], anchor_at, floor, is_behind=is_behind) if dots >= 0 else None
        if self.more and (rest := _compiled(f"[{self.more}]+").match(run, stop)):
            stop = rest.end()
        while run[stop - 1] == ".":
            stop -= 1
        return None if run.startswith(_MASKS, stop) else SecretSpan(start, stop, self.id)

    def may_go_on(self, run: str, at: int) -> bool:
        """Tell whether more text behind the run can make a token of what is none yet at `at`."""
        return not self.chars or any(
            run.startswith(anchor, at)
            and len(run) - at - len(anchor) < self.nominal
            and _compiled(f"{self.chars}*").fullmatch(run, at + len(anchor)) is not None
            for anchor in self.anchors
        )

    def is_complete(self, token: str) -> bool:
        """Tell whether nothing is missing at the end of this token, as far as its kind has a fixed length."""
        return 0 < self.nominal <= len(token) - self._anchor_chars(token)

    def in_any_case(self) -> SecretRule | None:
        """Return the rule for these tokens in any case; None if its anchors would be mistaken for words then."""
        chars_min = _LOOSE_CHARS_MIN if self.is_glued else _LOOSE_WORD_CHARS_MIN
        anchors = tuple(anchor.lower() for anchor in self.anchors if len(anchor) >= chars_min and not anchor.isalnum())
        if self.left is not None or not anchors or "(?P<secret>" in self.body:
            return None
        body = trie_pattern(anchors) + self.body[self.body.rindex(self.chars) :] if self.chars else self.body
        return replace(
            self,
            anchors=anchors,
            body=f"(?i:{body})",
            chars=self.chars and f"(?i:{self.chars})",
            more="",
            checks=(*self.checks, has_digit),
        )

    def _anchor_chars(self, token: str) -> int:
        return next((len(anchor) for anchor in self.anchors if token.startswith(anchor)), 0)


@dataclass(frozen=True)
class RuleBook:
    """All rules, and where each may begin."""

    rules: tuple[SecretRule, ...]
    by_anchor: Mapping[str, tuple[SecretRule, ...]]  # the rules of it and its beginnings, the most particular first
    in_any_case: Mapping[str, tuple[SecretRule, ...]]  # by lower case, those for tokens that lost their case
    spellings: Mapping[str, tuple[str, ...]]  # by their lower case, all anchors
    documented: re.Pattern[str]  # what vendors print in their manuals in place of a key

    def sites(self, run: str) -> list[Site]:
        """Return the places of anchors in a run, with the longest anchor at each place."""
        found: list[Site] = []
        for which, at, stop in self._finder.find(run.lower()):
            literal, lowered = run[at:stop], self._finder.literals[which]
            if literal in self.spellings[lowered] or lowered in self.in_any_case:
                if found and found[-1][0] == at:
                    found.pop()
                found.append((at, literal))
        return found

    @cached_property
    def _finder(self) -> Finder:
        """Return what finds every anchor in lower-case text. Most texts have no run that asks for it."""
        return finder(self.spellings)

    def may_begin(self, text: str, at: int, literal: str, end: int) -> bool:
        """Tell whether the body of a rule follows an anchor of `text[:end]`."""
        gate = _gate(literal) if literal in self.by_anchor else None
        return gate is None or gate.match(text, at, end) is not None

    def beginning_with(self, text: str, at: int, literal: str) -> Sequence[SecretRule]:
        """Return the rules that may begin at `at`, where `literal` is the longest anchor, the most specific first."""
        rules = self.by_anchor.get(literal)
        if _IN_A_WORD.match(text, at):
            return _glued(literal) if rules else [rule for rule in self._loosely(literal) if rule.is_glued]
        return rules or tuple(self._loosely(literal))

    def _loosely(self, literal: str) -> Iterator[SecretRule]:
        """Yield the rules for an anchor in the wrong case, then those for its rightly written part."""
        yield from self.in_any_case.get(literal.lower(), ())
        shorter = (self.by_anchor.get(literal[:chars]) for chars in range(len(literal) - 1, 0, -1))
        yield from next(filter(None, shorter), ())


@cache
def _glued(anchor: str) -> tuple[SecretRule, ...]:
    return tuple(rule for rule in rule_book().by_anchor[anchor] if rule.is_glued)


@cache
def _gate(anchor: str) -> re.Pattern[str] | None:
    """Return what a rule of the anchor must match where the run may go on; None if one asks where the run ends."""
    bodies = dict.fromkeys(rule.body.replace("(?P<secret>", "(?:") for rule in rule_book().by_anchor[anchor])
    if any(map(_ASKS_FOR_THE_END.search, bodies)):
        return None
    return _compiled("|".join(f"(?:{_ENDS_BEFORE.sub('', each)})" for each in bodies))


@cache
def rule_book() -> RuleBook:
    """Return the rules as shipped. Read once, at the first text; each pattern is compiled when it is first needed."""
    tables = tomllib.loads(Path(__file__).with_name("rules.toml").read_text(encoding="utf-8"))
    rows = [*tables["shape"].items(), *tables["prefix"].items()]
    rules = tuple(_rule(rule_id, row) for rule_id, row in rows)
    by_anchor = _by_anchor(rules)
    beginning: dict[str, tuple[SecretRule, ...]] = {}
    for anchor in sorted(by_anchor, key=len):
        shorter = (beginning.get(anchor[:chars]) for chars in range(len(anchor) - 1, 0, -1))
        beginning[anchor] = by_anchor[anchor] + next(filter(None, shorter), ())
    spellings: dict[str, tuple[str, ...]] = {}
    for anchor in by_anchor:
        spellings[anchor.lower()] = (*spellings.get(anchor.lower(), ()), anchor)
    return RuleBook(
        rules=rules,
        by_anchor=beginning,
        in_any_case=_by_anchor(filter(None, (rule.in_any_case() for rule in rules))),
        spellings=spellings,
        documented=re.compile("|".join(tables["documented"].values()), re.ASCII),
    )


def _by_anchor(rules: Iterable[SecretRule]) -> dict[str, tuple[SecretRule, ...]]:
    """Return the rules that begin with each anchor. Thousands of anchors are of one rule: they share its tuple."""
    found: dict[str, tuple[SecretRule, ...]] = {}
    for rule in rules:
        alone = (rule,)
        for anchor in rule.anchors:
            found[anchor] = found.get(anchor, ()) + alone
    return found


def _rule(rule_id: str, row: Mapping[str, Any]) -> SecretRule:
    anchors = tuple(literal for anchor in row["anchors"] for literal in _literals(anchor))
    checks = [CHECKS[name] for name in row.get("checks", ("varied",))]
    left = row.get("left")
    name, _, count = row.get("body", "").partition(":")
    nominal, chars = int(count or 0), f"[{ALPHABETS[name]}]" if name else ""
    return SecretRule(
        id=rule_id,
        anchors=tuple(sorted(anchors, key=len, reverse=True)),
        body=trie_pattern(anchors) + f"{chars}{{{int(nominal * _COMPLETE_SHARE)},{nominal + _SURPLUS_CHARS}}}"
        if name
        else expanded(row["pattern"]),
        chars=chars,
        more=ALPHABETS[name] if name else expanded(row.get("more", "")),
        left=_left(left) if left else None,
        is_glued=bool(left) or bool(row.get("glued", False)),
        checks=tuple(check for check in checks if check not in _PROOFS),
        proofs=tuple(check for check in checks if check in _PROOFS),
        nominal=row.get("longest", nominal),
        checksum_chars=row.get("checksum_chars", 0),
        is_ended=_ENDS_BEFORE.search(expanded(row.get("pattern", ""))) is not None,
    )


def _literals(anchor: str) -> list[str]:
    """Return all literals of an anchor with braces: `SK{0-9a-f}` means `SK0`, `SK1` and so on."""
    parts = _BRACES.split(anchor)
    choices = ([part] if place % 2 == 0 else re.findall(f"[{part}]", PRINTABLE) for place, part in enumerate(parts))
    return ["".join(chosen) for chosen in itertools.product(*choices)]


def _left(text: str) -> Left:
    """Parse the left part of a rule: `hex:32` or `digits:8..10`."""
    name, _, count = text.partition(":")
    least, _, most = count.partition("..")
    return Left(re.compile(f"[{ALPHABETS[name]}]*"), int(least), int(most or least))


def expanded(pattern: str, named: Mapping[str, str] = ALPHABETS) -> str:
    """Write out the alphabets or parts that a pattern names (`[:hex:]`). Raises `ValueError` for an unknown one."""
    if unknown := set(_NAMED.findall(pattern)) - named.keys():
        raise ValueError(f"alphabet {min(unknown)} is unknown: there are {', '.join(named)}")
    return _NAMED.sub(lambda name: named[name[1]], pattern)


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.ASCII)
