"""The answer cache: a question that was answered before, in the same circumstances, needs no model.

`CachedEngine` looks before the steps of a turn; what may be kept is put there once the turn is committed. An
answer belongs to the session key it was given under: nobody else finds it, nor does the same user elsewhere.
A cache that fails is a miss; it never fails a turn.
"""

from __future__ import annotations

import json
import re
import tomllib
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from hashlib import sha256
from importlib import resources
from typing import Any, Final

import structlog

from agent import limits
from agent.engine import AfterTurn, Engine, Finished, PromptWindow, Turn
from agent.models.requests import Embedder, PromptMessage, ToolSpec
from agent.tools.tool import ToolContext
from gateway.contracts.errors import ModelError, StoreError
from gateway.contracts.ids import SessionKey
from gateway.contracts.memory import CachedAnswer, CachedQuestion, Embedding, cosine
from gateway.contracts.messages import CleanText
from gateway.contracts.ports import Clock
from gateway.contracts.sessions import Entry, Role, TurnState
from gateway.store.answers import AnswerStore

# Which questions may be answered from the cache, and what makes two of them the same. Pure (agent.md section 8).
#
# A question is known by its words, and its circumstances by everything else that the model would read: system prompt,
# tools, history, memory. Both must be the same for an answer to be given again, so whatever changes in between (a
# fact, a task, an identity file, one more message) is a miss. What depends on the moment, or leans on what was said
# before, is never kept.


_NOW: Final = re.compile(r"<(now|tone)>\n[^<]{0,300}\n</\1>")
"""The time of day and the tone in a preamble (agent.models.transcript), the newest one and those of the history.
What depends on the one is not kept at all, and the other is told by the words themselves."""

_MEMORY: Final = re.compile(r"<memory>\n.*?\n</memory>", re.DOTALL)
_RECALLED: Final = re.compile(r"- \d{4}-\d\d-\d\d, (?:the user|you|a tool): (.*)")
"""A block of memory, and its lines from earlier conversations (agent.features.memory.knowledge)."""

_VERBATIM: Final = re.compile(r"[\n`{}<>=\\|/@$_#~^*\[\]]")
"""Where one of these stands, case and space may matter: code, paths, addresses, formulas."""

_OTHER_THAN_ITS_DIGITS: Final = ("<super>", "<sub>", "<fraction>", "<circle>")
"""Decompositions that would make 2⁵ and 25 the same."""

_WORD: Final = re.compile(r"[^\W_]+(?:['’\-.,:][^\W_]+)*")
_INSIDE_A_WORD: Final = re.compile(r"['’\-.,:]")
_WIDE: Final = re.compile(r"[\u2e80-\u9fff\uac00-\ud7af\uf900-\ufaff]")
_WIDE_WORTH: Final = 3  # a character of these scripts says as much as so many letters


class _Words:
    """One table of `answers.toml`."""

    def __init__(self, table: Mapping[str, Any]) -> None:
        self.words: Final = frozenset(table["words"].split())
        self.wide: Final = re.compile("|".join(map(re.escape, table["wide"])))

    def are_in(self, text: str) -> bool:
        """Tell whether one of the words is in a normalised text, also as a part of a word with a hyphen or an
        apostrophe."""
        words = _words(text)
        parts = {part for word in words for part in _INSIDE_A_WORD.split(word)}
        return bool(self.words & parts.union(words)) or self.wide.search(text) is not None


_TABLES: Final = tomllib.loads(resources.files(__package__).joinpath("answers.toml").read_text("utf-8"))
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
) -> CachedQuestion | None:
    """Build the question for the cache; None where nothing may be kept.

    `circumstances` are what the answer depends on and the prompt does not show, such as the model; `said` is the newest
    message of `prompt`, which may hold more (the time of day, memory).
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
    return CachedQuestion(
        key=key,
        circumstances=_digest(parts),
        asked=_digest([same]),
        guard=_digest(_guarded(said)),
        words=_digest(sorted(_words(same))),
        recalled=tuple(line for line in recalled if not _is_part(line, said)),
    )


def recalled_besides(asked: CachedQuestion, answer: str) -> str:
    """Digest the recalled lines of memory that are neither the question nor part of this answer: an earlier
    conversation in which only these two were said changes nothing, one in which anything else was said may."""
    return _digest(line for line in asked.recalled if not _is_part(line, answer))


def _is_part(line: str, text: str) -> bool:
    """Tell whether a line of memory is a piece of `text`, written as memory writes it."""
    return line.strip("…").casefold() in " ".join(text.split()).replace("<", "‹").replace(">", "›").casefold()


def is_repeatable(said: str, *, stands_alone: bool) -> bool:
    """Tell whether a question in these words would be answered alike an hour later: it is not about the moment and,
    unless it stands alone, does not refer to what was said before it."""
    text = normalised(said).casefold()
    if not _letters(said) or len(said) > limits.CACHED_QUESTION_CHARS_MAX or _MOMENT.are_in(text):
        return False
    return stands_alone or (_letters(said) >= limits.CACHED_QUESTION_LETTERS_MIN and not _LEANING.are_in(text))


def normalised(said: str) -> str:
    """Normalize case, width and spacing, which mean nothing in plain words, so that two spellings of one question are
    equal. Text that may be code stays as it is."""
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
    """List the numbers, negations and names in their order, which two questions of one meaning have in common. Every
    word with a capital counts as a name: a wrong one costs a hit, never a wrong answer."""
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
    """Hash a list of texts: no two lists share a digest."""
    return sha256(json.dumps(list(parts)).encode()).hexdigest()


_log = structlog.get_logger(__name__)


class AnswerCache:
    """Finds answers by the words of their question, and by its meaning where there is an embedding model."""

    def __init__(self, shelf: AnswerStore, clock: Clock, *, ttl_s: int, embedder: Embedder | None = None) -> None:
        self._shelf = shelf
        self._clock = clock
        self._ttl_s = ttl_s
        self._embedder = embedder

    async def find(self, asked: CachedQuestion) -> CleanText | None:
        """Find the answer to this question, word for word, or to one that means the same."""
        now_ms = self._clock.now_ms()
        try:
            same = await self._shelf.find(asked, now_ms=now_ms)
            kept = same if same is not None and _still_holds(asked, same) else await self._like(asked, now_ms)
            if kept is not None:
                await self._shelf.use(asked, kept.id, now_ms=now_ms)
            return kept.text if kept is not None else None
        except StoreError as error:
            _log.warning("cache.not_asked", reason=str(error))
            return None

    async def put(self, asked: CachedQuestion, answer: CleanText) -> None:
        """Keep an answer. Raises `StoreUnavailable`."""
        await self._shelf.put(
            asked,
            answer,
            recalled=recalled_besides(asked, answer),
            now_ms=self._clock.now_ms(),
            ttl_s=self._ttl_s,
            owner_max=limits.CACHE_OWNER_ANSWERS_MAX,
            all_max=limits.CACHE_ANSWERS_MAX,
        )

    async def forget(self, key: SessionKey) -> None:
        """Delete all that is kept of the owner of `key`, wherever he asked. Raises `StoreUnavailable`."""
        await self._shelf.forget(key.owner)

    async def embedded(self, asked: CachedQuestion, said: CleanText) -> CachedQuestion:
        """Add the embedding to the question, as far as there is a model for that."""
        if self._embedder is None:
            return asked
        try:
            (vector,) = await self._embedder.embed(asked.key, [said])
        except (ModelError, StoreError) as error:
            _log.warning("cache.not_embedded", reason=str(error))
            return asked
        return replace(asked, embedding=Embedding(self._embedder.model, tuple(vector)))

    async def _like(self, asked: CachedQuestion, now_ms: int) -> CachedAnswer | None:
        if asked.embedding is None:
            return None
        found = await self._shelf.like(asked, now_ms=now_ms, limit=limits.CACHE_CANDIDATES_MAX)
        near = [
            kept for kept in found if _likeness(asked, kept) >= limits.CACHE_LIKENESS_MIN and _still_holds(asked, kept)
        ]
        return max(near, key=partial(_likeness, asked), default=None)


def _still_holds(asked: CachedQuestion, kept: CachedAnswer) -> bool:
    return recalled_besides(asked, kept.text) == kept.recalled


def _likeness(asked: CachedQuestion, kept: CachedAnswer) -> float:
    if asked.embedding is None or kept.embedding is None:
        return 0.0
    return cosine(asked.embedding.vector, kept.embedding.vector)


class CachedEngine:
    """An `Engine` that answers from the cache where it can, and else asks the engine inside."""

    def __init__(
        self,
        inner: Engine,
        cache: AnswerCache,
        tools_of: Callable[[ToolContext], Sequence[ToolSpec]],
        clock: Clock,
    ) -> None:
        self._inner = inner
        self._cache = cache
        self._tools_of = tools_of
        self._clock = clock

    async def take_steps(
        self,
        turn: Turn,
        context: ToolContext,
        *,
        model: str,
        system: CleanText,
        prompt: Sequence[PromptMessage],
        room: PromptWindow,
    ) -> None:
        """Fill `turn` until it has an answer; from the cache without a round and without a cost."""
        asked = self._asked(turn, context, model, system, prompt)
        answer = None
        if asked is not None and turn.said is not None:
            answer = await self._cache.find(asked)
            if answer is None:
                asked = await self._cache.embedded(asked, turn.said)
                answer = await self._cache.find(asked) if asked.embedding is not None else None
        if answer is None:
            turn.asked = asked
            await self._inner.take_steps(turn, context, model=model, system=system, prompt=prompt, room=room)
            return
        _log.info("turn.from_cache")
        turn.answer = answer
        now_ms = self._clock.now_ms()
        turn.entries.append(Entry(Role.ASSISTANT, answer, turn_id=context.turn_id, created_at_ms=now_ms))

    def _asked(
        self,
        turn: Turn,
        context: ToolContext,
        model: str,
        system: CleanText,
        prompt: Sequence[PromptMessage],
    ) -> CachedQuestion | None:
        """Build the turn's question for the cache; None if the answer may not be kept, or the turn was under way
        already."""
        if not turn.is_plain or turn.said is None or any(entry.role is Role.ASSISTANT for entry in turn.entries):
            return None
        return question(
            context.key,
            turn.said,
            circumstances=(model, context.role.value, str(context.asked_by)),
            system=system,
            tools=self._tools_of(context),
            prompt=prompt,
        )


def is_worth_keeping(turn: Turn) -> bool:
    """Tell whether the turn has one whole answer to one message, from a model that used no tool."""
    spoken = [entry for entry in turn.entries if entry.role is not Role.USER]
    return (
        len(spoken) == 1
        and not spoken[0].tool_calls
        and turn.finish_reason == "stop"
        and not turn.joined
        and bool((turn.answer or "").strip())
    )


# Puts the answer of a turn into the cache, once it is committed.


def keeping_answers(cache: AnswerCache) -> AfterTurn:
    """Build the step after each turn that keeps its answer; the caller of the step logs a failure."""

    async def keep(finished: Finished) -> None:
        turn = finished.turn
        is_done = finished.commit.state is TurnState.DONE
        if is_done and turn.asked is not None and turn.answer is not None and is_worth_keeping(turn):
            await cache.put(turn.asked, turn.answer)

    return keep
