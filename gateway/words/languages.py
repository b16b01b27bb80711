"""The languages that we have words in, and which of them is somebody's. Pure."""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Final


class Language(StrEnum):
    """The value is the primary subtag of its IETF tag, and the name of its catalogue."""

    EN = "en"
    RU = "ru"
    ZH = "zh"
    """Simplified Chinese, which whoever reads the other script reads more easily than English."""
    ES = "es"
    DE = "de"


_BY_SUBTAG: Final = {language.value: language for language in Language}
_LOOKED_AT: Final = 400  # characters: enough to see a script
_NO_PROSE: Final = re.compile(r"^\s*/\w+|`[^`]*`|\w+://\S+|[@#]\w+")
_RUSSIAN: Final = re.compile(r"[а-яё]", re.IGNORECASE)
_OTHER_CYRILLIC: Final = re.compile(r"(?![а-яё])[\u0400-\u052f]", re.IGNORECASE)
_HAN: Final = re.compile(r"[\u3400-\u4dbf\u4e00-\u9fff]")
_KANA_OR_HANGUL: Final = re.compile(r"[\u3040-\u30ff\u1100-\u11ff\uac00-\ud7af]")


def language_named(tag: str) -> Language | None:
    """The language of an IETF tag, whatever its script or region (`zh-Hans-CN`, `de_AT`). English for one that we have
    no words in, None for an empty tag."""
    if not tag:
        return None
    return _BY_SUBTAG.get(re.split("[-_]", tag, maxsplit=1)[0].lower(), Language.EN)


def language_written(text: str) -> Language | None:
    """The language that a text is written in, where its script alone makes that certain; else None."""
    prose = _NO_PROSE.sub(" ", text[:_LOOKED_AT])
    letters = sum(map(str.isalpha, prose))
    if 2 * len(_RUSSIAN.findall(prose)) > letters:
        return None if _OTHER_CYRILLIC.search(prose) else Language.RU
    if 2 * len(_HAN.findall(prose)) > letters:
        return None if _KANA_OR_HANGUL.search(prose) else Language.ZH
    return None
