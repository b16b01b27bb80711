"""The titler on both databases: what it asks, how often, and what it leaves behind."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from agent.features.titles import Titler
from agent.models.demo import ScriptedClient
from agent.models.requests import ModelAnswer, ModelEvent, ModelFacts, ModelRequest, TokenCount, always
from agent.models.selection import Models
from gateway.clock import SystemClock
from gateway.config import Settings
from gateway.config.settings import AgentSettings
from gateway.contracts.errors import BusUnavailable, ModelRejected, ModelUnavailable
from gateway.contracts.ids import ReplyAddress
from gateway.contracts.messages import CleanText, Reply, ReplyKind
from gateway.contracts.sessions import UNTITLED, Role, Session, SetTitle, UsagePurpose
from gateway.scrub import Scrubber
from gateway.store import Store
from tests.contract.store_samples import ANN, talk
from tests.parts.effects import apply_effects
from tests.parts.waiting import until


class Namer(ScriptedClient):
    """Answers with `answer`, or fails with it; `asked` are the calls."""

    def __init__(
        self, answer: str | Exception = "Trip to Rome", *, is_reasoning: bool = False, finish: str = "stop"
    ) -> None:
        self.answer = answer
        self.finish = finish
        self.is_reasoning = is_reasoning
        self.asked: list[ModelRequest] = []
        self.gate: asyncio.Event | None = None

    def facts(self, model: str) -> ModelFacts:
        return ModelFacts(context_window=8_000, is_reasoning=self.is_reasoning)

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        self.asked.append(request)
        if self.gate is not None:
            await self.gate.wait()
        if isinstance(self.answer, Exception):
            raise self.answer
        yield ModelAnswer(self.answer, (), self.finish, TokenCount(9, 3), 0.5, request.model)


async def nobody(_: Sequence[Reply]) -> None:
    """Who listens to no title."""


def titler(
    store: Store,
    client: Namer,
    tmp_path: Path,
    publish: Callable[[Sequence[Reply]], Awaitable[None]] = nobody,
    *,
    is_for_all: bool = True,
) -> Titler:
    settings = Settings(data_dir=tmp_path, agent=AgentSettings(model="demo/scripted", utility_model="demo/scripted"))
    models = Models(client, settings)
    return Titler(client, models, store, Scrubber(), SystemClock(), publish, is_for_all=is_for_all)


async def now(store: Store) -> Session:
    session = await store.sessions.current(ANN)
    assert session is not None
    return session


@pytest.mark.parametrize(("is_reasoning", "tokens_max"), [(False, 32), (True, 512)])
async def test_it_is_asked_with_the_first_words_and_nothing_else(
    store: Store, tmp_path: Path, is_reasoning: bool, tokens_max: int
) -> None:
    client = Namer(is_reasoning=is_reasoning)
    before = await talk(store, ANN, "x" * 3_000, number=1)
    await titler(store, client, tmp_path).title(await now(store), turn_id="turn", permit=always)
    (request,) = client.asked
    assert [(message.role, message.text) for message in request.messages] == [(Role.USER, "x" * 2_000)]
    assert (request.purpose, request.key, request.tools) == (UsagePurpose.TITLE, ANN, ())
    assert (request.completion_tokens_max, request.temperature, request.timeout_s) == (tokens_max, 0.3, 15.0)
    assert ((await now(store)).title, (await now(store)).cost_usd) == ("Trip to Rome", before.cost_usd + 0.5)


async def test_a_later_turn_tries_again_with_the_words_of_the_first(store: Store, tmp_path: Path) -> None:
    client = Namer("...")
    await talk(store, ANN, "plan a trip", number=1)
    await titler(store, client, tmp_path).title(await now(store), turn_id="turn", permit=always)
    assert (await now(store)).title == UNTITLED
    client.answer = "Trip"
    await talk(store, ANN, "and then?", number=2)
    await titler(store, client, tmp_path).title(await now(store), turn_id="turn", permit=always)
    assert (await now(store)).title == "Trip"
    assert [request.messages[0].text for request in client.asked] == ["plan a trip", "plan a trip"]
    await titler(store, client, tmp_path).title(await now(store), turn_id="turn", permit=always)
    assert len(client.asked) == 2


@pytest.mark.parametrize("answer", [ModelUnavailable("busy"), ModelRejected("no"), "", "<think>hm", "New Chat"])
async def test_after_three_tries_it_gives_up_without_a_word_to_the_user(
    store: Store, tmp_path: Path, answer: str | Exception
) -> None:
    """A failure is a warning in the log; the sentinel stays, so that the user's own title still can come."""
    client = Namer(answer)
    await talk(store, ANN, "hello", number=1)
    with capture_logs() as logs:
        for _ in range(5):
            await titler(store, client, tmp_path).title(await now(store), turn_id="turn", permit=always)
    assert len(client.asked) == 3
    assert (await now(store)).title == UNTITLED
    assert all(line["log_level"] == "warning" for line in logs if line["event"] == "title.failed")


@pytest.mark.parametrize(
    ("answer", "finish", "title"),
    [
        ("Trip to Ro", "length", UNTITLED),
        ("Trip to Rome\nThis is a ti", "length", "Trip to Rome"),
        ("I cannot", "content_filter", UNTITLED),
    ],
)
async def test_half_a_line_is_no_title(
    sqlite_store: Store, tmp_path: Path, answer: str, finish: str, title: str
) -> None:
    await talk(sqlite_store, ANN, "plan a trip", number=1)
    client = Namer(answer, finish=finish)
    await titler(sqlite_store, client, tmp_path).title(await now(sqlite_store), turn_id="turn", permit=always)
    assert (await now(sqlite_store)).title == title


async def test_two_workers_never_pay_for_the_same_title(store: Store, tmp_path: Path) -> None:
    """The second begins while the first still waits for its model, and knows of the first's try."""
    client = Namer()
    client.gate = asyncio.Event()
    await talk(store, ANN, "hello", number=1)
    first = asyncio.create_task(titler(store, client, tmp_path).title(await now(store), turn_id="turn", permit=always))
    await until(lambda: client.asked)
    await titler(store, client, tmp_path).title(await now(store), turn_id="turn", permit=always)
    client.gate.set()
    await first
    assert len(client.asked) == 1
    assert ((await now(store)).title, (await now(store)).title_tries) == ("Trip to Rome", 1)


async def test_a_title_that_the_user_gave_meanwhile_stays(store: Store, tmp_path: Path) -> None:
    client = Namer()
    client.gate = asyncio.Event()
    await talk(store, ANN, "hello", number=1)
    making = asyncio.create_task(titler(store, client, tmp_path).title(await now(store), turn_id="turn", permit=always))
    await until(lambda: client.asked)
    await apply_effects(store, ANN, [SetTitle(CleanText("Mine"))], now_ms=5_000)
    client.gate.set()
    await making
    assert (await now(store)).title == "Mine"


async def test_the_time_limit_holds_over_all_attempts(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agent.limits.TITLE_TIMEOUT_S", 0.05)
    client = Namer()
    client.gate = asyncio.Event()
    await talk(store, ANN, "hello", number=1)
    await titler(store, client, tmp_path).title(await now(store), turn_id="turn", permit=always)
    assert (await now(store)).title == UNTITLED


HERE = ReplyAddress("discord", "lane", "{}")


async def test_the_place_of_the_conversation_is_told_of_its_title(store: Store, tmp_path: Path) -> None:
    """In the outbox by the same commit, so that a crash between the two loses nothing; published at once; read by
    nobody, so that no list of deliveries shows it."""
    told: list[Reply] = []

    async def publish(replies: Sequence[Reply]) -> None:
        told.extend(replies)

    await talk(store, ANN, "plan a trip", number=1)
    naming = titler(store, Namer(), tmp_path, publish)
    await naming.title(await now(store), turn_id="turn", permit=always, address=HERE)
    (reply,) = told
    assert (reply.kind, reply.title, reply.text) == (ReplyKind.TITLE, "Trip to Rome", "")
    assert (reply.key, reply.address, reply.turn_id) == (ANN, HERE, "turn")
    assert reply in await store.outbox.take_stale(after_ms=0, limit=9)
    assert reply.id not in {row.reply_id for row in await store.outbox.recent(ANN, limit=9)}


async def test_where_titles_are_off_only_a_place_that_shows_one_costs_a_call(store: Store, tmp_path: Path) -> None:
    client = Namer()
    thrifty = titler(store, client, tmp_path, is_for_all=False)
    session = await talk(store, ANN, "hello", number=1)
    await thrifty.title(session, turn_id="turn", permit=always)
    assert client.asked == []
    await thrifty.title(session, turn_id="turn", permit=always, address=ReplyAddress("slack", "a thread", "{}"))
    assert [request.purpose for request in client.asked] == [UsagePurpose.TITLE]


async def test_a_bus_that_is_away_leaves_the_title_to_the_relay(store: Store, tmp_path: Path) -> None:
    async def publish(_: Sequence[Reply]) -> None:
        raise BusUnavailable("away")

    await talk(store, ANN, "plan a trip", number=1)
    naming = titler(store, Namer(), tmp_path, publish)
    await naming.title(await now(store), turn_id="turn", permit=always, address=HERE)
    waiting = await store.outbox.take_stale(after_ms=0, limit=9)
    assert [reply.title for reply in waiting if reply.kind is ReplyKind.TITLE] == ["Trip to Rome"]


async def test_nobody_is_told_of_a_title_that_came_too_late(store: Store, tmp_path: Path) -> None:
    """The user was faster: his own title has been told of already."""
    client, told = Namer(), list[Reply]()
    client.gate = asyncio.Event()

    async def publish(replies: Sequence[Reply]) -> None:
        told.extend(replies)

    await talk(store, ANN, "hello", number=1)
    naming = titler(store, client, tmp_path, publish)
    making = asyncio.create_task(naming.title(await now(store), turn_id="turn", permit=always, address=HERE))
    await until(lambda: client.asked)
    await apply_effects(store, ANN, [SetTitle(CleanText("Mine"))], now_ms=5_000)
    client.gate.set()
    await making
    assert told == []
    assert ReplyKind.TITLE not in {reply.kind for reply in await store.outbox.take_stale(after_ms=0, limit=9)}
