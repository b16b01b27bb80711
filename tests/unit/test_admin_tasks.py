"""The task board over HTTP: who may read it, what it says, how its changes are told."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace

import httpx
import pytest

from channels.emulators.serving import listening
from gateway.bus.bus import RedisBus
from gateway.contracts.errors import StoreUnavailable
from gateway.contracts.messages import CleanText
from gateway.contracts.subagents import Doing, Occupation, TaskState
from gateway.ops.admin.app import Parts, create_app
from gateway.ops.admin.tasks import LISTENERS_MAX, BoardFeed, TooManyListeners
from gateway.scrub import Scrubber
from gateway.store import Store
from gateway.store.subagents import TaskStore
from tests.contract.store_samples import BOB
from tests.contract.subtask_samples import asked, conversation, ending, model_call, opened, started
from tests.doubles import ManualClock
from tests.parts.keepers import keeper_of
from tests.parts.operator_api import HEADERS, TOKEN
from tests.parts.waiting import PATIENCE_S

CLOCK = ManualClock(at_ms=20_000)


def parts_of(store: Store, bus: RedisBus) -> Parts:
    return Parts(
        store=store,
        figures=bus.operator,
        lanes=bus.lanes,
        intake=bus.intake,
        deliveries=bus.deliveries,
        keeper=keeper_of(store, bus),
        vault=bus.vault,
        scrubber=Scrubber(known_values=["hunter2hunter2"]),
        client_key="the-key-of-clients",
        clock=CLOCK,
        channels=("telegram",),
        version="0.1.0",
        hosts=("admin",),
    )


@pytest.fixture
async def admin(sqlite_store: Store, bus: RedisBus) -> AsyncIterator[httpx.AsyncClient]:
    """The API with the operator's token."""
    transport = httpx.ASGITransport(app=create_app(parts_of(sqlite_store, bus), TOKEN))
    async with httpx.AsyncClient(transport=transport, base_url="http://admin", headers=HEADERS) as client:
        yield client


class TestTheBoard:
    async def test_shows_each_task_with_all_that_is_known_of_it(
        self, admin: httpx.AsyncClient, sqlite_store: Store
    ) -> None:
        """Live ones first; of one that runs the duration so far."""
        ann = await conversation(sqlite_store)
        first, _ = await opened(sqlite_store, ann, "k1", "k2")
        await sqlite_store.tasks.open(asked(first, "k3", at_ms=10_500), wake=None)
        assert await started(sqlite_store, "k1", at_ms=11_000)
        await sqlite_store.tasks.record("k1", entries=(), usage=[model_call(ann.key, 30, 12, 0.25)])
        assert await started(sqlite_store, "k2", at_ms=11_000)
        await sqlite_store.tasks.finish("k2", ending(TaskState.FAILED, at_ms=12_500))
        rows = (await admin.get("/api/v1/tasks")).json()
        assert [(row["id"], row["state"]) for row in rows] == [("k3", "queued"), ("k1", "running"), ("k2", "failed")]
        assert rows[1] == {
            "id": "k1",
            "state": "running",
            "type": "explore",
            "label": "label of k1",
            "mode": "inline",
            "depth": 1,
            "key": str(ann.key),
            "session_id": "s-k1",
            "parent_session_id": ann.id,
            "parent_task_id": None,
            "turn_id": first.turn_id,
            "created_at": "1970-01-01T00:00:10Z",
            "started_at": "1970-01-01T00:00:11Z",
            "finished_at": None,
            "duration_ms": 9_000,
            "tokens": 42,
            "cost": 0.25,
            "reason": "",
            "why": "",
            "confinement": "",
            "worker": "worker-1",
            "doing": None,
        }
        assert (rows[0]["depth"], rows[0]["parent_task_id"], rows[0]["duration_ms"]) == (2, "k1", 0)
        assert (rows[2]["duration_ms"], rows[2]["reason"], rows[2]["confinement"]) == (1_500, "because", "bubblewrap")

    @pytest.mark.parametrize(
        ("doing", "shown"),
        [
            (Doing(Occupation.MODEL), ("model", [], 2)),
            (Doing(Occupation.TOOLS, ("file_read", "shell")), ("tools", ["file_read", "shell"], 2)),
            (Doing(Occupation.TOOLS, ("sub_agent", "shell")), ("sub_agents", ["sub_agent", "shell"], 2)),
            (Doing(Occupation.APPROVAL, ("shell",)), ("approval", ["shell"], 2)),
        ],
    )
    async def test_says_what_a_sub_agent_does_now(
        self, admin: httpx.AsyncClient, sqlite_store: Store, doing: Doing, shown: tuple[str, list[str], int]
    ) -> None:
        """In lists, alone and in trees; whoever runs a tool that sends out others waits for those that live, whatever
        part of the board is asked for."""
        ann = await conversation(sqlite_store)
        (first,) = await opened(sqlite_store, ann, "k1")
        assert await started(sqlite_store, "k1")
        await opened(sqlite_store, first, "k2", "k3", "k4")
        await sqlite_store.tasks.finish("k4", ending())
        await sqlite_store.tasks.record("k1", entries=(), usage=(), doing=doing)
        said = dict(zip(("what", "tools", "sub_agents"), shown, strict=True))
        (row,) = (await admin.get("/api/v1/tasks", params={"state": "running"})).json()
        assert row["doing"] == said
        assert (await admin.get("/api/v1/tasks/k1")).json()["doing"] == said
        assert (await admin.get(f"/api/v1/sessions/{ann.id}/tree")).json()["children"][0]["task"]["doing"] == said
        await sqlite_store.tasks.finish("k1", ending())
        assert (await admin.get("/api/v1/tasks/k1")).json()["doing"] is None

    async def test_whoever_sends_out_others_runs_a_tool_until_one_lives(
        self, admin: httpx.AsyncClient, sqlite_store: Store
    ) -> None:
        await opened(sqlite_store, await conversation(sqlite_store), "k1")
        assert await started(sqlite_store, "k1")
        doing = Doing(Occupation.TOOLS, ("sub_agent",))
        await sqlite_store.tasks.record("k1", entries=(), usage=(), doing=doing)
        shown = (await admin.get("/api/v1/tasks/k1")).json()["doing"]
        assert shown == {"what": "tools", "tools": ["sub_agent"], "sub_agents": 0}

    @pytest.mark.parametrize(
        ("reason", "why"), [("threads_over_64", "it started more than 64 threads"), ("eaten_by_mice", "eaten by mice")]
    )
    async def test_tells_in_words_why_one_did_not_complete(
        self, admin: httpx.AsyncClient, sqlite_store: Store, reason: str, why: str
    ) -> None:
        """Beside the code, for programs; one of another release reads as it is."""
        await opened(sqlite_store, await conversation(sqlite_store), "k1")
        assert await started(sqlite_store, "k1")
        await sqlite_store.tasks.finish("k1", replace(ending(TaskState.FAILED), reason=CleanText(reason)))
        [row] = (await admin.get("/api/v1/tasks")).json()
        assert (row["reason"], row["why"]) == (reason, why)

    async def test_can_be_narrowed(self, admin: httpx.AsyncClient, sqlite_store: Store) -> None:
        ann, ben = await conversation(sqlite_store), await conversation(sqlite_store, BOB)
        await opened(sqlite_store, ann, "k1", "k2")
        await sqlite_store.tasks.open(asked(ben, "k3", sub_type="code"), wake=None)
        assert await started(sqlite_store, "k1")

        async def ids(**query: str) -> set[str]:
            return {row["id"] for row in (await admin.get("/api/v1/tasks", params=query)).json()}

        assert await ids() == {"k1", "k2", "k3"}
        assert await ids(state="running") == {"k1"}
        assert await ids(type="code") == {"k3"}
        assert await ids(session=ann.id) == {"k1", "k2"}
        assert await ids(session="s-k3") == {"k3"}
        assert await ids(session=ann.id, state="queued") == {"k2"}
        assert len(await ids(limit="1")) == 1
        assert (await admin.get("/api/v1/tasks", params={"state": "asleep"})).status_code == 422
        assert (await admin.get("/api/v1/tasks", params={"limit": "0"})).status_code == 422

    async def test_one_task_comes_with_all_that_was_said(self, admin: httpx.AsyncClient, sqlite_store: Store) -> None:
        """Scrubbed once more on its way out, by what is known now."""
        ann = await conversation(sqlite_store)
        whole = replace(asked(ann), prompt=CleanText("log in with hunter2hunter2 " + "a" * 5_000))
        await sqlite_store.tasks.open(whole, wake=None)
        assert await started(sqlite_store, "k1")
        await sqlite_store.tasks.finish("k1", ending(result="b" * 6_000))
        shown = (await admin.get("/api/v1/tasks/k1")).json()
        assert shown["result"] == "b" * 6_000
        assert len(shown["prompt"]) > 5_000
        assert "hunter2hunter2" not in shown["prompt"]
        assert (await admin.get("/api/v1/tasks/k9")).status_code == 404

    async def test_each_type_has_its_record(self, admin: httpx.AsyncClient, sqlite_store: Store) -> None:
        ann = await conversation(sqlite_store)
        for id_, state in zip(
            "abcde", (*[TaskState.COMPLETED] * 3, TaskState.TIMED_OUT, TaskState.CANCELLED), strict=True
        ):
            await opened(sqlite_store, ann, id_)
            assert await started(sqlite_store, id_)
            await sqlite_store.tasks.finish(id_, ending(state))
        await sqlite_store.tasks.open(asked(ann, "z", sub_type="writer"), wake=None)
        explore, writer = (await admin.get("/api/v1/tasks/types")).json()
        assert explore == {
            "type": "explore",
            "running": 0,
            "completed": 3,
            "failed": 0,
            "cancelled": 1,
            "timed_out": 1,
            "success_rate": 0.75,
        }
        assert (writer["type"], writer["running"], writer["success_rate"]) == ("writer", 1, None)


class TestEvents:
    @pytest.fixture
    async def served(self, sqlite_store: Store, bus: RedisBus) -> AsyncIterator[tuple[httpx.AsyncClient, Parts]]:
        """The API on a socket: a stream is no stream without one."""
        parts = parts_of(sqlite_store, bus)
        async with listening(create_app(parts, TOKEN)) as port:
            async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", headers=HEADERS, timeout=30) as client:
                yield client, parts
            parts.stopping.set()

    async def test_tell_the_revision_at_once_and_whenever_it_changes(
        self, served: tuple[httpx.AsyncClient, Parts], sqlite_store: Store
    ) -> None:
        client, _ = served
        ann = await conversation(sqlite_store)
        revision = await sqlite_store.tasks.revision()
        async with client.stream("GET", "/api/v1/tasks/events") as stream:
            assert stream.headers["content-type"].startswith("text/event-stream")
            assert stream.headers["cache-control"] == "no-cache"
            lines = stream.aiter_lines()
            said = [await anext(lines) for _ in range(6)]
            assert said == [
                "retry: 2000",
                "",
                "event: board",
                f'data: {{"revision":{revision}}}',
                f"id: {revision}",
                "",
            ]
            await opened(sqlite_store, ann, "k1")
            event, data, id_, _ = [await anext(lines) for _ in range(4)]
        assert (event, id_) == ("event: board", f"id: {revision + 1}")
        assert data == f'data: {{"revision":{revision + 1}}}'

    async def test_who_comes_back_hears_of_what_was_missed_and_of_nothing_else(
        self, served: tuple[httpx.AsyncClient, Parts], sqlite_store: Store
    ) -> None:
        client, parts = served
        await opened(sqlite_store, await conversation(sqlite_store), "k1")
        revision = await sqlite_store.tasks.revision()
        heard: list[list[str]] = []
        for known in (str(revision - 1), str(revision), "9" * 5_000):
            async with client.stream("GET", "/api/v1/tasks/events", headers={"Last-Event-ID": known}) as stream:
                lines = stream.aiter_lines()
                heard.append([await anext(lines), await anext(lines)])
                if known == str(revision):
                    assert await sqlite_store.tasks.start(
                        "k1", worker_id="w", alive_until_ms=99_000, now_ms=11_000, live_max=9
                    )
                heard[-1] += [await anext(lines) for _ in range(3)]
        assert [lines[-1] for lines in heard] == [f"id: {revision}", f"id: {revision + 1}", f"id: {revision + 1}"]
        assert not parts.stopping.is_set()

    async def test_there_is_an_end_to_how_many_may_listen(
        self, served: tuple[httpx.AsyncClient, Parts], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Whoever leaves makes room."""
        client, _ = served
        monkeypatch.setattr("gateway.ops.admin.tasks.LISTENERS_MAX", 1)
        async with client.stream("GET", "/api/v1/tasks/events") as stream:
            lines = stream.aiter_lines()  # held: one that nobody holds hangs up
            await anext(lines)
            refused = await client.get("/api/v1/tasks/events")
            assert (refused.status_code, refused.headers["retry-after"]) == (503, "15")
        async with asyncio.timeout(PATIENCE_S):
            while True:
                async with client.stream("GET", "/api/v1/tasks/events") as stream:
                    if stream.status_code == 200:
                        break


@dataclass
class CountedBook:
    """A board whose revision is told, and how often it was asked for. `is_away`: nobody tells it."""

    at: int = 1
    asked: int = 0
    is_away: bool = False

    async def revision(self) -> int:
        self.asked += 1
        if self.is_away:
            raise StoreUnavailable("away")
        return self.at


class TestTheFeed:
    @pytest.fixture
    def book(self) -> CountedBook:
        return CountedBook()

    @pytest.fixture
    def stopping(self) -> asyncio.Event:
        return asyncio.Event()

    @pytest.fixture
    def feed(self, book: CountedBook, stopping: asyncio.Event) -> BoardFeed:
        known: TaskStore = book  # type: ignore[assignment]  # one question of all
        return BoardFeed(known, stopping, look_every_s=0.001)

    async def test_all_listeners_are_answered_by_one_look(self, feed: BoardFeed, book: CountedBook) -> None:
        """And there are not more of them than may be; when the last is gone nobody looks any more."""
        async with contextlib.AsyncExitStack() as seats:
            for _ in range(LISTENERS_MAX):
                await seats.enter_async_context(feed.seat())
            with pytest.raises(TooManyListeners):
                await seats.enter_async_context(feed.seat())
            asked = book.asked
            streams = [feed.revisions(None) for _ in range(LISTENERS_MAX)]
            assert [await anext(stream) for stream in streams] == [1] * LISTENERS_MAX
            book.at = 2
            assert await asyncio.gather(*map(anext, streams)) == [2] * LISTENERS_MAX
            assert book.asked <= asked + LISTENERS_MAX / 2
        asked = book.asked
        await asyncio.sleep(0.01)
        assert book.asked == asked

    async def test_nobody_looks_while_nobody_listens(self, feed: BoardFeed, book: CountedBook) -> None:
        await asyncio.sleep(0.01)
        assert book.asked == 0

    async def test_streams_end_when_the_process_stops(
        self, feed: BoardFeed, book: CountedBook, stopping: asyncio.Event
    ) -> None:
        async with feed.seat():
            heard = []
            async for revision in feed.revisions(None):
                heard.append(revision)
                stopping.set()
        assert heard == [1]

    async def test_streams_end_while_sql_is_away_and_begin_again_afterwards(
        self, feed: BoardFeed, book: CountedBook
    ) -> None:
        async with feed.seat():
            async for _ in feed.revisions(None):
                book.is_away = True
            with contextlib.suppress(StoreUnavailable):
                async with feed.seat():
                    pytest.fail("somebody listens to nothing")
            book.is_away, book.at = False, 7
            async with feed.seat():
                assert await anext(feed.revisions(1)) == 7
