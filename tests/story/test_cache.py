"""The answer cache in whole turns: what is given again, to whom, and what never is. On a real bus and store."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from math import sqrt
from pathlib import Path

import pytest
from sqlalchemy import func, select

from agent.features.answers import AnswerCache
from agent.models.requests import ModelAnswer, ModelEvent, ModelRequest
from gateway.bus.bus import RedisBus
from gateway.clock import SystemClock
from gateway.config.features import CacheSettings
from gateway.contracts.errors import ModelRejected, ModelUnavailable, StoreUnavailable
from gateway.contracts.ids import SessionKey
from gateway.contracts.memory import CachedQuestion, Vector
from gateway.contracts.messages import AttachmentKind, CleanText, ReplyKind, literal_text
from gateway.contracts.sessions import UsagePurpose
from gateway.store import Store
from gateway.store.tables import answers
from tests.contract.store_samples import rows
from tests.parts.agents import AgentProcess, running_agent
from tests.parts.minds import Mind
from tests.parts.pictures import png
from tests.parts.postmen import delivering, with_files
from tests.parts.waiting import PATIENCE_S

ADA = SessionKey("telegram", "1")
_COUNT = select(func.count(answers.c.id))
CACHE = CacheSettings(enabled=True)
SAID = "say Paris is the capital of France"


class Desk:
    """An agent with a cache, its mind, and what is kept."""

    def __init__(self, agent: AgentProcess, mind: Mind, url: str) -> None:
        self.agent = agent
        self.mind = mind
        self._url = url

    async def kept(self, number: int) -> None:
        """Wait until so many answers are kept: they are put there behind the reply."""
        async with asyncio.timeout(PATIENCE_S):
            while (await rows(self._url, _COUNT))[0][0] != number:  # noqa: ASYNC110 - SQL does not tell
                await asyncio.sleep(0.01)

    async def remembered(self, said: str) -> None:
        """Wait until memory would remind the model of it: it goes through a conversation that is over by itself."""
        async with asyncio.timeout(PATIENCE_S):
            while not await self._reminds_of(said):  # noqa: ASYNC110 - SQL does not tell
                await asyncio.sleep(0.01)

    async def _reminds_of(self, said: str) -> bool:
        found = await self.agent.store.memories.recollect(ADA, said, but_session_id="", facts_max=0, snippets_max=9)
        return any(said in snippet.text for snippet in found.snippets)

    async def asked_for(self, said: str, key: str = "telegram:1", *, anew: bool = True) -> int:
        """How many times a model was asked to answer this, in a conversation that has just begun."""
        if anew:
            await self.agent.ask("/new", key)
        before = len(self.mind.asked)
        await self.agent.ask(said, key)
        return len(self.mind.asked) - before


@asynccontextmanager
async def a_desk(bus: RedisBus, store: Store, url: str, folder: Path, mind: Mind | None = None) -> AsyncIterator[Desk]:
    mind = mind or Mind()
    async with running_agent(bus, store, mind, folder, admins=(ADA,), cache=CACHE) as agent:
        yield Desk(agent, mind, url)


@pytest.fixture
async def desk(bus: RedisBus, sqlite_store: Store, sqlite_url: str, tmp_path: Path) -> AsyncIterator[Desk]:
    async with a_desk(bus, sqlite_store, sqlite_url, tmp_path) as opened:
        yield opened


async def test_the_same_question_is_answered_again_without_a_model(
    bus: RedisBus, store: Store, database_url: str, tmp_path: Path
) -> None:
    """It costs nothing, is part of the transcript, and its reply looks like any other."""
    async with a_desk(bus, store, database_url, tmp_path) as desk:
        await desk.agent.ask("/title One")
        first = await desk.agent.ask(SAID)
        await desk.kept(1)
        await desk.agent.ask("/new")
        await desk.agent.ask("/title Two")
        assert await desk.agent.ask(f"  {SAID.upper()} ") == first
        assert len(desk.mind.asked) == 1
        assert (await desk.agent.transcript())[-1] == first
        assert desk.agent.replies[-1].kind is ReplyKind.ANSWER
        session = await store.sessions.current(ADA)
        assert session is not None
        assert (session.tokens, session.cost_usd, session.message_count) == (0, 0.0, 2)


async def test_by_default_nothing_is_kept(bus: RedisBus, sqlite_store: Store, sqlite_url: str, tmp_path: Path) -> None:
    mind = Mind()
    async with running_agent(bus, sqlite_store, mind, tmp_path) as agent:
        await agent.ask(SAID)
        await agent.ask("/new")
        await agent.ask(SAID)
    assert len(mind.asked) == 2
    assert (await rows(sqlite_url, _COUNT))[0][0] == 0


async def test_one_users_answer_is_never_anothers(desk: Desk) -> None:
    """Nor the same user's in another place, nor anybody's in a shared one."""
    assert await desk.asked_for(SAID) == 1
    await desk.kept(1)
    assert await desk.asked_for(SAID) == 0
    for number, key in enumerate(("telegram:2", "telegram:1/-100", "telegram:/-100", "slack:1"), 2):
        assert await desk.asked_for(SAID, key) == 1, key
        await desk.kept(number)


async def test_yes_is_never_answered_from_the_cache(desk: Desk) -> None:
    """What it says yes to was asked before it."""
    for before in ("say Shall I water the plants?", "say Shall I delete everything?"):
        await desk.agent.ask("/new")
        await desk.agent.ask(before)
        assert await desk.asked_for("yes", anew=False) == 1
        assert await desk.asked_for("say that this is a fine idea of yours", anew=False) == 1
    await desk.agent.ask("/new")
    assert await desk.asked_for(SAID, anew=False) == 1
    assert await desk.asked_for(SAID, anew=False) == 1, "it was said before in this conversation"


async def test_an_edit_of_the_identity_voids_it(desk: Desk, tmp_path: Path) -> None:
    await desk.asked_for(SAID)
    await desk.kept(1)
    identity = tmp_path / "workspace" / "SOUL.md"
    identity.parent.mkdir(exist_ok=True)
    identity.write_text("You are a pirate.")
    assert await desk.asked_for(SAID) == 1


async def test_a_new_fact_voids_it(desk: Desk) -> None:
    """ "I do not know your dog" must not outlive the moment in which the dog is told."""
    await desk.asked_for("what do you know of my dog")
    await desk.kept(1)
    assert await desk.asked_for("what do you know of my dog") == 0
    await desk.agent.store.memories.remember(ADA, literal_text("My dog is called Rex"), now_ms=1)
    assert await desk.asked_for("what do you know of my dog") == 1


async def test_what_was_said_elsewhere_since_voids_it(desk: Desk) -> None:
    await desk.asked_for("what do you know of my parrot")
    await desk.kept(1)
    await desk.agent.ask("say that my parrot speaks French")
    await desk.agent.ask("/new")
    await desk.remembered("my parrot speaks French")
    assert await desk.asked_for("what do you know of my parrot", anew=False) == 1


async def test_another_model_answers_for_itself(desk: Desk) -> None:
    await desk.asked_for(SAID)
    await desk.kept(1)
    await desk.agent.ask("/new")
    await desk.agent.ask("/model demo/scripted@1ms")
    assert await desk.asked_for(SAID, anew=False) == 1


async def test_another_profile_answers_for_itself(desk: Desk) -> None:
    await desk.asked_for(SAID)
    await desk.kept(1)
    await desk.agent.ask("/new")
    await desk.agent.ask("/agent writer")
    assert await desk.asked_for(SAID, anew=False) == 1


async def test_forgetting_takes_what_was_made_of_it(desk: Desk) -> None:
    """An answer may repeat the fact that its owner wants to be forgotten."""
    await desk.agent.store.memories.remember(ADA, literal_text("My dog is called Rex"), now_ms=1)
    await desk.asked_for("what do you know of my dog")
    await desk.kept(1)
    await desk.agent.ask("/forget all yes")
    await desk.kept(0)


async def test_retry_means_another_answer(desk: Desk) -> None:
    await desk.asked_for(SAID)
    await desk.kept(1)
    assert await desk.asked_for("/retry", anew=False) == 1


async def test_what_a_tool_had_a_part_in_is_not_kept(desk: Desk) -> None:
    assert await desk.asked_for("todo buy some bread for breakfast") == 2
    assert await desk.asked_for(SAID) == 1
    await desk.kept(1)


async def test_a_message_with_an_attachment_is_not_a_mere_question(desk: Desk) -> None:
    await desk.asked_for(SAID)
    await desk.kept(1)
    await desk.agent.ask("/new")
    before = len(desk.agent.replies)
    async with delivering(desk.agent.bus) as postman:
        await desk.agent.bus.intake.enqueue(with_files(SAID, postman.post("cat.png", png(), AttachmentKind.IMAGE)))
        await desk.agent.heard(before + 1)
    assert len(desk.mind.asked) == 2


class CutShort(Mind):
    """Every answer ends because it had become too long."""

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        async for event in super().stream(request):
            yield replace(event, finish_reason="length") if isinstance(event, ModelAnswer) else event


class Failing(Mind):
    """No turn is answered."""

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        if request.purpose is UsagePurpose.TURN:
            self.asked.append(request)
            raise ModelRejected("down")
        async for event in super().stream(request):
            yield event


@pytest.mark.parametrize(("mind", "calls"), [(CutShort(), 2), (Failing(), 1)])
async def test_only_whole_answers_are_kept(
    bus: RedisBus, sqlite_store: Store, sqlite_url: str, tmp_path: Path, mind: Mind, calls: int
) -> None:
    async with a_desk(bus, sqlite_store, sqlite_url, tmp_path, mind) as desk:
        assert await desk.asked_for(SAID) == calls
        assert await desk.asked_for(SAID) == calls


async def test_a_cache_that_fails_is_a_miss(
    bus: RedisBus, sqlite_store: Store, sqlite_url: str, tmp_path: Path
) -> None:
    """Neither the look-up nor the keeping is anything that its user hears of."""

    async def away(*_: object, **__: object) -> None:
        raise StoreUnavailable("away")

    sqlite_store.answers.find = away  # type: ignore[method-assign]
    sqlite_store.answers.put = away  # type: ignore[method-assign]
    async with a_desk(bus, sqlite_store, sqlite_url, tmp_path) as desk:
        assert await desk.asked_for(SAID) == 1
        assert "Paris" in await desk.agent.ask(SAID)


# --- by meaning


class ByLetters:
    """An embedder: texts that begin with the same word mean the same."""

    model = "letters"

    def __init__(self) -> None:
        self.is_away = False

    async def embed(self, _key: SessionKey, texts: Sequence[CleanText]) -> Sequence[Vector]:
        """One direction for each first letter."""
        if self.is_away:
            raise ModelUnavailable("away")
        return [(1.0, 0.0) if text.startswith("Which") else (0.0, 1.0) for text in texts]


def question_of(asked: str, guard: str = "g") -> CachedQuestion:
    return CachedQuestion(ADA, "c", asked, guard, asked)


async def test_a_question_that_means_the_same_is_answered_again(store: Store) -> None:
    embedder = ByLetters()
    cache = AnswerCache(store.answers, SystemClock(), ttl_s=60, embedder=embedder)
    first = await cache.embedded(question_of("Which lake is deepest"), literal_text("Which lake is deepest"))
    await cache.put(first, literal_text("Baikal"))
    alike = await cache.embedded(question_of("Which is the deepest lake"), literal_text("Which is the deepest lake"))
    assert await cache.find(alike) == "Baikal"
    assert await cache.find(replace(alike, guard="other")) is None
    assert await cache.find(replace(alike, key=SessionKey("telegram", "2"))) is None
    unlike = await cache.embedded(question_of("Tell me of lakes"), literal_text("Tell me of lakes"))
    assert await cache.find(unlike) is None
    embedder.is_away = True
    unknown = question_of("Which lake")
    assert await cache.embedded(unknown, literal_text("Which lake")) == unknown


async def test_forgetting_is_of_one_owner(store: Store) -> None:
    cache = AnswerCache(store.answers, SystemClock(), ttl_s=60)
    await cache.put(question_of("a"), literal_text("mine"))
    await cache.put(replace(question_of("a"), key=SessionKey("telegram", "2")), literal_text("his"))
    await cache.forget(replace(ADA, place=("-100",)))
    assert await cache.find(question_of("a")) is None
    assert await cache.find(replace(question_of("a"), key=SessionKey("telegram", "2"))) == "his"


class Turned:
    """An embedder of two questions, with this cosine between them."""

    model = "turned"

    def __init__(self, cosine: float) -> None:
        self._cosine = cosine

    async def embed(self, _key: SessionKey, texts: Sequence[CleanText]) -> Sequence[Vector]:
        """The first question points to the right, all others away from it."""
        aside = (self._cosine, sqrt(1 - self._cosine**2))
        return [(1.0, 0.0) if text.startswith("Which") else aside for text in texts]


@pytest.mark.parametrize(("cosine", "answer"), [(0.951, "Baikal"), (0.949, None)])
async def test_questions_mean_the_same_from_a_cosine_of_95_percent_on(
    store: Store, cosine: float, answer: str | None
) -> None:
    cache = AnswerCache(store.answers, SystemClock(), ttl_s=60, embedder=Turned(cosine))
    first = await cache.embedded(question_of("Which lake is deepest"), literal_text("Which lake is deepest"))
    await cache.put(first, literal_text("Baikal"))
    other = await cache.embedded(question_of("The deepest lake"), literal_text("The deepest lake"))
    assert await cache.find(other) == answer
