"""Asks the questions of the labelled sets, each of a person of its own, and looks at what memory tells the model."""

from __future__ import annotations

import asyncio
import json
import random
import re
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from agent.features.memory.knowledge import PersonMemory
from agent.tokens import estimate_tokens
from gateway.contracts.ids import SessionKey
from gateway.contracts.memory import Embedding, Vector
from gateway.contracts.messages import CleanText
from gateway.contracts.sessions import OpenSession
from gateway.store import Store
from tests.doubles import ManualClock, PlainScrubber
from tests.parts.environments import interpreter

HERE: Final = Path(__file__).parent
LANGUAGES: Final = ("en", "de", "es", "ru", "zh")
_DAY_MS: Final = 86_400_000
_FACT: Final = re.compile(r"\d+\. (.*)")


@dataclass(frozen=True, slots=True)
class SampleFact:
    """A fact, and the words of later questions that a model writes with it."""

    language: str
    matter: str
    text: str
    helps_with: str

    def meant(self, *, has_words: bool) -> str:
        """Return what is embedded of it (agent.features.memory.knowledge)."""
        return f"{self.text}\n{self.helps_with}" if has_words else self.text


@dataclass(frozen=True, slots=True)
class Pair:
    """A fact and a later question that it matters to."""

    fact: SampleFact
    question: str


@dataclass(frozen=True, slots=True)
class Told:
    """What one prompt held: the facts that are always told, those for this question, and the wanted one."""

    language: str
    always: frozenset[str]
    beside: frozenset[str]
    wanted: str
    tokens: int

    @property
    def has_fact(self) -> bool:
        return self.wanted in self.always | self.beside

    @property
    def has_another(self) -> bool:
        """Whether an unrelated fact is told that is not always told."""
        return bool(self.beside - {self.wanted})


@dataclass(frozen=True, slots=True)
class Sets:
    """The labelled sets."""

    pairs: tuple[Pair, ...]
    apart: tuple[Pair, ...]
    blind: tuple[Pair, ...]
    others: tuple[SampleFact, ...]
    unrelated: tuple[tuple[str, str], ...]

    @classmethod
    def read(cls) -> Sets:
        """Read them from the files beside this one."""
        return cls(
            _pairs("pairs.tsv"),
            _pairs("pairs_apart.tsv"),
            _pairs("pairs_blind.tsv"),
            tuple(SampleFact(*row) for row in _rows("others.tsv")),
            tuple((language, question) for language, question in _rows("unrelated.tsv")),
        )

    @property
    def facts(self) -> list[SampleFact]:
        """List the facts that people may have told besides."""
        return [*(pair.fact for pair in (*self.pairs, *self.apart)), *self.others]

    @property
    def texts(self) -> list[str]:
        """List everything that may have to be embedded."""
        return [
            *(
                fact.meant(has_words=has_words)
                for fact in (*self.facts, *(pair.fact for pair in self.blind))
                for has_words in (False, True)
            ),
            *(pair.question for pair in (*self.pairs, *self.apart, *self.blind)),
            *(question for _, question in self.unrelated),
        ]

    def beside(self, language: str, matter: str = "") -> list[SampleFact]:
        """List the facts in a language that are not about a matter."""
        return [fact for fact in self.facts if fact.language == language and fact.matter != matter]


def _pairs(name: str) -> tuple[Pair, ...]:
    return tuple(
        Pair(SampleFact(language, matter, fact, helps_with), question)
        for language, matter, fact, question, helps_with in _rows(name)
    )


def _rows(name: str) -> list[list[str]]:
    return [line.split("\t") for line in (HERE / name).read_text("utf-8").splitlines()]


@dataclass(slots=True)
class KnownVectors:
    """`Embedder` of texts that were embedded before."""

    model: str
    vectors: Mapping[str, Vector]

    async def embed(self, key: SessionKey, texts: Sequence[CleanText]) -> Sequence[Vector]:
        return [self.vectors[text] for text in texts]


def embedded(texts: Sequence[str]) -> Mapping[str, KnownVectors]:
    """Embed the texts with each model, in a process that has them. Raises what `interpreter` raises."""
    command = [str(interpreter(HERE / "embedders.lock")), str(HERE / "embed.py")]
    done = subprocess.run(command, input=json.dumps(list(texts)), capture_output=True, text=True, check=True)
    return {
        name: KnownVectors(name, {text: tuple(vector) for text, vector in zip(texts, vectors, strict=True)})
        for name, vectors in json.loads(done.stdout).items()
    }


@dataclass(slots=True)
class Desk:
    """Takes the questions, one person after the other. With `has_words`, each fact was kept with the words of later
    questions."""

    store: Store
    sets: Sets
    embedder: KnownVectors | None = None
    has_words: bool = False
    clock: ManualClock = field(default_factory=ManualClock)
    people: int = 0

    async def ask(self, pairs: Iterable[Pair], facts_count: int) -> list[Told]:
        """Ask the question of each pair, as a person with so many facts, told over a year."""
        asked = []
        for pair in pairs:
            draw = random.Random(f"{facts_count} {pair.fact.text}")
            facts = draw.sample(self.sets.beside(pair.fact.language, pair.fact.matter), facts_count - 1)
            facts.insert(draw.randrange(facts_count), pair.fact)
            asked.append(await self._told(facts, pair.question, pair.fact.text, draw))
        return asked

    async def ask_unrelated(self, facts_count: int) -> list[Told]:
        """Ask the questions that no fact has to do with, likewise."""
        asked = []
        for language, question in self.sets.unrelated:
            draw = random.Random(f"{facts_count} {question}")
            facts = draw.sample(self.sets.beside(language), facts_count)
            asked.append(await self._told(facts, question, "", draw))
        return asked

    async def _told(self, facts: Sequence[SampleFact], question: str, wanted: str, draw: random.Random) -> Told:
        self.people += 1
        key = SessionKey("telegram", str(self.people))
        days = sorted(draw.sample(range(365), len(facts)))
        await asyncio.gather(*(self._keep(key, fact, day) for fact, day in zip(facts, days, strict=True)))
        session = await self.store.sessions.apply(key, [OpenSession()], now_ms=self.clock.now_ms())
        memory = PersonMemory(self.store.memories, PlainScrubber(), self.clock, embedder=self.embedder)
        known = (
            await PersonMemory(self.store.memories, PlainScrubber(), self.clock).block(session, CleanText(" "))
        ).text
        block = (await memory.block(session, CleanText(question))).text or ""
        always = _facts_in(known or "")
        tokens = estimate_tokens("\n".join((known or "").splitlines()[3:-1]))
        return Told(facts[0].language, always, _facts_in(block) - always, wanted, tokens)

    async def _keep(self, key: SessionKey, fact: SampleFact, day: int) -> None:
        meant, embedder = fact.meant(has_words=self.has_words), self.embedder
        await self.store.memories.remember(
            key,
            CleanText(fact.text),
            now_ms=self.clock.now_ms() + day * _DAY_MS,
            helps_with=fact.helps_with if self.has_words else "",
            embedding=Embedding(embedder.model, embedder.vectors[meant]) if embedder else None,
        )


def _facts_in(block: str) -> frozenset[str]:
    return frozenset(match[1] for line in block.splitlines() if (match := _FACT.fullmatch(line)))
