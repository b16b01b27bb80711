"""Which questions may be answered from the cache, and what makes two of them the same. Pure (agent.md section 8).

A question is known by its words, and its circumstances by everything else that the model would read: system
prompt, tools, history, memory. Both must be the same for an answer to be given again, so whatever changes in
between (a fact, a task, an identity file, one more message) is a miss. What depends on the moment, or leans on
what was said before, is never kept.
"""

from __future__ import annotations

import json
import re
import tomllib
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256
from importlib import resources
from typing import Any, Final

from agent.limits import CACHED_QUESTION_CHARS_MAX, CACHED_QUESTION_LETTERS_MIN
from agent.model.client import PromptMessage, ToolSpec
from gateway.contracts.answers import Question
from gateway.contracts.entries import Role
from gateway.contracts.ids import SessionKey
from gateway.contracts.messages import CleanText

_NOW: Final = re.compile(r"<(now|tone)>\n[^<]{0,300}\n</\1>")
"""The time of day and the tone in a preamble (agent.context), the newest one and those of the history. What depends
on the one is not kept at all, and the other is told by the words themselves."""

_MEMORY: Final = re.compile(r"<memory>\n.*?\n</memory>", re.DOTALL)
_RECALLED: Final = re.compile(r"- \d{4}-\d\d-\d\d, (?:the user|you|a tool): (.*)")
"""A block of memory, and its lines from earlier conversations (agent.memory.recollecting)."""

_VERBATIM: Final = re.compile(r"[\n`{}<>=\\|/@$_#~^*\[\]]")
"""Where one of these stands, case and space may matter: code, paths, addresses, formulas."""

_OTHER_THAN_ITS_DIGITS: Final = ("<super>", "<sub>", "<fraction>", "<circle>")
"""Decompositions that would make 2⁵ and 25 the same."""

_WORD: Final = re.compile(r"[^\W_]+(?:['’\-.,:][^\W_]+)*")
_INSIDE_A_WORD: Final = re.compile(r"['’\-.,:]")
_WIDE: Final = re.compile(r"[\u2e80-\u9fff\uac00-\ud7af\uf900-\ufaff]")
_WIDE_WORTH: Final = 3  # a character of these scripts says as much as so many letters


class _Words:
    """One table of `cacheable.toml`."""

    def __init__(self, table: Mapping[str, Any]) -> None:
        self.words: Final = frozenset(table["words"].split())
        self.wide: Final = re.compile("|".join(map(re.escape, table["wide"])))

    def are_in(self, text: str) -> bool:
        """Whether one of them is in a normalised text, also as a part of a word with a hyphen or an apostrophe."""
        words = _words(text)
        parts = {part for word in words for part in _INSIDE_A_WORD.split(word)}
        return bool(self.words & parts.union(words)) or self.wide.search(text) is not None


_TABLES: Final = tomllib.loads(resources.files(__package__).joinpath("cacheable.toml").read_text("utf-8"))
_MOMENT: Final = _Words(_TABLES["moment"])
_LEANING: Final = _Words(_TABLES["leaning"])
_NEGATION: Final = _Words(_TABLES["negation"])


def question(
    key: SessionKey,
    said: CleanText,
    *,
    circumstances: Iterable[str],
    system: CleanText,
    tools: Sequence[ToolSpec],
    prompt: Sequence[PromptMessage],
) -> Question | None:
    """What the cache is asked; None where nothing may be kept.

    `circumstances` are what the answer depends on and the prompt does not show, such as the model; `said` is
    the newest message of `prompt`, which may have more in it (the time of day, memory).
    """
    if not prompt or prompt[-1].role is not Role.USER:
        return None
    *before, newest = prompt
    memory = "\n".join(_MEMORY.findall(newest.text))
    bare = _NOW.sub("", _MEMORY.sub("", newest.text))
    around = bare.replace(said, "").strip()
    if bare.count(said) != 1 or not is_repeatable(said, stands_alone=not before and not around):
        return None
    lines = [line for line in memory.splitlines() if line.startswith("- ")]
    recalled = [found[1] for line in lines if (found := _RECALLED.fullmatch(line))]
    facts = [line for line in lines if not _RECALLED.fullmatch(line)]
    parts = [*circumstances, system, *map(_tool_text, tools), *map(_message_text, before), around, *facts]
    same = normalised(said)
    return Question(
        key=key,
        circumstances=_digest(parts),
        asked=_digest([same]),
        guard=_digest(_guarded(said)),
        words=_digest(sorted(_words(same))),
        recalled=tuple(line for line in recalled if not _is_part(line, said)),
    )


def recalled_besides(asked: Question, answer: str) -> str:
    """A digest of what the model is reminded of that is neither the question nor this answer: an earlier
    conversation in which both were said changes nothing, one in which anything else was said may."""
    return _digest(line for line in asked.recalled if not _is_part(line, answer))


def _is_part(line: str, text: str) -> bool:
    """Whether a line of memory is a piece of `text`, written as memory writes it."""
    return line.strip("…").casefold() in " ".join(text.split()).replace("<", "‹").replace(">", "›").casefold()


def is_repeatable(said: str, *, stands_alone: bool) -> bool:
    """Whether a question of these words would be answered alike an hour later: about nothing of the moment,
    and, unless it stands alone, not leaning on what was said before it."""
    text = normalised(said).casefold()
    if not _letters(said) or len(said) > CACHED_QUESTION_CHARS_MAX or _MOMENT.are_in(text):
        return False
    return stands_alone or (_letters(said) >= CACHED_QUESTION_LETTERS_MIN and not _LEANING.are_in(text))


def normalised(said: str) -> str:
    """What two spellings of one question have in common: without case, width and spacing, which mean nothing
    in plain words. Text that may be code stays as it is."""
    text = unicodedata.normalize("NFC", said.strip())
    if _VERBATIM.search(text):
        return text
    return " ".join("".join(map(_plain, text)).casefold().split())


def _plain(char: str) -> str:
    if unicodedata.decomposition(char).startswith(_OTHER_THAN_ITS_DIGITS):
        return char
    return unicodedata.normalize("NFKC", char)


def _words(text: str) -> list[str]:
    return [word.casefold() for word in _WORD.findall(text)]


def _letters(text: str) -> int:
    letters = sum(map(str.isalnum, text))
    return letters + (_WIDE_WORTH - 1) * len(_WIDE.findall(text))


def _guarded(said: str) -> list[str]:
    """Numbers, negations and names, in their order: what two questions of one meaning have in common. Whatever
    begins with a capital counts as a name: one that is none costs a hit, never a wrong answer."""
    words = _WORD.findall(unicodedata.normalize("NFC", said).replace("’", "'"))
    return [
        *(word.casefold() for at, word in enumerate(words) if _is_guarded(word, is_first=at == 0)),
        *_NEGATION.wide.findall(said),
        *re.findall(r"[^\w\s.,;:!?'’\"-]", said),
    ]


def _is_guarded(word: str, *, is_first: bool) -> bool:
    is_number = any(map(str.isnumeric, word))
    return is_number or word.casefold() in _NEGATION.words or (not is_first and word[0].isupper())


def _message_text(message: PromptMessage) -> str:
    calls = [[call.id, call.name, call.arguments] for call in message.tool_calls]
    return json.dumps([message.role.value, _NOW.sub("", message.text), calls, message.tool_call_id])


def _tool_text(tool: ToolSpec) -> str:
    return json.dumps([tool.name, tool.description, dict(tool.schema)], sort_keys=True)


def _digest(parts: Iterable[str]) -> str:
    """Of a list of texts: no two lists share it."""
    return sha256(json.dumps(list(parts)).encode()).hexdigest()
