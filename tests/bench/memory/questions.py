"""Asks the questions of the labelled sets, each of a person of its own, and looks at what memory tells the model."""

from __future__ import annotations

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
from gateway.contracts.memory import Vector
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
class Pair:
    """A fact and a later question that it matters to."""

    language: str
    matter: str
    fact: str
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
    others: tuple[tuple[str, str, str], ...]
    unrelated: tuple[tuple[str, str], ...]

    @classmethod
    def read(cls) -> Sets:
        """Read them from the files beside this one."""
        return cls(
            tuple(Pair(*row) for row in _rows("pairs.tsv")),
            tuple(Pair(*row) for row in _rows("pairs_apart.tsv")),
            tuple((language, matter, fact) for language, matter, fact in _rows("others.tsv")),
            tuple((language, question) for language, question in _rows("unrelated.tsv")),
        )

    @property
    def texts(self) -> list[str]:
        """List everything that may have to be embedded."""
        both = (*self.pairs, *self.apart)
        return [
            *(text for pair in both for text in (pair.fact, pair.question)),
            *(fact for _, _, fact in self.others),
            *(question for _, question in self.unrelated),
        ]

    def facts(self, language: str, *, but: str = "") -> list[str]:
        """List the facts in a language that are not about a matter."""
        rows = [*((pair.language, pair.matter, pair.fact) for pair in (*self.pairs, *self.apart)), *self.others]
        return [fact for spoken, matter, fact in rows if spoken == language and matter != but]


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
    """Takes the questions, one person after the other."""

    store: Store
    sets: Sets
    embedder: KnownVectors | None
    clock: ManualClock = field(default_factory=ManualClock)
    people: int = 0

    async def told(self, language: str, question: str, wanted: str, matter: str, facts_count: int, seed: str) -> Told:
        """Ask a question as a person with so many facts, told over a year."""
        draw = random.Random(seed)
        among = [fact for fact in self.sets.facts(language, but=matter) if fact != wanted]
        facts = draw.sample(among, facts_count - 1 if wanted else facts_count)
        if wanted:
            facts.insert(draw.randrange(facts_count), wanted)
        self.people += 1
        key = SessionKey("telegram", str(self.people))
        memory = PersonMemory(self.store.memories, PlainScrubber(), self.clock, embedder=self.embedder)
        days = sorted(draw.sample(range(365), facts_count))
        began_ms = self.clock.at_ms
        for fact, day in zip(facts, days, strict=True):
            self.clock.at_ms = began_ms + day * _DAY_MS
            await memory.remember(key, CleanText(fact))
        self.clock.at_ms = began_ms
        session = await self.store.sessions.apply(key, [OpenSession()], now_ms=began_ms)
        always = (await memory.block(session, CleanText(" "))).text or ""
        block = (await memory.block(session, CleanText(question))).text or ""
        lines = _facts_in(always)
        return Told(
            language, lines, _facts_in(block) - lines, wanted, estimate_tokens("\n".join(always.splitlines()[3:]))
        )

    async def ask(self, pairs: Iterable[Pair], facts_count: int) -> list[Told]:
        """Ask the question of each pair."""
        return [
            await self.told(
                pair.language, pair.question, pair.fact, pair.matter, facts_count, f"{facts_count} {pair.fact}"
            )
            for pair in pairs
        ]

    async def ask_unrelated(self, facts_count: int) -> list[Told]:
        """Ask the questions that no fact has to do with."""
        return [
            await self.told(language, question, "", "", facts_count, f"{facts_count} {question}")
            for language, question in self.sets.unrelated
        ]


def _facts_in(block: str) -> frozenset[str]:
    return frozenset(match[1] for line in block.splitlines() if (match := _FACT.fullmatch(line)))
