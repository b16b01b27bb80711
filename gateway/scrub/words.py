"""The words of `words.toml`: which announce a secret, and which deny one."""

from __future__ import annotations

import itertools
import re
import string
import tomllib
from collections.abc import Iterable, Mapping
from enum import Enum, StrEnum
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, Final, NamedTuple

from gateway.scrub.rules import trie_pattern
from gateway.scrub.view import is_cjk

_LOOK_BACK_CHARS: Final = 48
_HEADING_CHARS: Final = 5
ENDING_CHARS_MAX: Final = 4
_ENDING: Final = re.compile(f"[а-яё]{{0,{ENDING_CHARS_MAX}}}")
_HUMP: Final = re.compile(r"[A-ZА-ЯЁ]?[a-zà-öø-ÿа-яё]+|[A-ZА-ЯЁ]+|[\u2e80-\ud7ff]+")
_MENTIONED: Final = re.compile(
    r"(?:\[redacted:(?:[a-z0-9]{1,16}-)?|\$\{[a-z0-9_.:]{0,40}"
    r"|\{\{-? ?[.$][\w.$]{0,60}|:secretsmanager:[a-z0-9:-]{0,32}|</[a-z0-9_:.-]{0,40})\Z"
)
"""A placeholder's kind, a reference (`${DB_PASSWORD}`), the address of a secret, a closing tag: no announcement."""

_PLACEHOLDER_END: Final = "0]"  # what is read before a word that ends a secret: its placeholder will stand there
_ANOTHER: Final = re.compile(
    r"(?:[ =:]|(?P<below>[=:]\n)|[=:](?P<quote>[\"'`])(?!(?P=quote))[\"'`]?)(?P<word>[^\W\d_]{2,24})"
    r"(?(quote)[=:]?(?P=quote)|(?(below)[=:]\s|(?=[ =:])))"
)
_PAIR: Final = re.compile(
    r"(?:login|user|username|email|(?<![^\W\d_])id|логин|юзер|用户名|账号|帳號|アカウント)\s?[/:|]\s?\Z"
)
_PAIR_CHARS_MAX: Final = 11
_PAIR_SIGNS: Final = frozenset("/:|")
_IN_NAMES: Final = ("_", ".", "@", "#")
_AROUND_NAMES: Final = (*_IN_NAMES, "<", "/", "-", "$", "[", "{")
_DENIES_CHARS: Final = 24  # so near before a code stands what makes it another (`the exit code`)
_PART_OF_NAME: Final = re.compile(r"[_@]|[.?-][A-Za-z0-9]")  # `login.example.org`: no login is announced
_ARGUMENT: Final = re.compile(r"[\w)\]]\(\s?\\*[\"'][\w.-]*\Z")
_HEADING: Final = re.compile(r"(?:\A|\n)[^\w\n]{0,4}\Z")
_NAMED: Final = re.compile(r"[a-z0-9][_.-]\Z")
_HEADER: Final = re.compile(r"authorization[\"'\]\\]{0,6}\s{0,3}[:=,>]{1,2}\s{0,3}[\"'`\\bfu]{0,5}\Z")
_ASSIGNS: Final = re.compile(r":|=[^\s=\"'\\]")
_BASE64: Final = string.ascii_letters + string.digits + "+/"
_ENCODED: Final = re.compile(r"[A-Za-z0-9+/]{1,48}", re.ASCII)
_ENCODED_CHARS_MIN: Final = 36
_CODE_CHARS_MIN: Final = 24
_CODE: Final = re.compile(r"(?=[A-Z]*\d[A-Z0-9]*[A-Z])[A-Z0-9]{6,32}", re.ASCII)
_CODE_WORD_CHARS_MAX: Final = 3  # so short a word stands by chance in a code of capitals and digits (`V69PW6G2`)
_ENCODED_KINDS: Final = (re.compile("[a-z]"), re.compile("[A-Z]"), re.compile("[0-9]"))

_WORDS_KEPT: Final = 4096
_SWALLOWED_CHARS_MAX: Final = 24
_SWALLOWED_CHARS_MIN: Final = 3  # shorter words stand at the end of random characters by chance
_IDENTIFIER_BEFORE: Final = re.compile(r"[^\W\d]*[_-]*\Z")


class KeywordFamily(StrEnum):
    """What an announcing word makes us expect."""

    PERSONAL = "personal"  # chosen by a person: may be short and simple
    KEY = "key"  # made by a machine: looks random
    VAGUE = "vague"  # a word with many other meanings (`key`): the value itself must leave no doubt
    CODE = "code"  # a number that is sent to somebody or typed at a door, if the sentence says so; else nothing
    SCHEME = "scheme"  # `Bearer`, `Basic`: the next word is the credential
    LOCKED = "locked"  # what a password opens (`that's the router's`): announces what stands before it
    COOKIE = "cookie"  # a list of named values, up to the end of the line
    LOGIN = "login"  # a name and a password follow
    COMMAND = "command"  # a program: one of its options is followed by a password
    VENDOR = "vendor"  # the name of a vendor, beside which a random value is a secret
    PHRASE = "phrase"  # announces only together with the word behind it

    @property
    def rule(self) -> str:
        """Return the id under which a value of this family is found."""
        return "named/personal" if self is KeywordFamily.PERSONAL else "named"


_OF_VALUES: Final = frozenset([KeywordFamily.PERSONAL, KeywordFamily.KEY, KeywordFamily.VAGUE])
_QUALIFIED: Final = frozenset([KeywordFamily.VAGUE, KeywordFamily.CODE])  # what stands before may make them passwords
_OF_HEADERS: Final = frozenset([KeywordFamily.KEY, KeywordFamily.SCHEME])
_BY_THEMSELVES: Final = _OF_VALUES | {KeywordFamily.SCHEME, KeywordFamily.COOKIE}  # the others: with what follows


class KeywordForm(Enum):
    """Where an announcing word may stand."""

    ANYWHERE = "anywhere"
    WHOLE = "whole"
    INFLECTED = "inflected"
    TAIL = "tail"


class Announcement(NamedTuple):
    """An announcing word in the text."""

    start: int
    end: int
    word: str  # as `words.toml` has it
    family: KeywordFamily
    needs_sign: bool = False  # an ordinary word as well: the next word is a value only after a sign or an "is"
    is_spaced: bool = True  # does its script put spaces between words, so that a value cannot simply follow?
    is_pair: bool = False  # `login/password`: what follows is `bob/…`
    is_constant: bool = False  # part of a name in capitals: an environment variable
    is_header: bool = False  # names the scheme of an `Authorization` header
    before: str = ""  # what stands before it, in lower case: few ask what it says, so only these pay for the search
    may_be_asked: bool = False

    @property
    def is_argument(self) -> bool:
        """Tell whether it is the first argument of a call (`setenv("PASSWORD", …)`): the second is its value."""
        return "(" in self.before and _ARGUMENT.search(self.before) is not None

    @property
    def is_heading(self) -> bool:
        """Tell whether it begins its line."""
        return _HEADING.search(self.before, max(0, len(self.before) - _HEADING_CHARS)) is not None

    @property
    def is_named(self) -> bool:
        """Tell whether it is the tail of an identifier: somebody's key, not any key."""
        is_tail = self.before[-1:].isalnum() and self.before.isascii()
        return is_tail or _NAMED.search(self.before, len(self.before) - 2) is not None

    @property
    def is_asked(self) -> bool:
        """Tell whether its sentence asks for the value or says that it comes (`here is the password`)."""
        return self.may_be_asked and vocabulary().asks.search(_sentence(self.before)) is not None


class Vocabulary:
    """The lists of `words.toml`, ready for use; what each is for is said there."""

    def __init__(self, tables: Mapping[str, Any]) -> None:
        around = {name: [word.replace("_", " ") for word in words.split()] for name, words in tables["around"].items()}
        any_of = {name: f"(?:{trie_pattern(words)})" for name, words in around.items()}
        listed = {name: frozenset(words) for name, words in around.items()}
        listed |= {name: frozenset(words.split()) for name, words in tables["values"].items()}
        letter = r"[^\W\d_]"

        self.vendors = frozenset(tables["vendors"]["names"].split())
        self.facts = frozenset(tables["vendors"]["facts"].split())
        self.locked, self.sentence = listed["locked"], listed["sentence"]
        self.stand_ins, self.things = listed["stand_ins"], tuple(listed["things"])
        word = rf"(?!(?:{'|'.join(listed['of_code'])})s?[._-])[a-z]{{4,10}}"
        self.chain = re.compile(rf"(?:{word}(?:[._-](?=[a-z])|(?=\d|\Z))){{4,9}}\d{{0,4}}", re.ASCII)
        begins, whole = ("|".join(tables["no_secret"][name].values()) for name in ("begins", "whole"))
        self.no_secret = re.compile(rf"{begins}|(?:{whole})\Z")
        self.together = _together(tables["together"])  # by the first word of a phrase, what each second makes of it
        self.options = _options(tables["commands"])  # a program, and the options it takes a password with
        self.announcing = _announcing(self, tables["announcing"])
        self.announcing_cjk = re.compile(trie_pattern(word for word in self.announcing if is_cjk(word[0])))
        self.endings = frozenset(word[-_SWALLOWED_CHARS_MIN:] for word in self.announcing)
        self.triples = frozenset(word[at : at + 3] for word in self.announcing for at in range(len(word) - 2))
        self.codes = frozenset(word for word, (family, _) in self.announcing.items() if family is KeywordFamily.CODE)
        """Those that announce nothing but what has a digit, if at all."""

        # Read backwards, from the word or the value on that they stand before.
        self.glued_to = frozenset(tables["glued"]["to"].split())
        self.glued_names = backwards(tables["glued"]["names"].split(), after=r"(?![^\W\d])")
        self.certain_before = backwards(around["certain_before"], "[-_. ’'`\"]{0,2}")
        self.denies_before = backwards(around["denies_before"], "[-_. ]?")
        self.denies_token = backwards(around["denies_token"], "[-_. ]?", "(?!da|kcab|tnorf|ser)")
        self.joins = backwards(around["joins"], " ", r"(?= )")
        self.hands = backwards(around["hands"], "[ \"'`“«„]{1,3}", r"(?![^\W_])")

        # Sought in the sentence before a word or behind it.
        named = rf"{any_of['users']}{letter}{{0,4}}(?: ad\w| id| is)?[:= ]{{1,2}}(?:is )?\S{{1,24}}"
        self.names_login = re.compile(rf"(?:{named}|\w@[\w.-]{{3,40}})[,;/| ]{{1,3}}\Z")
        self.asks = re.compile(rf"(?<!{letter}){any_of['asks']}(?!{letter})")
        self.of_codes = re.compile(rf"(?<!{letter}){any_of['of_codes']}")
        self.of_networks = re.compile(rf"(?<!{letter}){any_of['of_networks']}(?!{letter})")
        self.no_codes = re.compile(any_of["no_codes"])
        self.denies_after = re.compile(f"[._-]?(?:{'|'.join(around['denies_after'])})", re.IGNORECASE)
        self.denies_after_cjk = re.compile(any_of["denies_after_cjk"])
        self.says_cjk = re.compile(rf"{any_of['says_cjk']}\Z")
        self.links_cjk = re.compile(any_of["links_cjk"])
        quotes = r"\\{0,7}[\"']{0,2}"
        self.value_name = re.compile(rf"[,;]?{quotes}{any_of['value_names']}{quotes}(?=[:=]|\Z)", re.IGNORECASE)

        # Compared one by one.
        self.again, self.corrects = listed["again"], listed["corrects"]
        self.carries, self.says, self.types = listed["carries"], listed["says"], listed["types"]
        self.certain_after, self.needs_sign = listed["certain_after"], listed["needs_sign"]
        self.complements, self.exchanged = listed["complements"], listed["exchanged"]
        self.copulas, self.possessives, self.handed = listed["copulas"], listed["possessives"], listed["handed"]
        self.numbers, self.phrases, self.users = listed["numbers"], listed["phrases"], listed["users"]
        beside = ("copulas", "handed", "possessives", "links", "complements", "certain_before")
        self.leading = self.locked.union(self.together, self.vendors, *(listed[name] for name in beside))
        """What may stand between a value and the word behind it that announces it."""


@cache
def vocabulary() -> Vocabulary:
    """Return the words as shipped. Read once, at the first text."""
    return Vocabulary(tomllib.loads(Path(__file__).with_name("words.toml").read_text(encoding="utf-8")))


def _announcing(
    words: Vocabulary, families: Mapping[str, Mapping[str, str]]
) -> Mapping[str, tuple[KeywordFamily, KeywordForm]]:
    """Return all words that announce, and how. What the list of a family says of a word goes before all else."""
    general = {
        KeywordFamily.LOCKED: words.locked,
        KeywordFamily.VENDOR: words.vendors,
        KeywordFamily.PHRASE: words.together,
        KeywordFamily.COMMAND: words.options,
    }
    return {word: (family, KeywordForm.WHOLE) for family, listed in general.items() for word in listed} | {
        word: (KeywordFamily(family), KeywordForm(form))
        for family, forms in families.items()
        for form, listed in forms.items()
        for word in listed.split()
    }


def backwards(words: Iterable[str], before: str = "", after: str = "") -> re.Pattern[str]:
    """Compile what matches a text that ends with one of the words, when it is read from its end."""
    return re.compile(f"{before}(?:{trie_pattern(word[::-1] for word in words)}){after}")


def _together(families: Mapping[str, Mapping[str, str]]) -> Mapping[str, Mapping[str, KeywordFamily]]:
    phrases: dict[str, dict[str, KeywordFamily]] = {}
    for family, rows in families.items():
        for first, seconds in rows.items():
            phrases.setdefault(first, {}).update(dict.fromkeys(seconds.split(), KeywordFamily(family)))
    return phrases


def _options(rows: Mapping[str, str]) -> Mapping[str, frozenset[str]]:
    takers = {option: programs.split() for option, programs in rows.items()}
    programs = itertools.chain.from_iterable(takers.values())
    return {program: frozenset(option for option in takers if program in takers[option]) for program in programs}


def announcement(
    text: str, lowered: str, place: tuple[int, int], end: int, shown: str = "", shown_at: int = -1
) -> Announcement | None:
    """Return the announcing word of `text[:end]` at a place where a search found one, if it announces anything there;
    `lowered` is the text in lower case, as long as the text. Up to `shown_at` the text will read as `shown` ends:
    that of a secret which stood there is not looked at."""
    words = vocabulary()
    at, stop = place
    word = lowered[at:stop]
    family, form = words.announcing[word]
    if form is KeywordForm.INFLECTED and (ending := _ENDING.match(lowered, stop, end)):
        stop = ending.end()
    if _goes_on(text, stop, end):
        return None
    begins = max(0, at - _LOOK_BACK_CHARS)
    before = lowered[begins:at]
    if shown_at > begins:
        begins = shown_at
        before = (shown + text[shown_at:at])[-_LOOK_BACK_CHARS:].lower()
    last = before[-1:]
    is_inside = form is not KeywordForm.ANYWHERE and at != shown_at and _goes_back(text, at)
    is_glued = word in words.glued_to and words.glued_names.match(before[::-1]) is not None
    if (is_inside and not is_glued) or (form is KeywordForm.TAIL and last != "_"):
        return None
    is_within = last.isalnum() and not is_cjk(last)
    if family is KeywordFamily.COMMAND and (is_within or not text[stop : stop + 1].isspace()):
        return None
    if family in _OF_VALUES and _announces_again(lowered, stop, end, before):
        return None
    if word.isascii() and _is_encoded(text, begins, at, stop) and not _ASSIGNS.match(text, stop, end):
        return None
    if ("{" in before or "[" in before or "</" in before or ":s" in before) and _MENTIONED.search(before):
        return None
    needs_sign = word in words.needs_sign and last != "_" and not words.names_login.search(before)
    denies = words.denies_before if family is KeywordFamily.VAGUE else words.denies_token
    if (family is KeywordFamily.VAGUE or word[:5] == "token") and denies.match(before[::-1]):
        return None
    if (family is KeywordFamily.VAGUE or needs_sign) and words.certain_before.match(before[::-1]):
        family = KeywordFamily.KEY if family is KeywordFamily.VAGUE else family
        needs_sign = False
    if family in _QUALIFIED:
        said = _sentence(before)
        is_part = last in _AROUND_NAMES and not is_glued
        if family is KeywordFamily.CODE and (is_part or words.no_codes.search(said[-_DENIES_CHARS:])):
            return None
        qualifying = words.of_codes if family is KeywordFamily.CODE else words.of_networks
        if is_glued or qualifying.search(said):
            family, needs_sign = KeywordFamily.PERSONAL, False
    elif needs_sign and (
        words.joins.match(before[::-1])
        or (words.of_codes if word in words.numbers else words.of_networks).search(_sentence(before))
    ):
        needs_sign = False
    is_login = family is KeywordFamily.LOGIN
    if is_login and (last in _IN_NAMES or any(no.match(text, stop, end) for no in (_PART_OF_NAME, words.denies_after))):
        return None
    is_header = family in _OF_HEADERS and "authorization" in before and _HEADER.search(before) is not None
    return Announcement(
        at,
        stop,
        word,
        KeywordFamily.SCHEME if is_header else family,
        is_header=is_header,
        needs_sign=needs_sign,
        is_spaced=_is_letter(text[stop - 1]),
        is_pair=not _PAIR_SIGNS.isdisjoint(before[-2:])
        and _PAIR.search(before, max(0, len(before) - _PAIR_CHARS_MAX)) is not None,
        is_constant=text[at:stop].isupper() and text[at:stop].isascii() and text[stop : stop + 1] not in ('"', "'"),
        before=before,
        may_be_asked=family is KeywordFamily.PERSONAL,
    )


def _sentence(before: str) -> str:
    """Return what of the text before a word belongs to its sentence; the kind that a placeholder names does not."""
    return before[max(map(before.rfind, ("]", "\n", ". ", "? ", "! "))) + 1 :]


def swallowed(text: str, lowered: str, start: int, stop: int) -> Announcement | None:
    """Return the announcing word that the secret `text[start:stop]` ends with or inside of: it was glued to the
    secret, and belongs to what follows (`…x7Cookie: session=`). It counts only where a sign or an "is" says so."""
    zone = max(start + 1, stop - _SWALLOWED_CHARS_MAX)
    words, ending = vocabulary(), lowered[stop - _SWALLOWED_CHARS_MIN : stop]
    if ending.isascii() and ending.isalnum():
        near = (ending, lowered[stop - 2 : stop + 1], lowered[stop - 1 : stop + 2])
        if words.triples.isdisjoint(near) if text[stop : stop + 1].isalpha() else ending not in words.endings:
            return None
    for found in _glued_word().finditer(lowered, zone, stop + _SWALLOWED_CHARS_MAX):
        at, end, sign_end = found.start(), found.end("ending"), found.end()
        if at < stop <= sign_end and (end - at >= _SWALLOWED_CHARS_MIN or text[at - 1] in "_-"):
            before = _IDENTIFIER_BEFORE.search(text, zone, at)
            begins = at if before is None or text[at - 1].isalnum() else before.start()
            if word := announcement(text, lowered, found.span("word"), end, _PLACEHOLDER_END, begins):
                return word._replace(end=max(stop, word.end), needs_sign=end >= stop)
    return None


@cache
def _glued_word() -> re.Pattern[str]:
    families = (*_OF_VALUES, KeywordFamily.COOKIE, KeywordFamily.COMMAND)
    words = trie_pattern(word for word, (family, _) in vocabulary().announcing.items() if family in families)
    return re.compile(f"(?P<word>{words})(?P<ending>{_ENDING.pattern})[=:]?")


def _is_encoded(text: str, begins: int, at: int, stop: int) -> bool:
    """Tell whether this is inside a certificate, a digest, a picture or a code, where any word may stand by chance."""
    before = text[begins:at]
    if before[-1:] not in _BASE64 and text[stop : stop + 1] not in _BASE64:
        return False
    after = _ENCODED.match(text, stop, stop + _LOOK_BACK_CHARS)
    start, end = at - len(before) + len(before.rstrip(_BASE64)), after.end() if after else stop
    is_short = stop - at <= _CODE_WORD_CHARS_MAX
    if is_short and _CODE.fullmatch(text, start, end):
        return True
    return end - start >= (_CODE_CHARS_MIN if is_short else _ENCODED_CHARS_MIN) and all(
        kind.search(text, start, end) for kind in _ENCODED_KINDS
    )


def _announces_again(lowered: str, stop: int, end: int, before: str) -> bool:
    """Tell whether another announcing word follows at once, and no speaker below: then that one says what follows."""
    if stop < end and is_cjk(lowered[stop]):
        return vocabulary().announcing_cjk.match(lowered, stop, end) is not None
    another = _ANOTHER.match(lowered, stop, end)
    is_below = another is not None and another["below"] is not None and vocabulary().asks.search(_sentence(before))
    return another is not None and is_announcing(another["word"]) and not is_below


def is_announcing(word: str) -> bool:
    """Tell whether a word in lower case is by itself an announcement."""
    return family_of(word) is not None


def family_of(word: str) -> KeywordFamily | None:
    """Return what a word in lower case, by itself, announces, if anything."""
    announcing = vocabulary().announcing
    if word.isascii():
        family, form = announcing.get(word, (KeywordFamily.PHRASE, KeywordForm.WHOLE))
        return family if family in _BY_THEMSELVES and form is not KeywordForm.TAIL else None
    stems = (word, *(word[:-cut] for cut in range(1, ENDING_CHARS_MAX + 1)))
    families = (announcing[stem][0] for stem in stems if stem in announcing)
    return next((family for family in families if family in _BY_THEMSELVES), None)


@lru_cache(_WORDS_KEPT)
def family_at_end(word: str) -> KeywordFamily | None:
    """Return what a word in lower case, or the last word in it, announces (`WLAN-Passwort`, `Türcode`); a code, too."""
    words = vocabulary()
    if (family := family_of(word)) is not None or word in words.codes:
        return family or KeywordFamily.CODE
    for at in range(1, len(word) - 1):
        family, form = words.announcing.get(word[at:], (None, None))
        is_whole = word[at - 1] == "-" or (form is KeywordForm.ANYWHERE and family is KeywordFamily.PERSONAL)
        if family and (is_whole or (word[at:] in words.glued_to and words.glued_names.match(word[:at][::-1]))):
            of_code = KeywordFamily.CODE if word[at:] in words.codes else None
            return family if family in _BY_THEMSELVES else of_code
    return None


def family_of_name(name: str) -> KeywordFamily | None:
    """Return what a column or a field of this name holds, if anything: its last word tells (`user_password`)."""
    words = re.findall(r"[^\W_]+", name.lower())
    family = family_of(words[-1]) if words else None
    if family is KeywordFamily.VAGUE and vocabulary().certain_before.match(" ".join(words[:-1])[::-1]):
        return KeywordFamily.KEY
    return family


def announces_more(piece: str) -> bool:
    """Tell whether an announcing word stands in this piece of text."""
    said = not piece.isascii() and vocabulary().announcing_cjk.search(piece) is not None
    return said or any(is_announcing(hump.group().lower()) for hump in _HUMP.finditer(piece))


def holds_announcing(piece: str) -> bool:
    """Tell whether an announcing word stands in this piece, which is in lower case, glued to others or not."""
    return _glued_word().search(piece) is not None


def _goes_on(text: str, end: int, limit: int) -> bool:
    """Tell whether the word is only the head of a longer one (`secretary`). A hump (`secretKey`) is a new word."""
    if end >= limit:
        return False
    following, last = text[end], text[end - 1]
    return _is_letter(following) and _is_letter(last) and not (following.isupper() and last.islower())


def _goes_back(text: str, start: int) -> bool:
    preceding = text[start - 1 : start]
    is_hump = text[start].isupper() and (preceding.islower() or text[start + 1 : start + 2].islower())
    return _is_letter(preceding) and not is_hump


def _is_letter(char: str) -> bool:
    """Tell whether it is a letter of a script that puts spaces between its words."""
    return char.isalpha() and not is_cjk(char)
