"""Is this value, announced by a word such as `password`, a secret, or only talk about one?

A value passes if it is not a reference (`os.environ[...]`, `${X}`, `<token>`), not masked, not a hash, not a
stand-in, and looks as random as the way it was announced demands."""

from __future__ import annotations

import itertools
import re
from enum import IntEnum
from typing import Final

from gateway.scrub.rules import UNSPOKEN, is_counted, is_wordy, says_placeholder
from gateway.scrub.words import KeywordFamily, announces_more, is_announcing, vocabulary


class Bond(IntEnum):
    """How tightly the value is tied to the announcing word, from hearsay to assignment."""

    LOOSE = 0  # other words stand between
    ADJACENT = 1  # `password hunter2`
    SAID = 2  # `password is hunter2`
    ASSIGNED = 3  # `password: hunter2`, `password=hunter2`


_EXPRESSION: Final = re.compile(
    r"[{<\[(]|[$%@&#][{<\[(]|&[A-Za-z_]\w{1,24}=|%\w{2,}%\Z|--[a-z]|[a-z][a-z0-9+.-]*://"
    r"|[a-z_]{3,}=(?:\d+|True|False|None)\Z|\+?(?:[A-Z][A-Z0-9]*_[A-Z0-9_]+|[A-Z]{3,24})=(?!=|\Z)|(?:vault|ssm|keyring|env|file|sops|akv):"
    r"|(?:os|self|this|process|config|cfg|settings|args|env|environ|request|req|ctx|var|local|secrets?|data|module"
    r"|params|opts|options|conf)\.|\.[A-Za-z][\w-]*[({]|\$\.[a-z]|![a-z]+_[a-z]"
)
_NO_CALL: Final = re.compile(r"\([^()]*\)\w")  # what goes on behind its brackets is not called
_SCRIPT: Final = re.compile(
    r"\A(?:null|true|false|undefined)[;)]|\A[a-z],[a-z]|\[type=|\{[a-z-]{3,}:|[)}\]][{(;,)}\]]|=>|&&|[=!]==|[<>~]=\d|[<>]\d+\?|\|\||\(\)|`:|\){"
)
_PRINTED: Final = re.compile(r"%[\d.*$]*l*[sdufxi]")
_CALL: Final = re.compile(
    r"[$@]?([A-Za-z_][\w.]*\w)(?:[(\[]|(?<=\w)\{(?=\w)|\?\?|\?\.|->|::|[+|][A-Za-z_]+\.|!?,?\Z)|\$(\w{2,24})-\Z",
    re.ASCII,
)
_NUMBERED_MEMBER: Final = re.compile(  # no member or variable is called so: `berlin.2302`, `h4rb0r.88`, `$Harbor88`
    r"\.\d{2,}!?\Z|\d\D+\d.*\d\Z|\A\$[A-Z][a-z]{3,11}(?!0[0-3]!?\Z)\d{2,4}!?\Z|\A[A-Za-z]{3,}\.(?!(?i:sha|utf|base|u?int|float|md|aes|[ehpr]s|ed|key|conv|step|test)\d)[A-Z]?[a-z]{2,12}_?\d{2,4}\Z",
    re.ASCII,
)
MASKED: Final = re.compile(r"[*•xX.…_#?-]{3,}\Z|.{0,4}[*•]{3,}|<?\[?(?:redacted|removed|hidden)", re.IGNORECASE)
_REGEX: Final = re.compile(r"\A/?\^[\[(\\]|\(\?[=!:<]|\[\^?[aA0]-[zZ9]|\{\d+,\d*\}[$/\"']|A-Z\d?0-9|A-Za-z")
"""A pattern that passwords must match."""

_STANDS_IN: Final = re.compile(
    r"\A(?:min|max|between|size|digits|regex|same|in|different|not_in|uncompromised|m(?:in|ax)_?length):(?=[^a-z]|pass)"
    r"|your(?=[-_ ])|your(?:api|pass|key|token|secret)|placeholder|example|changeme|change[-_]me"
    r"|(?<![a-z0-9])x{4}|x{4}(?![a-z0-9])|\*\*\*|\.\.\."
    r"|\A(?:list|dict|set|tuple|optional|map|array|vec)[\[<(]\w|(?:replace|insert)[-_]|[-_]here\b|required\||(?:\A|[=:])%[\d$.]*l*[sdrxuif](?:[%:,/]|\Z)|\{\}|(\w)\1{11}\Z"
)
_DATE: Final = re.compile(
    r"\d{1,4}[-/.:]\d{1,2}(?:[-/.:]\d{1,4})?(?:T[\d:.Z+-]+)?|\d+(?:\.\d+)*%?|v?\d+(?:\.\d+)+|\d+[a-zA-Z]{1,3}", re.ASCII
)
_HUMP: Final = re.compile(r"(?:[A-Z]+(?![a-z])|[A-Z]?[a-z]+)(?:\d(?=[A-Z][a-z]{2}))?|\d+", re.ASCII)
_SPOKEN: Final = re.compile(
    r"(?:[A-Z]{1,5}|[a-z]|(?=.*[aeiouyAEIOUY]|Http|Str|Ptr|Ctx|Cfg|Msg)(?:[A-Z]?[a-z]*|[A-Z]*))\d?|\d{1,5}", re.ASCII
)
_MARKUP: Final = re.compile(  # of manual pages, around a value in an address, letters in quoted-printable
    r"\\?\*\([A-Z][a-z]|\\(?:f[A-Z0-9]|[&e\\-]|\([\w:*^`']{1,2}|[ms]\[?[\w+-]{0,8}\]?)"
    r"|%(?:2[27]|60|3[CcEe])|\A3D|(?:=[C-F][0-9A-F](?:=[89AB][0-9A-F]){1,3})+"
)
_UUID: Final = re.compile(r"[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}")
_NIL_CHARS: Final = 2  # a UUID of one digit and its dashes is nobody's
_REFERRING: Final = "@:$%‹›"  # around a name these make a reference to something (`:password`)
_DIGEST: Final = re.compile(  # behind a mere `key:`, a commit, the key of a cache or of a stored object
    r"(?:[0-9a-f]{40}|(?:[A-Za-z][\w.]*[-/:])+(?:[0-9a-f]{8}-(?:[0-9a-f]{4}-){3})?[0-9a-f]{7,64})", re.ASCII
)
_NUMBERED: Final = re.compile(r"[a-z]+\d{0,2}(?:-[a-z]+\d{0,2})+-\d{5,12}|[a-z]+(?:_[a-z]+){2,}_[0-9a-f]{8}")
_HEX: Final = re.compile(r"(?:0x)?[0-9a-fA-F]+")
_MAIL: Final = re.compile(
    r"[\w.+-]+@(?:(?:[\w-]+\.)+[A-Za-z]{2,}|\d{1,3}(?:\.\d{1,3}){3}"
    r"|[\w.-]+:(?:~[\w./-]*[$#%]?|/[\w./-]*[/$#%][\w./-]*))"
)
_NAME_AND_VALUE: Final = re.compile(  # behind a mere mention, something else is assigned (`-Dprefix=…`)
    r"-{0,2}([a-z_]{3,40}|(?:i[dp]|[mt]s|[nt]o|r[ct])(?==\d)|[A-Z_]{3,40}|[A-Z]?[a-z]{3,}"
    r"|[A-Z]?[a-z]+(?:[._A-Z-][a-z]+){1,6})!?==?[^\s=]",
    re.ASCII,
)
_TYPE: Final = re.compile(r"[A-Za-z]\w*(?:Key|Token|Secret|Lexer|Parser|Provider|Factory)", re.ASCII)
_CODE_SIGNS: Final = re.compile(r"\A[A-Za-z_.]{6,}\(|[()\[\]{}|,;].{0,22}[()\[\]{}|,;]|\A(?=.{0,23}\Z).*[()\[\]{}|,;]")
"""A call, or signs of code nearer to each other than in a value that was made at random."""

_COUNT: Final = re.compile(r"\d+", re.ASCII)
_SPELLED: Final = re.compile(r"\w(?=\w*[:=|/_.])[\w:=|/.]+|[:=|/_.]+\w+")  # words of code: `proxy_auth`, `UID:GID`
_WORD_AND_NUMBER: Final = re.compile(r"[^\W\d_]+[-_.]?\d{1,4}(?:\.\d{1,4}){0,3}")
_PHRASE: Final = re.compile(r"[A-Za-z]{2,12}(?:[-_.][A-Za-z0-9]{1,12}){2,9}", re.ASCII)
_WORDS: Final = re.compile(r"[a-z]{3,12}(?:-[a-z]{3,12}){3,9}", re.ASCII)  # a phrase, behind `JWT_SECRET=`
_WORDS_AND_YEAR: Final = re.compile(  # `kitsune1967`, `JasmineZephyr70`: where people must have a digit
    r"(?:(?:19|20)\d\d[a-z]{4,}|\d{2,4}[a-z]{4,}[*!]|[a-z]{5,}(?:(?:19|20)\d\d|1234)|(?:[A-Z][a-z]{2,}){2,}\d\d|[A-Z][a-z]{7,}(?!19|20)\d{3,4}|(?P<letters>[A-Za-z]{6,})\d{1,4})[!*_.?#]?"
)
_FULL_SIZE_CHARS: Final = 32
_FULL_SIZE_DISTINCT: Final = 10
_HELD_DOWN: Final = re.compile(r"(\w)\1{11,}")
_ALPHABET: Final = re.compile("abcdefghijklm|opqrstuvwxyz", re.IGNORECASE)
_NUMBER_CHARS: Final = range(15, 25)  # a number of this length behind `token =` is no count, no date and no time
_CHARS_MIN: Final = {Bond.LOOSE: 8, Bond.ADJACENT: 6, Bond.SAID: 4, Bond.ASSIGNED: 4}
_UNSPOKEN_CHARS_MIN: Final = 14  # letters in one case that nobody could say, and too many for an abbreviation
_CODE: Final = re.compile(  # what regular expressions and shortened scripts are full of
    r"[a0A]-[z9Z]|\(\?|\\[dwsbAZ]|=>|\(\)|&&|\|\||==|\$\{|[\])]\.|\w\(\w{1,12}[,)]|\w:\w[,}]|,\w{1,3}[=:.]"
)
_CODE_EVERY_CHARS: Final = 60  # in a long value that was drawn, one of those stands by chance
_JUMBLE_CHARS_MIN: Final = 24
_JUMBLE_TURNS_SHARE: Final = 0.42  # so often a drawn sequence changes between kinds of characters; code half as often
CREDENTIAL_CHARS_MIN: Final = 20  # behind `Authorization: Bearer`, so many characters of any kind are the credential
_CHOSEN_CHARS_MAX: Final = 24  # a person may have chosen a `secret` that is no longer
_MADE_CHARS_MIN: Final = {
    KeywordFamily.KEY: {Bond.LOOSE: 16, Bond.ADJACENT: 10, Bond.SAID: 8, Bond.ASSIGNED: 8},
    KeywordFamily.VAGUE: {Bond.LOOSE: 999, Bond.ADJACENT: 24, Bond.SAID: 16, Bond.ASSIGNED: 16},
    KeywordFamily.SCHEME: {Bond.LOOSE: 12, Bond.ADJACENT: 12, Bond.SAID: 12, Bond.ASSIGNED: 12},
}


def is_secret(value: str, family: KeywordFamily, bond: Bond, *, is_quoted: bool, is_constant: bool = False) -> bool:
    """Judge one value without spaces; `is_constant` says that an environment variable's name assigns it."""
    if family is KeywordFamily.CODE:
        return False
    value = _MARKUP.sub(lambda sign: "e" * sign.group().startswith("="), value)
    if len(value) < (_CHARS_MIN if family is KeywordFamily.PERSONAL else _MADE_CHARS_MIN[family])[bond]:
        return False
    if _is_stand_in(value, is_quoted=is_quoted) or ("@" in value and not is_quoted and _MAIL.fullmatch(value)):
        return False
    if bond < Bond.ASSIGNED and not is_quoted and (pair := _NAME_AND_VALUE.match(value)) and is_wordy(pair[1]):
        return False
    if family is KeywordFamily.PERSONAL:
        return _is_personal(value, bond, is_quoted=is_quoted)
    if family is KeywordFamily.KEY and bond is Bond.ASSIGNED and _COUNT.fullmatch(value):
        return len(value) in _NUMBER_CHARS and not is_counted(value)
    if family is KeywordFamily.VAGUE and (
        _DIGEST.fullmatch(value) or _UUID.fullmatch(value) or (bond < Bond.SAID and _HEX.fullmatch(value))
    ):
        return False
    if family is KeywordFamily.SCHEME and bond >= Bond.SAID and len(value) >= CREDENTIAL_CHARS_MIN:
        return True
    if family is KeywordFamily.KEY and is_constant and _WORDS.fullmatch(value):
        return True
    if family is KeywordFamily.KEY and bond is Bond.ASSIGNED and len(value) <= _CHOSEN_CHARS_MAX:
        return (any(map(str.isdigit, value)) and _is_personal(value, Bond.LOOSE, is_quoted=False)) or _is_made(value)
    return _is_made(value)


def is_unspoken(word: str) -> bool:
    """Tell whether a word of one case cannot be spoken: then it is an application password, and no word."""
    return len(word) >= _UNSPOKEN_CHARS_MIN and word.isascii() and UNSPOKEN.search(word) is not None


def is_random(value: str) -> bool:
    """Tell whether letters and digits, or letters and signs, are mixed as in no word and no name."""
    return any(map(str.isdigit, value)) and any(map(str.isalpha, value)) and not (is_wordy(value) or _is_name(value))


def is_pass_phrase(value: str) -> bool:
    """Judge a quoted value of several words: tell whether it is a phrase nobody would say."""
    words = value.split()
    return (
        3 <= len(words) <= 12
        and all(2 <= len(word) <= 14 and word.isalnum() for word in words)
        and not any(word.lower() in vocabulary().sentence or is_announcing(word.lower()) for word in words)
        and all(word[:2] == word[:2].lower() for word in words[value.isascii() :])  # a sentence begins with a capital
    )


def is_shaped(value: str) -> bool:
    """Tell whether a piece of a sentence is a password by its looks, or the number of a lock."""
    if not any(map(str.isalpha, value)):
        return not _DATE.fullmatch(value) or value.replace("-", "").isdigit()
    if is_reference(value) or is_announcing(value.lower()):
        return False
    return is_secret(value, KeywordFamily.PERSONAL, Bond.LOOSE, is_quoted=False)


def _is_stand_in(value: str, *, is_quoted: bool) -> bool:
    lowered, words = value.lower(), vocabulary()
    name = lowered.lstrip("\"'`").rstrip(":=")
    if name.replace("-", "").replace("_", "").isalpha() and any(map(is_announcing, re.split("[-_.]", name))):
        return True
    is_listed = lowered.strip(_REFERRING) in words.stand_ins or MASKED.match(value) or words.no_secret.match(value)
    if is_listed or _STANDS_IN.search(lowered):
        return True
    if value.isalnum():
        return False
    if (_UUID.fullmatch(value) and len(set(value)) <= _NIL_CHARS) or "${" in value or _REGEX.search(value):
        return True
    if is_quoted:
        return False
    is_code = _EXPRESSION.match(value) or _SCRIPT.search(value) or value.endswith("(") or is_reference(value)
    return bool(is_code) or not any(map(str.isalnum, _PRINTED.sub("", value)))


def is_reference(value: str) -> bool:
    """Tell whether code names something: a call, a lookup, a member, a path. Nobody's password looks like that, not
    even behind the name of an environment variable."""
    if value.isalnum() or vocabulary().chain.fullmatch(value):
        return False
    if "/" in value and "+" not in value and is_wordy(value.replace("#", "/")):
        return True
    call = _CALL.match(value)
    if call is None or _NO_CALL.search(value):
        return False
    if call.end() == len(value):
        is_plain_name = not value.startswith("$") and value[-1] not in "([" and "." not in value
        if is_plain_name or _NUMBERED_MEMBER.search(value):
            return False
    return all(_is_regular(piece) for piece in re.split(r"[._]", call[1] or call[2]) if piece)


def _is_personal(value: str, bond: Bond, *, is_quoted: bool) -> bool:
    if value[:-1].isalpha() and value[-1] in "!.:?":
        return _is_plain_word_secret(value[:-1], bond, is_quoted=is_quoted and value[-1] == "!")
    if is_announcing(value.lower()):
        return False
    if _COUNT.fullmatch(value):
        return bond >= Bond.SAID or (bond == Bond.ADJACENT and len(value) >= 5)
    if _DATE.fullmatch(value):
        return False
    if bond < Bond.ASSIGNED and value.startswith("\\"):
        return False
    if value.isalpha():
        is_name = not is_quoted and _is_name(value) and announces_more(value)
        return not is_name and _is_plain_word_secret(value, bond, is_quoted=is_quoted)
    if bond == Bond.LOOSE:
        kinds = any(map(str.islower, value)) + any(map(str.isupper, value)) + any(map(str.isdigit, value))
        kinds += kinds >= 2 and any(not char.isalnum() and char not in "-_./:" for char in value)
        is_mixed = kinds >= 3 and not _WORD_AND_NUMBER.fullmatch(value) and _has_mark(value)
        is_mixed = is_mixed or (value[-1].isdigit() and vocabulary().chain.fullmatch(value) is not None)
        words = None if is_mixed else _WORDS_AND_YEAR.fullmatch(value)
        return is_mixed or (words is not None and not (words["letters"] and _is_regular(words["letters"])))
    if bond == Bond.ASSIGNED:
        is_code = _SPELLED.fullmatch(value) and is_wordy(value) and not vocabulary().chain.fullmatch(value)
        return is_quoted or any(map(str.isdigit, value)) or not is_code
    if not _has_mark(value):
        return bool(vocabulary().chain.fullmatch(value) or (_PHRASE.fullmatch(value) and value.count("-") >= 3))
    return sum(map(str.isalpha, value)) >= 2  # else a number with a sign, a version or an ordinal (`#12`, `3.5`)


def _has_mark(value: str) -> bool:
    """Tell whether the value has a digit, or a sign that words are not written with."""
    return any(map(str.isdigit, value)) or re.search(r"[!@#$%^&*+=~?]", value[:-1]) is not None


def _is_plain_word_secret(value: str, bond: Bond, *, is_quoted: bool) -> bool:
    """Tell whether a word without digits is a secret: only its case, or quotes and an assignment, can make it one."""
    if value.isascii() and len(value) >= 8 and (not _is_regular(value) or UNSPOKEN.search(value)):
        return bond >= Bond.ADJACENT
    return is_quoted and bond >= Bond.SAID and len(value) >= 6 and value.islower()


def _is_regular(word: str) -> bool:
    """Tell whether a word is written in one case, capitalised, or in camel case."""
    return word.islower() or word.isupper() or word.istitle() or _is_name(word)


def is_jumble(value: str) -> bool:
    """Tell whether letters, digits and signs of every kind change places all the time: Django's and WordPress's keys,
    which no code looks like, brackets or not."""
    has_digit = len(value) >= _JUMBLE_CHARS_MIN and any(map(str.isdigit, value)) and "://" not in value
    if not has_digit or says_placeholder(value) or len(_CODE.findall(value)) * _CODE_EVERY_CHARS > len(value):
        return False
    kinds = [0 if char.islower() else 1 if char.isupper() else 2 if char.isdigit() else 3 for char in value]
    turns = sum(1 for left, right in itertools.pairwise(kinds) if left != right)
    return {0, 3} <= set(kinds) and turns >= _JUMBLE_TURNS_SHARE * len(value) and kinds.count(3) * 8 >= len(value)


def _is_counted(value: str) -> bool:
    """Tell whether a value is typed along the alphabet: one in the size of a key may be real, if none was held down."""
    if (held := _HELD_DOWN.search(value)) and 2 * len(held.group()) > len(value):
        return True
    is_full_size = len(value) >= _FULL_SIZE_CHARS and len(set(value)) >= _FULL_SIZE_DISTINCT
    return is_counted(value) and not (is_full_size and not _ALPHABET.search(value))


def _is_made(value: str) -> bool:
    """Tell whether it looks generated: letters and digits mixed, or both cases without order."""
    if len(set(value)) < min(6, len(value)) or _CODE_SIGNS.search(value) or _TYPE.fullmatch(value):
        return False
    if says_placeholder(value) or _is_counted(value):
        return False
    if is_unspoken(value) and value.isalnum() and (value.islower() or value.isupper()):
        return True
    if is_wordy(value) or _NUMBERED.fullmatch(value) or all(map(_is_name, re.split(r"[-_./:=@?]", value))):
        return False
    if any(map(str.isdigit, value)):
        return any(char.isalpha() for char in value)
    turns = sum(1 for left, right in itertools.pairwise(value) if left.islower() != right.islower())
    return turns >= 4 and len(value) >= 12


def _is_name(piece: str) -> bool:
    """Tell whether a piece is an identifier of programmers: few humps, each pronounceable (`UserAPIKeyAuth`)."""
    humps = _HUMP.findall(piece)
    if sum(map(len, humps)) != len(piece) or 4 * len(humps) > len(piece) + 4:
        return False
    if sum(hump.isdigit() for hump in humps) > 1:
        return False
    return all(_SPOKEN.fullmatch(hump) and (hump.isupper() or not UNSPOKEN.search(hump)) for hump in humps)
