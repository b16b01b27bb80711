"""The words that announce a secret, in the languages people write to us in, and the words that deny one."""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import Enum
from functools import cache
from typing import Final, NamedTuple

from gateway.scrub.rules import trie_pattern


class Family(Enum):
    """What an announcing word makes us expect."""

    PERSONAL = "personal"
    """Chosen by a person: may be short and simple."""
    KEY = "key"
    """Made by a machine: looks random."""
    VAGUE = "vague"
    """A word with many other meanings (`key`): the value itself must leave no doubt."""
    SCHEME = "scheme"
    """`Bearer`, `Basic`: the next word is the credential."""
    COOKIE = "cookie"
    """A list of named values, up to the end of the line."""


class Announcement(NamedTuple):
    """An announcing word in the text."""

    start: int
    end: int
    family: Family
    is_spaced: bool = True
    """Does its script put spaces between words, so that a value cannot simply follow?"""


_ANYWHERE: Final = {
    Family.PERSONAL: (
        "password passwords passwort passwörter passphrase passcode passwd passwrd pwd psw contraseña contraseñas contrasena"
        " senha senhas kennwort passord hasło haslo wachtwoord lösenord"
        " 密码 密碼 口令 暗号 パスワード 비밀번호 암호"
    ).split(),
    Family.KEY: (
        "secret secrets token tokens credential credentials creds jeton segredo secreto geheimnis authorization"
        " apikey apikeys secretkey accesskey privatekey signingkey encryptionkey masterkey accountkey sharedkey authkey"
        " 密钥 密鑰 秘钥 金鑰 令牌 凭证 私钥 私鑰 トークン シークレット 토큰"
    ).split(),
    Family.VAGUE: "キー 키".split(),
}
_WHOLE: Final = {
    Family.PERSONAL: "pass pw pin clave mdp passe parola".split(),
    Family.KEY: "auth".split(),
    Family.VAGUE: "key keys chave schlüssel clé llave sid signature".split(),
    Family.SCHEME: "bearer basic".split(),
    Family.COOKIE: "cookie cookies".split(),
}
_INFLECTED: Final = {
    Family.PERSONAL: "парол пасворд пассворд пинкод пин-код".split(),
    Family.KEY: "секрет токен".split(),
    Family.VAGUE: "ключ".split(),
}
_ENDING_CHARS_MAX: Final = 4
_ENDING: Final = re.compile(f"[а-яё]{{0,{_ENDING_CHARS_MAX}}}")

_QUALIFIED: Final = re.compile(
    r"(?:api|access|secret|private|auth|sign|signing|encrypt|encryption|decryption|master|account|shared|licen[sc]e|client|session"
    r"|service|server|admin|deploy|ssh|hmac|aes|jwt|webhook|consumer|storage|subscription|storageaccount|app|application|registry|bot|user"
    r"|апи|секретный|приватный|закрытый|лицензионный|мастер|de api|d'api|da api|api\s?密|accès|secreta|privada)[-_. ’'`\"]{0,2}\Z"
)
_DENIED_BEFORE: Final = re.compile(
    r"(?:public|primary|foreign|partition|sort|cache|hot|шапка|открытый|публичный|公)[-_. ]?\Z"
)
_LOOK_BACK_CHARS: Final = 24

_DENYING: Final = (
    "hash|digest|fingerprint|checksum|type|kind|name|url|uri|path|file|dir|count|length|len|limit|size|expir|ttl|policy|field|reset"
    "|hint|label|version|endpoint|usage|min|max|strength|arn|ref|status|manager|store|rotation|age|format|prefix|input|box|column"
    "|header|param|scope|budget|window|bucket|ring|word|board|pair|request|response|provider|verif|validat|attempt|protected|based"
    "|value_type|security|strateg|env|var|id|ids|changed|updated|rotated|expired|generat|per|stat|cost|price|pool|contract|address|symbol"
)
DENIES: Final = re.compile(f"[_-]?(?:{_DENYING})", re.IGNORECASE)
"""The rest of an identifier, or the next word, that turns a secret into a fact about one: `password_policy`."""


def announcements(
    text: str, lowered: str, start: int, end: int, borders: frozenset[int] = frozenset()
) -> Iterator[Announcement]:
    """The announcing words in `text[start:end]`; `lowered` is the text in lower case, as long as the text.

    `borders` are the ends of secrets: a word that begins there begins nowhere in a longer word.
    """
    for found in announcing().finditer(lowered, start, end):
        at = found.start()
        stop = found.end()
        family, where = _families()[found.group()]
        if where == _INFLECTED_WORD:
            ending = _ENDING.match(lowered, stop, end)
            stop = ending.end() if ending else stop
        if _goes_on(text, stop, end) or (where != _PART and at not in borders and _goes_back(text, at)):
            continue
        if family is Family.VAGUE:
            before = lowered[max(0, at - _LOOK_BACK_CHARS) : at]
            if _DENIED_BEFORE.search(before):
                continue
            if _QUALIFIED.search(before):
                family = Family.KEY
        yield Announcement(at, stop, family, _is_letter(text[stop - 1]))


def is_announcing(word: str) -> bool:
    """Is this word, in lower case, by itself an announcement?"""
    known = _families()
    if word in known or word.isascii():
        return word in known
    return any(word[:-cut] in known for cut in range(1, _ENDING_CHARS_MAX + 1))


def _goes_on(text: str, end: int, limit: int) -> bool:
    """Is the word only the head of a longer one (`secretary`)? A hump (`secretKey`) is a new word."""
    if end >= limit:
        return False
    following, last = text[end], text[end - 1]
    return _is_letter(following) and _is_letter(last) and not (following.isupper() and last.islower())


def _goes_back(text: str, start: int) -> bool:
    if start == 0:
        return False
    preceding = text[start - 1]
    return _is_letter(preceding) and not (preceding.islower() and text[start].isupper())


def _is_letter(char: str) -> bool:
    """A letter of a script that puts spaces between its words."""
    return char.isalpha() and char < "\u2e80"


_PART: Final = 0
_WHOLE_WORD: Final = 1
_INFLECTED_WORD: Final = 2


@cache
def _families() -> dict[str, tuple[Family, int]]:
    return {
        word: (family, where)
        for where, table in ((_PART, _ANYWHERE), (_WHOLE_WORD, _WHOLE), (_INFLECTED_WORD, _INFLECTED))
        for family, words in table.items()
        for word in words
    }


@cache
def announcing() -> re.Pattern[str]:
    """Finds every place where an announcing word may stand, in lower-case text."""
    return re.compile(trie_pattern(_families()))


ANNOUNCING_WORDS: Final = frozenset(
    word for table in (_ANYWHERE, _WHOLE, _INFLECTED) for words in table.values() for word in words
)
