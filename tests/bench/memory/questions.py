"""Asks the questions of the labelled sets of people who told many facts, and looks at what memory tells the model."""

from __future__ import annotations

import json
import random
import re
import subprocess
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from agent.features.memory.knowledge import PersonMemory
from agent.tokens import estimate_tokens
from gateway.contracts.ids import SessionKey
from gateway.contracts.memory import Fact, Vector
from gateway.contracts.messages import CleanText
from gateway.contracts.sessions import OpenSession, Session
from gateway.store import Store
from tests.doubles import ManualClock, PlainScrubber
from tests.parts.effects import apply_effects
from tests.parts.environments import interpreter

HERE: Final = Path(__file__).parent
LANGUAGES: Final = ("en", "de", "es", "ru", "zh")
SETS: Final = ("pairs", "apart", "blind")
_DAY_MS: Final = 86_400_000
_FACT: Final = re.compile(r"\d+\. (.*)")
_RECALLED: Final = 5  # facts, as the tool gives unless it is asked for more
_ASKED_MAX: Final = 15  # questions of one person: others have other facts around theirs


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
class Question:
    """A question, the fact that it needs (None: it needs none) and the set that it is in."""

    language: str
    text: str
    fact: SampleFact | None = None
    set: str = ""


@dataclass(frozen=True, slots=True)
class Person:
    """Somebody who told facts over a year, and what is asked later."""

    key: SessionKey
    session: Session
    facts: Sequence[tuple[Fact, SampleFact]]
    questions: Sequence[Question]


@dataclass(frozen=True, slots=True)
class Told:
    """What one prompt held: the facts that are always told, and those for this question; and what `recall` gives for
    its words. `tokens`: of the facts that are always told, and of the whole block."""

    question: Question
    always: frozenset[SampleFact]
    beside: frozenset[SampleFact]
    recalled: frozenset[SampleFact]
    tokens: tuple[int, int]

    @property
    def has_fact(self) -> bool:
        return self.question.fact in self.always | self.beside

    @property
    def has_another(self) -> bool:
        """Whether a fact of another matter is told that is not always told."""
        matter = self.question.fact.matter if self.question.fact else ""
        return any(fact.matter != matter for fact in self.beside)


@dataclass(frozen=True, slots=True)
class Sets:
    """The labelled sets."""

    questions: tuple[Question, ...]
    others: tuple[SampleFact, ...]
    acquaintances: tuple[SampleFact, ...]

    @classmethod
    def read(cls) -> Sets:
        """Read them from the files beside this one."""
        asked = [
            Question(language, question, SampleFact(language, matter, fact, helps_with), name)
            for name, file in zip(SETS, ("pairs.tsv", "pairs_apart.tsv", "pairs_blind.tsv"), strict=True)
            for language, matter, fact, question, helps_with in _rows(file)
        ]
        asked += (Question(language, question) for language, question in _rows("unrelated.tsv"))
        return cls(tuple(asked), tuple(SampleFact(*row) for row in _rows("others.tsv")), tuple(_acquaintances()))

    @property
    def texts(self) -> list[str]:
        """List everything that may have to be embedded."""
        facts = (*(asked.fact for asked in self.questions if asked.fact), *self.others, *self.acquaintances)
        meant = (fact.meant(has_words=has_words) for fact in facts for has_words in (False, True))
        return [*meant, *(asked.text for asked in self.questions)]

    def people(self, facts_count: int) -> list[tuple[list[SampleFact], list[Question]]]:
        """Draw people of so many facts, in the order they were told in, and what they are asked: together, all."""
        found = []
        for language in LANGUAGES:
            asked = [one for one in self.questions if one.language == language]
            needing = [one for one in asked if one.fact]
            draw = random.Random(f"{facts_count} {language}")
            draw.shuffle(needing)
            at_once = max(min(_ASKED_MAX, facts_count // 3), 1)
            parts = [needing[at : at + at_once] for at in range(0, len(needing), at_once)]
            without = [one for one in asked if not one.fact]
            for number, part in enumerate(parts):
                facts = [one.fact for one in part if one.fact]
                facts += self._beside(language, facts, facts_count - len(facts), draw)
                draw.shuffle(facts)
                found.append((facts, [*part, *without[number :: len(parts)]]))
        return found

    def _beside(self, language: str, facts: Sequence[SampleFact], count: int, draw: random.Random) -> list[SampleFact]:
        """Draw other facts: what people say of themselves first, then what they say of everybody they know."""
        own = [*(one.fact for one in self.questions if one.fact), *self.others]
        own = [fact for fact in own if fact.language == language and fact not in facts]
        theirs = [fact for fact in self.acquaintances if fact.language == language]
        return [*draw.sample(own, min(count, len(own))), *draw.sample(theirs, max(count - len(own), 0))]


def _acquaintances() -> list[SampleFact]:
    """Combine those whom somebody knows with what they do."""
    rows = _rows("acquaintances.tsv")
    return [
        SampleFact(
            language,
            "acquaintances",
            f"{who}{does}。" if language == "zh" else f"{who} {does}.",
            f"{words} {other_words}",
        )
        for language, kind, who, words in rows
        if kind == "who"
        for other, other_kind, does, other_words in rows
        if (other, other_kind) == (language, "does")
    ]


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
    """Lets people tell their facts, and takes their questions. With `has_words`, each fact is kept with the words of
    later questions. No fact was ever of use before."""

    store: Store
    has_words: bool = False
    clock: ManualClock = field(default_factory=ManualClock)
    people: list[Person] = field(default_factory=list)

    async def tell(self, drawn: Sequence[tuple[Sequence[SampleFact], Sequence[Question]]]) -> None:
        """Keep the facts of these people."""
        for facts, questions in drawn:
            key = SessionKey("telegram", str(len(self.people) + 1))
            kept = [
                await self.store.memories.remember(
                    key,
                    CleanText(fact.text),
                    now_ms=self.clock.now_ms() + 365 * _DAY_MS * number // len(facts),
                    helps_with=fact.helps_with if self.has_words else "",
                )
                for number, fact in enumerate(facts)
            ]
            session = await apply_effects(self.store, key, [OpenSession()], now_ms=self.clock.now_ms())
            pairs = list(zip((one.fact for one in kept), facts, strict=True))
            self.people.append(Person(key, session, pairs, questions))

    async def ask(self, embedder: KnownVectors | None = None) -> list[Told]:
        """Ask all questions, with the facts embedded, if somebody does that."""
        memory = PersonMemory(self.store.memories, PlainScrubber(), self.clock, embedder=embedder)
        told = []
        for person in self.people:
            if embedder is not None:
                vectors = {
                    kept.id: embedder.vectors[fact.meant(has_words=self.has_words)] for kept, fact in person.facts
                }
                await self.store.memories.put_vectors(person.key, embedder.model, vectors)
            known = (await memory.block(person.session, CleanText(" "))).text or ""
            for question in person.questions:
                block = (await memory.block(person.session, CleanText(question.text))).text or ""
                always, found = _facts_in(known, person), _facts_in(block, person)
                recalled = await memory.recall(person.key, question.text, limit=_RECALLED)
                tokens = (estimate_tokens("\n".join(known.splitlines()[3:-1])), estimate_tokens(block))
                told.append(
                    Told(question, always, found - always, _of(person, {each.text for each in recalled}), tokens)
                )
        return told


def _facts_in(block: str, person: Person) -> frozenset[SampleFact]:
    return _of(person, {match[1] for line in block.splitlines() if (match := _FACT.fullmatch(line))})


def _of(person: Person, texts: Collection[str]) -> frozenset[SampleFact]:
    return frozenset(fact for _, fact in person.facts if fact.text in texts)
