"""Is this value, announced by a word such as `password`, a secret, or only talk about one?

A value passes if it is not a reference (`os.environ[...]`, `${X}`, `<token>`), not masked, not a hash, not a
stand-in, and looks as random as the way it was announced demands.
"""

from __future__ import annotations

import re
from enum import IntEnum
from typing import Final

from gateway.scrub.checks import is_placeholder, is_wordy
from gateway.scrub.words import Family, is_announcing


class Bond(IntEnum):
    """How tightly the value is tied to the announcing word, from hearsay to assignment."""

    LOOSE = 0
    """Other words stand between."""
    ADJACENT = 1
    """`password hunter2`"""
    SAID = 2
    """`password is hunter2`"""
    ASSIGNED = 3
    """`password: hunter2`, `password=hunter2`"""


_REFERENCE: Final = re.compile(
    r"""[$%@&#]?[{<\[(]|\$[A-Za-z_(]|%[A-Za-z_]\w*%|[A-Za-z_][\w.]*[(\[]|<|(?:/|\./|~/|\.\./)[\w.-]|[a-z][a-z0-9+.-]*://
    |(?:os|self|this|process|config|cfg|settings|args|env|environ|request|req|ctx|var|local|secrets?|data|module|params|opts|options|conf)\.
    |(?:vault|ssm|op|file|env|keyring|aws|gcp|azure):|!(?:vault|secret|Ref|Sub|GetAtt)|await[ ]|new[ ]|function|lambda""",
    re.ASCII | re.VERBOSE,
)
_HASH: Final = re.compile(
    r"sha-?\d+[:-]|md5:|\$\d?[a-z]{1,8}\d?[a-z]?\$|\{[A-Z0-9]+\}|pbkdf2|argon2|bcrypt|scrypt", re.IGNORECASE
)
_MASKED: Final = re.compile(
    r"[*•xX.…_#\-?]{3,}|.{0,4}[*•]{3,}.{0,4}|\[redacted|<redacted|REDACTED|\[removed|\[hidden", re.ASCII
)
_SHOUTED_NAME: Final = re.compile(r"[A-Z]{2,}(?:_[A-Z0-9]+)+", re.ASCII)
_DATE: Final = re.compile(
    r"\d{1,4}[-/.:]\d{1,2}(?:[-/.:]\d{1,4})?(?:T[\d:.Z+-]+)?|\d+(?:\.\d+)*%?|v?\d+(?:\.\d+)+|\d+[a-zA-Z]{1,3}", re.ASCII
)
_COUNT: Final = re.compile(r"\d+", re.ASCII)
_SNAKE: Final = re.compile(r"[a-z]+(?:_[a-z0-9]+)+", re.ASCII)
_WORD_AND_NUMBER: Final = re.compile(r"[^\W\d_]+[-_.]?\d{1,4}")
_CAMEL: Final = re.compile(r"_?[a-z]*(?:[A-Z](?=[a-z]*[aeiouy])[a-z]{2,}){1,5}\d{0,3}", re.ASCII)
_UNSPEAKABLE: Final = re.compile(r"[bcdfghjklmnpqrstvwxz]{5}", re.ASCII | re.IGNORECASE)
_PHRASE: Final = re.compile(r"[A-Za-z]{2,12}(?:[-_.][A-Za-z0-9]{1,12}){2,9}", re.ASCII)
_STAND_IN: Final = frozenset(
    (
        "true false null none nil undefined required optional string str text number int boolean bool bytes object any password passwd pass"
        " secret token key value hidden empty unset blank default changeme change-me example placeholder redacted masked here there yes no"
        " not set missing invalid incorrect wrong correct valid unknown void disabled enabled public private protected varchar char"
        " todo tbd n/a na foo bar baz foobar"
    ).split()
)
_SENTENCE: Final = frozenset(
    (
        "your the enter please must is are a an to password at least characters and or for of with in on not no this that be can cannot"
        " should will you we it введите ваш пароль не и или в на для нужно должен"
    ).split()
)
_CHARS_MIN: Final = {Bond.LOOSE: 8, Bond.ADJACENT: 6, Bond.SAID: 5, Bond.ASSIGNED: 4}
_KEY_CHARS_MIN: Final = {Bond.LOOSE: 16, Bond.ADJACENT: 10, Bond.SAID: 8, Bond.ASSIGNED: 8}
_VAGUE_CHARS_MIN: Final = {Bond.LOOSE: 999, Bond.ADJACENT: 24, Bond.SAID: 16, Bond.ASSIGNED: 16}


def is_secret(value: str, family: Family, bond: Bond, *, is_quoted: bool) -> bool:
    """The verdict on one value without spaces."""
    if _is_stand_in(value, is_quoted=is_quoted):
        return False
    if family is Family.PERSONAL:
        return _is_personal(value, bond, is_quoted=is_quoted)
    if family is Family.SCHEME:
        return len(value) >= 12 and _is_mixed(value) and not is_wordy(value) and not is_placeholder(value)
    shortest = (_VAGUE_CHARS_MIN if family is Family.VAGUE else _KEY_CHARS_MIN)[bond]
    return len(value) >= shortest and _is_mixed(value) and not is_wordy(value) and not is_placeholder(value)


def is_pass_phrase(value: str) -> bool:
    """The verdict on a quoted value of several words: a phrase nobody would say."""
    words = value.split()
    return (
        3 <= len(words) <= 12
        and all(2 <= len(word) <= 14 and word.isalnum() for word in words)
        and not any(word.lower() in _SENTENCE for word in words)
        and not any(word[0].isupper() for word in words[1:])
    )


def _is_stand_in(value: str, *, is_quoted: bool) -> bool:
    lowered = value.lower()
    if lowered in _STAND_IN or _MASKED.match(value) or _HASH.match(value):
        return True
    if value.startswith(("${", "{{", "<", "%(", "{%", "$(", "#{")):
        return True
    if not is_quoted and _REFERENCE.match(value):
        return True
    if _SHOUTED_NAME.fullmatch(value):
        return True
    return bool(
        re.search(
            r"your[-_ ]?|placeholder|example|changeme|change[-_]me|xxxx|\*\*\*|\.\.\.|replace[-_]|insert[-_]|-here\b|_here\b",
            lowered,
        )
    )


def _is_personal(value: str, bond: Bond, *, is_quoted: bool) -> bool:
    if value[:-1].isalpha() and value[-1] == "!":
        return _is_plain_word_secret(value[:-1], bond, is_quoted=is_quoted)
    if len(value) < _CHARS_MIN[bond] or is_announcing(value.lower()):
        return False
    if _COUNT.fullmatch(value):
        return bond >= Bond.SAID and len(value) != 4 or bond == Bond.ASSIGNED
    if _DATE.fullmatch(value):
        return False
    if value.isalpha():
        return _is_plain_word_secret(value, bond, is_quoted=is_quoted)
    if bond == Bond.LOOSE:
        return _classes(value) >= 3 and not _WORD_AND_NUMBER.fullmatch(value)
    if bond == Bond.ASSIGNED:
        return is_quoted or not (
            _SNAKE.fullmatch(value) and re.search("pass|pwd|secret|token|key|cred|value|user|input|field", value)
        )
    if not any(char.isdigit() for char in value) and not re.search(r"[!@#$%^&*+=~?|\\]", value[:-1]):
        return bool(_PHRASE.fullmatch(value)) and value.count("-") >= 3
    return _has_substance(value)


def _is_plain_word_secret(value: str, bond: Bond, *, is_quoted: bool) -> bool:
    """A word without digits: only its case, or quotes and an assignment, can make it a secret."""
    is_regular = value.islower() or value.isupper() or value.istitle() or _CAMEL.fullmatch(value)
    if value.isascii() and len(value) >= 8 and (not is_regular or _UNSPEAKABLE.search(value)):
        return bond >= Bond.ADJACENT
    if is_quoted:
        return bond >= Bond.SAID and len(value) >= 6 and value.islower()
    return False


def _has_substance(value: str) -> bool:
    """More than a number with a sign, a version or an ordinal (`2nd`, `#12`, `3.5`)."""
    return sum(1 for char in value if char.isalpha()) >= 2 and any(
        char.isdigit() or not char.isalnum() for char in value
    )


def _classes(value: str) -> int:
    return (
        any(char.islower() for char in value)
        + any(char.isupper() for char in value)
        + any(char.isdigit() for char in value)
        + any(not char.isalnum() and char not in "-_./:" for char in value)
    )


def _is_mixed(value: str) -> bool:
    """Letters and digits through each other, or letters of both cases without order."""
    if len(set(value)) < min(6, len(value)):
        return False
    has_digit = any(char.isdigit() for char in value)
    has_letter = any(char.isalpha() for char in value)
    if _CAMEL.fullmatch(value):
        return False
    if has_digit and has_letter:
        return True
    humps = sum(1 for left, right in zip(value, value[1:], strict=False) if left.islower() != right.islower())
    return humps >= 4 and len(value) >= 12
