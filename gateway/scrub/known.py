"""Known secrets, found wherever they appear and in whatever form, and the placeholders that replace secrets.

Known are our own, those that a tool was given, and what this text or its chat has shown before. A value is searched as
it is, escaped in any way, in hex, and in base64 at each of its three positions; on one line or broken over several."""

from __future__ import annotations

import base64
import binascii
import hmac
import html
import json
import re
from bisect import bisect
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Final
from urllib.parse import quote, quote_plus

from gateway.limits import MET_SECRETS_CHATS_MAX, MET_SECRETS_MAX, MET_SECRETS_TTL_S
from gateway.scrub.rules import Finder, SecretSpan, finder
from gateway.scrub.view import closed_until, normalised

# What stands in a secret's place: `[redacted:github#a1b2c3]`.
#
# The digits are an HMAC under a key that only this installation knows, and a key of its own in each chat: the same
# secret gets the same placeholder, so a conversation can still tell two keys apart; nobody can test guesses, and
# nobody can tell that two chats hold the same secret.

_ID_CHARS: Final = 6  # a chat of a hundred secrets has two alike once in three thousand times
_KIND: Final = "[a-z0-9-]{1,20}"

PLACEHOLDER: Final = re.compile(rf"\[redacted:{_KIND}#[0-9a-f]{{4,{_ID_CHARS}}}\]")
_PLACEHOLDER_CHARS_MAX: Final = 40

LIKENESS: Final = re.compile(r"\[redacted:[^\[\]\s]{1,40}\]", re.IGNORECASE)
"""What somebody takes for a placeholder, although nobody made it: `[redacted:openai]`."""

WHOLE_TEXT_KIND: Final = "text"
WHOLE_TEXT: Final = f"[redacted:{WHOLE_TEXT_KIND}#0000]"  # stands for a text that could not be scrubbed


def kind_of(rule: str) -> str:
    """Return the kind that a rule belongs to, as reports and placeholders show it."""
    return rule.partition("/")[0]


def placeholder_in(text: str, start: int, end: int) -> re.Match[str] | None:
    """Return the first placeholder that begins in `text[start:end]`. A secret begins where its placeholder does and
    ends elsewhere: what depends on where it ends is another thing at the second scrub."""
    found = PLACEHOLDER.search(text, start, end + _PLACEHOLDER_CHARS_MAX)
    return found if found and found.start() < end else None


def in_placeholder(text: str, at: int) -> bool:
    """Tell whether a place is inside a placeholder: its kind may be a word that something begins with."""
    begun = text.rfind("[", max(0, at - _PLACEHOLDER_CHARS_MAX), at)
    return begun >= 0 and (found := PLACEHOLDER.match(text, begun)) is not None and found.end() > at


class Placeholders:
    """Makes placeholders under one key; where there is a `made`, it notes each secret there under its placeholder."""

    __slots__ = ("_key", "_made")

    def __init__(self, key: bytes, made: dict[str, str] | None = None) -> None:
        self._key = key
        self._made = made

    def of(self, chat: str) -> Placeholders:
        """Return the placeholders of one chat: equal inside it, for ever, and not comparable with those of another."""
        return Placeholders(hmac.digest(self._key, chat.encode(errors="surrogatepass"), "sha256"))

    def noting(self, made: dict[str, str]) -> Placeholders:
        """Return the same placeholders, which also put each secret into `made` under its placeholder."""
        return Placeholders(self._key, made)

    def stand_in(self, rule: str, secret: str) -> str:
        """Return the placeholder of one secret."""
        mark = hmac.digest(self._key, secret.encode(errors="surrogatepass"), "sha256")
        placeholder = f"[redacted:{kind_of(rule)}#{mark.hex()[:_ID_CHARS]}]"
        if self._made is not None:
            self._made[placeholder] = secret
        return placeholder


# The forms a known secret may arrive in: as it is, escaped in part or in whole, in hex, in base64.
#
# A form is a sequence of symbols, one for each of its characters, each a small pattern: what the view has not decoded
# already (view.py) may be spelled in several ways. Between any two symbols a line may break.

_ENCODED_CHARS_MIN: Final = 8  # what is left of a short value in the middle of base64 must still be unmistakable
_ALWAYS_DECODED: Final = frozenset("-_.~")
_QUOTES: Final = frozenset("\"'`")
_SPACES: Final = r"(?: |\+|%(?:25){0,3}20|\\{1,4}(?:u00|x)20|&(?:amp;){0,3}(?:#0{0,4}32|#x0{0,4}20|nbsp);)"
_BREAK: Final = re.compile(r"(?:[=\\]{0,2}(?:\r\n?|\n)[ \t>|#*]{0,16})?")
_BREAK_CHARS_MAX: Final = 20
_BREAK_SIGNS: Final = "=\\\r\n"  # what a break begins with
_SPELLED_SIGNS: Final = "%\\&+"  # and a character that is spelled otherwise
_BREAKS_MAX: Final = 8
_PLAIN_SYMBOL_CHARS_MAX: Final = 4
_SYMBOL_CHARS_MAX: Final = 24
_HEAD_CHARS: Final = 4
_PIECE: Final = re.compile(r"(?s:\\+|.)")  # one character, or backslashes, whose number is lost when they are escaped


class Form:
    """One form of one secret. No part of it is longer than `reach_chars`."""

    __slots__ = ("_symbols", "_whole", "plain", "reach_chars")

    def __init__(self, plain: str, symbols: Iterable[re.Pattern[str]]) -> None:
        """Make a form of a symbol for each character of `plain`; it is compiled when its beginning is met first."""
        self.plain = plain
        self._symbols = tuple(symbols)
        self._whole = _BREAK.pattern.join(symbol.pattern for symbol in self._symbols)
        spelled = sum(1 for symbol in self._symbols if len(symbol.pattern) > _PLAIN_SYMBOL_CHARS_MAX)
        self.reach_chars = len(plain) + spelled * _SYMBOL_CHARS_MAX + _BREAKS_MAX * _BREAK_CHARS_MAX

    def heads(self) -> Iterator[str]:
        """Yield literals in lower case, one of which the form begins with wherever it stands in lower-case text: its
        first characters, up to a line break or to one that may be spelled in several ways. A sigma has two."""
        head = ""
        for symbol in self._symbols[:_HEAD_CHARS]:
            yield from (head + sign for sign in _BREAK_SIGNS if head)
            if len(symbol.pattern) > _PLAIN_SYMBOL_CHARS_MAX:
                char = self.plain[len(head)]
                yield from (head + sign for sign in {*_SPELLED_SIGNS, char.lower(), f"a{char}".lower()[1:]})
                return
            head += symbol.pattern[symbol.pattern[0] in "[\\"].lower()
        yield head

    def end_in(self, text: str, at: int, end: int) -> int | None:
        """Return where the form that begins at `at` ends; None if the form is not at `at`."""
        found = _compiled(self._whole).match(text, at, end)
        return found.end() if found else None

    def is_begun(self, text: str, at: int, end: int) -> bool:
        """Tell whether `text[at:end]` is the beginning of this form, with more of it to come."""
        for symbol in self._symbols:
            if (found := symbol.match(text, at, end)) is None:
                gap = _BREAK.match(text, at, end)
                behind = gap.end() if gap else at
                # The last sign of the break may be the symbol itself.
                found = symbol.match(text, behind, end) or symbol.match(text, max(at, behind - 1), end)
                if found is None:
                    return behind == end
            at = found.end()
        return False


def forms(value: str) -> Iterator[Form]:
    """Yield every form of one secret, each once."""
    octets = value.encode(errors="surrogatepass")
    for plain in dict.fromkeys((value, normalised(value))):
        yield Form(plain, map(_symbol, _PIECE.findall(plain)))
    yield Form(octets.hex(), (_compiled(f"[{digit}{digit.upper()}]") for digit in octets.hex()))
    for core in dict.fromkeys(in_base64(octets)):
        yield Form(core, (_compiled(re.escape(char)) for char in core))


def in_base64(octets: bytes) -> Iterator[str]:
    """Yield the base64 of these octets at each of the three positions they can have inside more octets."""
    for lead in range(3):
        whole = binascii.b2a_base64(bytes(lead) + octets, newline=False).decode()
        # The first characters mix in what stands before the value, the last ones what follows it.
        head = (0, 2, 3)[lead]
        tail = len(whole.rstrip("=")) - (1 if (lead + len(octets)) % 3 else 0)
        core = whole[head:tail]
        if len(core) >= _ENCODED_CHARS_MIN:
            yield core
            yield core.replace("+", "-").replace("/", "_")


@cache
def _symbol(char: str) -> re.Pattern[str]:
    """Return the pattern for one piece of a value, as it may appear in the view."""
    if char.isascii() and (char.isalnum() or char in _ALWAYS_DECODED):
        return _compiled(re.escape(char))
    if char == " ":
        return _compiled(_SPACES)
    if char.startswith("\\"):
        return _compiled(rf"(?:{'|'.join(_escaped(char[0]))}|\\{{1,{8 * len(char)}}})")
    ways = [*_escaped(char), re.escape(char)]
    if char in _QUOTES:
        ways.insert(0, r"\\{1,8}" + re.escape(char))
    return _compiled(f"(?:{'|'.join(ways)})")


def _escaped(char: str) -> Iterable[str]:
    """Return spellings that the view leaves alone, because in general they are no part of a secret."""
    octets = char.encode(errors="surrogatepass")
    yield "".join(f"%(?:25){{0,3}}(?i:{octet:02x})" for octet in octets)
    code, in_pairs = ord(char), char.encode("utf-16-be", "surrogatepass").hex(" ", 2)
    yield "".join(rf"\\{{1,4}}u(?i:{unit})" for unit in in_pairs.split())
    if code < 0x100:
        yield rf"\\{{1,4}}x(?i:{code:02x})"
    yield f"&(?:amp;){{0,3}}#(?:0{{0,4}}{code}|[xX]0{{0,4}}{code:x}|[xX]0{{0,4}}{code:X});?"


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern)


RULE: Final = "known"
VALUE_CHARS_MIN: Final = 6  # a shorter value is a word, not a secret: hiding it would shred every text


def united(spans: Iterable[SecretSpan]) -> list[SecretSpan]:
    """Return the spans in order, where those that overlap are one, so that nothing of either is left. One with a known
    value in it is known, else it is the first one's."""
    whole: list[SecretSpan] = []
    for span in sorted(spans):
        if whole and span.start < whole[-1].end:
            last = whole[-1]
            rule = RULE if RULE in (last.rule, span.rule) else last.rule
            whole[-1] = SecretSpan(last.start, max(last.end, span.end), rule)
        else:
            whole.append(span)
    return whole


def _without_overlaps(found: Iterable[tuple[int, SecretSpan]]) -> list[SecretSpan]:
    """Return the spans in order without those that overlap another which goes before: of a value with a lower number;
    of one value, what begins earlier; of two that begin together the longer."""
    apart: list[SecretSpan] = []
    for _, span in sorted(found, key=lambda each: (each[0], each[1].start, -each[1].end)):
        at = bisect(apart, span)
        if (not at or apart[at - 1].end <= span.start) and (at == len(apart) or span.end <= apart[at].start):
            apart.insert(at, span)
    return apart


class KnownValues:
    """Exact search for a fixed set of secrets. Empty is cheap."""

    __slots__ = ("_by_head", "_crosses", "_finder", "_reach_chars")

    def __init__(self, values: Iterable[str] = ()) -> None:
        # The lines of a key file are sought one by one.
        lines = (line.strip() for value in values for line in value.splitlines() if not line.startswith("-----"))
        every = [form for line in dict.fromkeys(lines) if len(line) >= VALUE_CHARS_MIN for form in forms(line)]
        self._by_head: dict[str, list[Form]] = {}
        for form in every:
            for head in form.heads():
                self._by_head.setdefault(head, []).append(form)
        self._finder = finder(self._by_head) if every else None
        # While one of these is still arriving on one line, a part of it could be closed.
        self._crosses = any(closed_until(form.plain, 0, len(form.plain)) > 0 for form in every)
        self._reach_chars = max((form.reach_chars for form in every), default=0)

    def spans(self, text: str, lowered: str, start: int, end: int) -> list[SecretSpan]:
        """Return every occurrence in `text[start:end]`, from left to right, none overlapping another; `lowered` is the
        text in lower case, as long as the text."""
        if self._finder is None:
            return []
        return _without_overlaps(
            (0, SecretSpan(at, stop, RULE))
            for which, at, _ in self._finder.find(lowered, start, end)
            for form in self._by_head[self._finder.literals[which]]
            if (stop := form.end_in(text, at, end)) is not None
        )

    def reaches_over(self, text: str, start: int, border: int, read_until: int) -> int:
        """Return where in `text[start:border]` a value begins, or may begin, that ends behind `border`; else `border`.

        Only a value with spaces in it can do that, or one that is broken over lines. What stands in the text up to
        `read_until` says whether it goes on."""
        near = text[max(start, border - _BREAK_CHARS_MAX) : border]
        if self._finder is None or not (self._crosses or "\n" in near or "\r" in near):
            return border
        since = max(start, border - self._reach_chars)
        for which, at, _ in self._finder.find(text[since : border + _HEAD_CHARS].lower()):
            for form in self._by_head[self._finder.literals[which]] if since + at < border else ():
                begun = since + at
                if form.is_begun(text, begun, read_until) or (form.end_in(text, begun, read_until) or 0) > border:
                    return begun
        return border


# Takes secrets that a tool was given out of what it says: whole, in pieces, and in their usual wrappings.
#
# What a program prints is cut, wrapped and encoded by whoever wrote it, so no piece of GRAM_CHARS of a secret may
# come back, nor of its base64, percent, JSON, HTML or hex form. A program that wants to can still say it in another
# way (backwards, letter by letter): it is the approval before that stands against this. Pure.

_ENCODED: Final = re.compile(r"%[0-9A-F]{2}")
GRAM_CHARS: Final = 8  # less than that of a secret says little, and stands in many a text by chance


def without_injected(text: str, injected: Mapping[str, str]) -> str:
    """Replace each secret in the text by its placeholder. `injected`: secrets by their placeholders."""
    grams: dict[int, dict[str, str]] = {}
    for placeholder, secret in injected.items():
        for form in _spellings(secret):
            size = min(GRAM_CHARS, len(form))
            of_size = grams.setdefault(size, {})
            for at in range(len(form) - size + 1):
                of_size.setdefault(form[at : at + size], placeholder)
    for size, of_size in grams.items():
        text = _replaced(text, size, of_size)
    return text


def _replaced(text: str, size: int, grams: Mapping[str, str]) -> str:
    out: list[str] = []
    end, placeholder = 0, ""
    for at in range(len(text) - size + 1):
        if (found := grams.get(text[at : at + size])) is None:
            continue
        if not placeholder or at > end:
            out += (placeholder, text[end:at])
            placeholder = found
        end = at + size
    return "".join((*out, placeholder, text[end:]))


def _spellings(secret: str) -> set[str]:
    octets = secret.encode(errors="surrogatepass")
    percent = {quote(octets, safe=""), quote(octets), quote_plus(octets), "".join(f"%{octet:02X}" for octet in octets)}
    percent |= {spelled.replace("%", "%25") for spelled in percent}
    lower = {_ENCODED.sub(lambda sign: sign[0].lower(), spelled) for spelled in percent}
    escaped = {html.escape(secret), json.dumps(secret)[1:-1], json.dumps(json.dumps(secret)[1:-1])[1:-1]}
    return {secret, octets.hex(), octets.hex().upper(), *percent, *lower, *escaped, *in_base64(octets)}


# What was found once is hidden again: later in the text, in other spellings, and in the later messages of its chat.
#
# In one text the values themselves are remembered, as long as it is read. From message to message only their keyed
# hashes are, for some hours: in memory, and on the bus, by which the processes of an installation tell each other.
# Without the key they say nothing.

MET_CHARS_MIN: Final = 8
MET_CHARS_MAX: Final = 256
_DIGEST_BYTES: Final = 16
_LENGTH_BYTES: Final = 2
_HASH_BYTES: Final = _LENGTH_BYTES + _DIGEST_BYTES
_RUN: Final = re.compile(rf"[!-~]{{{MET_CHARS_MIN},}}")
_WORTH_MEETING: Final = re.compile(rf"(?!(?:[A-Za-z]+|[0-9]+)\Z)[!-~]{{{MET_CHARS_MIN},{MET_CHARS_MAX}}}")
_PERCENT: Final = str.maketrans({char: f"%{ord(char):02X}" for char in "\\%`'<>"})  # the view leaves these encoded
_EDGE: Final = re.compile(r"[^A-Za-z0-9]")
_RECENT_MAX: Final = 32  # forms that are sought one by one each time; to seek them together costs milliseconds once
_RUN_CHARS_MAX: Final = 2_048  # of a longer run only the beginning is compared with the hashes


def _spelled_again(value: str) -> set[str]:
    """Return how a value may be written again, each as the view shows it."""
    return {value, value.translate(_PERCENT), value.replace("\\", "\\\\").replace('"', '\\"'), value.encode().hex()}


class FoundValues:
    """The values that one text has shown so far: the first of them, in the order of the text."""

    __slots__ = ("_by_head", "_finder", "_forms", "_recent", "_values")

    def __init__(self) -> None:
        self._forms: dict[str, tuple[int, str]] = {}  # by form the number of its value, and the rule that found it
        self._values: set[str] = set()
        self._recent: list[str] = []
        self._by_head: dict[str, list[str]] = {}
        self._finder: Finder | None = None

    def add(self, value: str, rule: str) -> FoundValues | None:
        """Remember a value that `rule` found; return what is to be looked for on its account, None if nothing new."""
        is_new = value not in self._values and len(self._values) < MET_SECRETS_MAX
        if not (is_new and _WORTH_MEETING.fullmatch(value)) or PLACEHOLDER.search(value):
            return None
        added = FoundValues()
        added._forms = dict.fromkeys((*_spelled_again(value), *in_base64(value.encode())), (len(self._values), rule))
        added._recent = list(added._forms)
        self._values.add(value)
        for form, of_value in added._forms.items():
            self._forms.setdefault(form, of_value)
        self._recent += added._recent
        return added

    def spans(self, text: str, start: int, end: int) -> list[SecretSpan]:
        """Return every place of every value in `text[start:end]`, in order and apart: what was found first goes before,
        since it was looked for already in as much of the text as was there."""
        if len(self._recent) > _RECENT_MAX:
            for form in self._recent:
                self._by_head.setdefault(form[:GRAM_CHARS], []).append(form)
            self._finder, self._recent = finder(self._by_head), []
        places: list[tuple[int, str]] = []
        for form in self._recent:
            at = text.find(form, start, end)
            while at >= 0:
                places.append((at, form))
                at = text.find(form, at + len(form), end)
        if self._finder is not None:
            places += (
                (at, form)
                for which, at, _ in self._finder.find(text, start, end)
                for form in self._by_head[self._finder.literals[which]]
                if text.startswith(form, at, end)
            )
        found = ((at, form, *self._forms[form]) for at, form in places)
        return _without_overlaps((number, SecretSpan(at, at + len(form), rule)) for at, form, number, rule in found)


class MetSecrets:
    """The hashes of what was found in each chat, for `MET_SECRETS_TTL_S` after it was last met here or learned."""

    def __init__(self, key: bytes, now_s: Callable[[], float]) -> None:
        self._key = key
        self._now_s = now_s
        self._chats: OrderedDict[str, MetInChat] = OrderedDict()

    def of(self, chat: str) -> MetInChat:
        """Return what was met in one chat, a session key's text."""
        if (met := self._chats.get(chat)) is None:
            key = hmac.digest(self._key, b"met " + chat.encode(), "sha256")
            met = self._chats.setdefault(chat, MetInChat(key, self._now_s))
        self._chats.move_to_end(chat)
        while len(self._chats) > MET_SECRETS_CHATS_MAX:
            self._chats.popitem(last=False)
        return met


@dataclass(slots=True)
class _Met:
    """The rule that found a value, until when that counts, and whether the bus knows of it."""

    rule: str
    until_s: float
    is_shared: bool


class MetInChat:
    """The hashes of one chat. A row is one of them with its rule, as other processes learn it."""

    __slots__ = ("_key", "_met", "_now_s", "is_learned")

    def __init__(self, key: bytes, now_s: Callable[[], float]) -> None:
        self.is_learned = False  # did this process ask what others have found?
        self._key = key
        self._now_s = now_s
        self._met: OrderedDict[bytes, _Met] = OrderedDict()

    def __bool__(self) -> bool:
        return bool(self._met)

    def add(self, value: str, rule: str) -> None:
        """Remember a value that `rule` found, in the spellings that can be told from their neighbours."""
        encoded = base64.b64encode(value.encode()).decode().rstrip("=")
        for form in {*_spelled_again(value), encoded, encoded.translate(_TO_URL)}:
            self._keep(self._hash(form), rule, is_shared=rule == RULE)  # our own are known to each process

    def learn(self, rows: Iterable[bytes]) -> None:
        """Remember what other processes have found."""
        for row in rows:
            if row[:_HASH_BYTES] not in self._met:
                self._keep(row[:_HASH_BYTES], row[_HASH_BYTES:].decode(errors="replace"), is_shared=True)
        self.is_learned = True

    def unshared(self) -> tuple[bytes, ...]:
        """Return the rows of what was found here and others cannot know."""
        return tuple([each + met.rule.encode() for each, met in list(self._met.items()) if not met.is_shared])

    def shared(self, rows: Iterable[bytes]) -> None:
        """Note that these rows are on the bus."""
        for row in rows:
            if (met := self._met.get(row[:_HASH_BYTES])) is not None:
                met.is_shared = True

    def spans(self, text: str, edges: Sequence[int]) -> list[SecretSpan]:
        """Return where one stands between signs, in the pieces that `edges` begin and end, in order and apart."""
        now_s = self._now_s()
        while self._met and next(iter(self._met.values())).until_s <= now_s:
            self._met.popitem(last=False)
        if not self._met:
            return []
        lengths = sorted({int.from_bytes(each[:_LENGTH_BYTES]) for each in list(self._met)}, reverse=True)
        runs = (run for piece in zip(edges[::2], edges[1::2], strict=True) for run in _RUN.finditer(text, *piece))
        return [span for run in runs for span in self._in_run(text, *run.span(), lengths)]

    def _in_run(self, text: str, start: int, end: int, lengths: list[int]) -> Iterator[SecretSpan]:
        end = min(end, start + _RUN_CHARS_MAX)
        edges = {start, end}
        for sign in _EDGE.finditer(text, start, end):
            edges |= {sign.start(), sign.end()}
        done = start
        for at in sorted(edges):
            for length in lengths:
                is_piece = at >= done and at + length in edges
                if is_piece and (met := self._met.get(self._hash(text[at : at + length]))) is not None:
                    done = at + length
                    yield SecretSpan(at, done, met.rule)

    def _keep(self, hashed: bytes, rule: str, *, is_shared: bool) -> None:
        self._met[hashed] = _Met(rule, self._now_s() + MET_SECRETS_TTL_S, is_shared)
        self._met.move_to_end(hashed)
        while len(self._met) > MET_SECRETS_MAX:
            self._met.popitem(last=False)

    def _hash(self, form: str) -> bytes:
        return len(form).to_bytes(_LENGTH_BYTES) + hmac.digest(self._key, form.encode(), "sha256")[:_DIGEST_BYTES]


_TO_URL: Final = str.maketrans("+/", "-_")
