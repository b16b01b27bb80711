"""Distil memories from what has left the model's view, once, in the background.

Nothing is dropped from history by it, and a failure is only logged. The work to do is in SQL (`boundaries`), so
a process that dies during it leaves it to the next. Facts go into the memory of the key under which the words
were said, whatever they say: nobody writes into another's memory."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, Final

import structlog

from agent import limits
from agent.engine import Finished
from agent.features.memory.knowledge import PersonMemory
from agent.models.client import ModelClient
from agent.models.metering import usage_of
from agent.models.requests import ModelRequest, PromptMessage, ask
from agent.models.selection import Models
from agent.prompts.library import PROMPTS
from gateway.contracts.context_blocks import words_in
from gateway.contracts.errors import MemoryFull, ModelError, StoreError
from gateway.contracts.ids import SessionKey
from gateway.contracts.memory import Boundary, Fact, Origin
from gateway.contracts.messages import CleanText, clipped, in_digits, joined, literal_text
from gateway.contracts.ports import Clock
from gateway.contracts.sessions import Entry, EntryKind, Role, Session, UsagePurpose
from gateway.scrub import Scrubber
from gateway.store import Store

# The request to a model to find lasting facts, and the facts in its answer. Pure (agent.md section 9).


_SPEAKERS: Final = {Role.USER: literal_text("User: "), Role.ASSISTANT: literal_text("Assistant: ")}
_CHARS_MAX: Final = {Role.USER: limits.GATHER_CHARS_MAX, Role.ASSISTANT: limits.GATHERED_REPLY_CHARS_MAX}


def said_by_people(entries: Iterable[Entry]) -> list[Entry]:
    """Select the entries that can hold a fact: words of the user, and the answers that they refer to. Tool results are
    left out, because a page or a file states no fact about the user, and so are quotes of others."""
    return [
        entry
        for entry in entries
        if entry.kind is EntryKind.MESSAGE
        and entry.role in _SPEAKERS
        and not entry.is_undone
        and words_in(entry.text).strip()
    ]


@dataclass(frozen=True, slots=True)
class GatheredFact:
    """A fact that a model found, the words of questions that it helps with, and the numbers of the facts that are no
    longer true because of it."""

    text: str
    replaces: tuple[int, ...] = ()
    helps_with: str = ""


def gathering_requests(said: Sequence[Entry], known: Sequence[Fact]) -> list[tuple[PromptMessage, ...]]:
    """Split the conversation into requests that a small model can read, oldest first; of a very long one only the
    newest parts. There is none where the user said nothing."""
    parts: list[list[CleanText]] = []
    room = 0
    for entry in said:
        line = joined(_SPEAKERS[entry.role], clipped(words_in(entry.text), _CHARS_MAX[entry.role]))
        if len(line) > room:
            parts.append([])
            room = limits.GATHER_CHARS_MAX
        parts[-1].append(line)
        room -= len(line)
    numbered = [joined(in_digits(fact.number), literal_text(". "), fact.text) for fact in known]
    told = _block(literal_text("<known>"), numbered, literal_text("</known>"))
    asked = [
        [*told, *_block(literal_text("<conversation>"), part, literal_text("</conversation>"))]
        for part in parts[-limits.GATHER_REQUESTS_MAX :]
        if any(line.startswith(_SPEAKERS[Role.USER]) for line in part)
    ]
    return [(PromptMessage(Role.USER, joined(*lines, by="\n")),) for lines in asked]


def _block(opening: CleanText, lines: Sequence[CleanText], closing: CleanText) -> list[CleanText]:
    return [opening, *lines, closing] if lines else []


def facts_in(answer: str) -> list[GatheredFact]:
    """Read the facts from a model's answer and ignore everything else in it. They still have to be scrubbed."""
    found: dict[str, GatheredFact] = {}
    for line in answer.splitlines():
        fact = _fact_in(line.strip().strip("`,"))
        if fact is not None:
            found[fact.text] = fact
    return list(found.values())[: limits.GATHERED_FACTS_MAX]


def _fact_in(line: str) -> GatheredFact | None:
    """Read the fact of one line, None if it has none of a sensible size: half a fact may say the opposite."""
    if not line.startswith("{"):
        return None
    try:
        written: Any = json.loads(line)
    except (ValueError, RecursionError):
        return None
    text = written.get("fact") if isinstance(written, dict) else None
    if not isinstance(text, str):
        return None
    plain = "".join(char if unicodedata.category(char)[0] != "C" else " " for char in text)
    fact = " ".join(plain.split())
    if not fact or len(fact) > limits.GATHERED_FACT_CHARS_MAX:
        return None
    numbers = written.get("replaces")
    listed = numbers if isinstance(numbers, list) else [numbers]
    helps_with = written.get("helps_with")
    return GatheredFact(
        fact,
        tuple(number for number in listed if type(number) is int),
        " ".join(helps_with.split()) if isinstance(helps_with, str) else "",
    )


_log = structlog.get_logger(__name__)
_PAGE: Final = 500


@dataclass(eq=False, repr=False)
class Consolidation:
    """The built-in sub-agent that remembers. Without `gathers` it only indexes."""

    client: ModelClient
    models: Models
    memory: PersonMemory
    store: Store
    scrubber: Scrubber
    clock: Clock
    _: KW_ONLY
    gathers: bool

    async def after(self, finished: Finished) -> None:
        """Go through the conversations that this turn, or one before it, has ended."""
        if finished.has_boundary:
            await self.go_through(finished.turn.batch.key)

    async def go_through(self, key: SessionKey | None) -> None:
        """Go through all boundaries that are due for `key`, or with None for anybody, which includes those that other
        processes left. Never raises our errors."""
        try:
            for _ in range(limits.BOUNDARIES_AT_ONCE):
                boundary = await self.store.memories.claim_boundary(
                    key, now_ms=self.clock.now_ms(), for_ms=int(limits.BOUNDARY_CLAIM_S * 1000)
                )
                if boundary is None:
                    return
                await self._go_through(boundary)
        except StoreError as error:
            _log.warning("memory.put_off", reason=str(error))

    async def _go_through(self, boundary: Boundary) -> None:
        await self.store.memories.index(boundary)
        await self.memory.embed_passages(boundary)
        try:
            if self.gathers:
                await self._gather(boundary)
        except ModelError as error:
            _log.warning("memory.gathering_failed", session_id=boundary.session_id, reason=str(error))
            return  # it stays claimed for a while; then somebody tries once more
        await self.store.memories.finish_boundary(boundary, now_ms=self.clock.now_ms())

    async def _gather(self, boundary: Boundary) -> None:
        session = await self.store.sessions.by_id(boundary.session_id)
        entries: list[Entry] = []
        after_seq = boundary.after_seq
        while page := await self.store.transcript.page(boundary.session_id, after_seq=after_seq, limit=_PAGE):
            entries += [entry for entry in page if entry.seq <= boundary.seq]
            after_seq = page[-1].seq
            if after_seq >= boundary.seq:
                break
        said = said_by_people(entries)
        if session is None or not said:
            return
        known = await self._known(boundary.key, said)
        kept = 0
        for messages in gathering_requests(said, known):
            kept += await self._keep(boundary.key, await self._ask(session, messages), known)
        _log.info("memory.gathered", session_id=session.id, entries=len(said), facts=kept)

    async def _known(self, key: SessionKey, said: Sequence[Entry]) -> Sequence[Fact]:
        """Return the newest facts, and older ones that have to do with what the user said."""
        newest = await self.memory.recall(key, "", limit=limits.GATHER_KNOWN_MAX)
        if len(newest) < limits.GATHER_KNOWN_MAX:  # these are all
            return newest
        words = "\n".join(words_in(entry.text) for entry in said if entry.role is Role.USER)
        related = await self.memory.recall(key, words[-limits.MEMORY_SAID_CHARS_MAX :], limit=limits.GATHER_RELATED_MAX)
        return list({fact.id: fact for fact in (*newest, *related)}.values())

    async def _ask(self, session: Session, messages: tuple[PromptMessage, ...]) -> Sequence[GatheredFact]:
        model = self.models.utility(session)
        is_reasoning = self.models.client.facts(model).is_reasoning
        request = ModelRequest(
            model=model,
            purpose=UsagePurpose.MEMORY,
            key=session.key,
            system=PROMPTS.gather,
            messages=messages,
            completion_tokens_max=limits.GATHER_REASONING_TOKENS_MAX if is_reasoning else limits.GATHER_TOKENS_MAX,
            temperature=limits.GATHER_TEMPERATURE,
            timeout_s=limits.GATHER_TIMEOUT_S,
            otherwise=self.models.of_session(session),
        )
        answer = await ask(self.client, request)
        usage = usage_of(answer, session.key, UsagePurpose.MEMORY, now_ms=self.clock.now_ms())
        await self.store.sessions.charge([usage], session_id=session.id)
        return facts_in(answer.text)

    async def _keep(self, key: SessionKey, facts: Sequence[GatheredFact], known: Sequence[Fact]) -> int:
        """Keep what a model found; it replaces none but facts that the model was shown."""
        scrubber = self.scrubber.for_chat(str(key))
        shown = {fact.number for fact in known}
        for count, fact in enumerate(facts):
            instead_of = [number for number in fact.replaces if number in shown]
            try:
                kept = await self.memory.remember(
                    key,
                    scrubber.scrub(fact.text),
                    origin=Origin.GATHERED,
                    helps_with=fact.helps_with,
                    instead_of=instead_of,
                )
            except MemoryFull:
                _log.info("memory.full", owner=str(key.owner))
                return count
            shown -= {gone.number for gone in kept.replaced}
        return len(facts)
