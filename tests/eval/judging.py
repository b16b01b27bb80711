"""Judges answers by rules that anybody can read: no model has a say in it. Pure."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

CASES: Final = Path(__file__).with_name("cases.toml")
TITLE_WORDS_MAX: Final = 8
TITLE_CHARS_MAX: Final = 50
_SCRIPTS: Final = {
    "ja": re.compile(r"[\u3040-\u30ff]"),
    "zh": re.compile(r"[\u4e00-\u9fff]"),
    "ko": re.compile(r"[\uac00-\ud7af]"),
    "ru": re.compile(r"[\u0400-\u04ff]"),
    "ar": re.compile(r"[\u0600-\u06ff]"),
}
_COMMON_WORDS: Final = {
    "en": "the a of and to is are in it that you for with as on be by this or from at have can",
    "de": "der die das und ist ein eine in zu den mit sich auf für von nicht es im wird werden sind auch dem bei oder",
    "fr": "le la les des et est un une dans de du en que pour pas qui sur avec au ce vous il se plus ou",
    "es": "el la los las y es un una en de del que por con para no se su al lo como más o",
    "it": "il lo la i gli le e è un una di del della in che per con non si da al nel sono più o",
    "pt": "o a os as e é um uma de do da em que por com para não se no na ao mais ou como",
}
"""What every text of some length has, and other languages have less of."""

_PHRASES: Final = {
    "<unknown>": (
        r"\b(don't|do not|can't|cannot|couldn't|haven't|have not|have no|didn't|no (record|access|information|memory|"
        r"such|idea|way)|not (know|have|able|see|find|sure|aware|exist|attached)|doesn't|does not|isn't|unable|unknown|"
        r"unaware|which (book|match|router|account)|weiß (ich )?(leider )?nicht|nicht (bekannt|sagen|wissen|sehen|"
        r"gespeichert)|kenne|keine? (zugriff|information|angabe|ahnung)|n'ai pas|ne (sais|connais|peux) pas|aucune?|"
        r"no (lo )?(sé|tengo|puedo|recuerdo))\b"
    ),
    "<failed>": (
        r"\b(couldn't|could not|can't|cannot|didn't|did not|wasn't|was not|weren't|doesn't|unable|fail(s|ed|ure)?|"
        r"not (been )?(able|saved|written|deleted|sent|set|booked|found|there|run|finished|replaced|possible|reached)|"
        r"error|nothing (was|has)|no (results?|such|old\.log)|too (large|big|long|many)|full|timed out|took long|"
        r"nicht|abgelehnt|declined)\b"
    ),
}
"""What a model says that does not know, and one that has not done it."""


@dataclass(frozen=True, slots=True)
class Case:
    """What a model is asked, and the rules for its answer. `calls` None: tools are not the subject. `tool` and `result`
    are what a call of an earlier round came to."""

    kind: str
    said: str = ""
    history: Sequence[tuple[str, str]] = ()
    facts: Sequence[str] = ()
    tool: str = ""
    result: str = ""
    calls: Sequence[str] | None = None
    language: str = ""
    says: Sequence[str] = ()
    never: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Given:
    """An answer as a caller has it: the text, and the names of the tools it calls."""

    text: str
    calls: Sequence[str] = ()


def load_cases(path: Path = CASES) -> list[Case]:
    """Read the cases. Raises `TypeError` for a field that there is none of."""
    tables: Mapping[str, Sequence[Mapping[str, Any]]] = tomllib.loads(path.read_text("utf-8"))
    return [Case(kind, **fields) for kind, rows in tables.items() for fields in rows]


def faults_of(case: Case, given: Given) -> list[str]:
    """List what is wrong with an answer; empty for one that passes."""
    return [*_call_faults(case, given), *_text_faults(case, given.text)]


def language_of(text: str) -> str:
    """Guess the language of a text: by its script, else by the words that it has most of; "" where nothing speaks for
    one."""
    letters = sum(map(str.isalpha, text)) or 1
    for language, script in _SCRIPTS.items():
        share = len(script.findall(text)) / letters
        if share > (0.1 if language == "ja" else 0.4):
            return language
    words = re.findall(r"[^\W\d_]+", text.lower())
    counts = {language: sum(word in common.split() for word in words) for language, common in _COMMON_WORDS.items()}
    best = max(counts, key=lambda language: counts[language])
    return best if counts[best] else ""


def _call_faults(case: Case, given: Given) -> list[str]:
    if case.calls is None:
        return []
    if not case.calls:
        return [f"calls {given.calls[0]}"] if given.calls else []
    if not given.calls:
        return ["calls no tool"]
    return [] if given.calls[0] in case.calls else [f"calls {given.calls[0]}, not {' or '.join(case.calls)}"]


def _text_faults(case: Case, text: str) -> list[str]:
    if case.calls:
        return []
    faults = [] if text.strip() else ["says nothing"]
    faults += [f"lacks {rule}" for rule in case.says if not _found(rule, text)]
    faults += [f"says {rule}" for rule in case.never if _found(rule, text)]
    if case.language and (language := language_of(text)) != case.language:
        faults.append(f"speaks {language or 'nothing known'}, not {case.language}")
    if case.kind == "title" and (len(text.split()) > TITLE_WORDS_MAX or len(text) > TITLE_CHARS_MAX):
        faults.append("is too long for a title")
    return faults


def _found(rule: str, text: str) -> bool:
    for phrase, pattern in _PHRASES.items():
        rule = rule.replace(phrase, pattern)
    return re.search(rule, text.replace("’", "'"), re.IGNORECASE) is not None
