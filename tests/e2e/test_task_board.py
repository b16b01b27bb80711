"""The task board in a real browser, in front of the operator's API on a real store."""

from __future__ import annotations

import asyncio
import contextlib
import re
import sqlite3
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import pytest
import pytest_asyncio
from playwright.async_api import Browser, BrowserContext, Locator, Page, expect
from starlette.types import ASGIApp, Receive, Scope, Send

from gateway.bus.embedded import EmbeddedValkey
from gateway.clock import SystemClock
from gateway.contracts.messages import CleanText
from gateway.contracts.sessions import Entry, Role, Session, ToolCall
from gateway.contracts.subagents import Doing, Occupation, SubTask, TaskEnding, TaskState
from gateway.store import Store
from tests.contract.subtask_samples import WORKER, asked, conversation, model_call
from tests.parts.browsing import CONTRAST, DESK, PHONE, browser
from tests.parts.desks import office, sign_in

__all__ = ["browser"]

pytestmark = pytest.mark.asyncio(loop_scope="module")

EVENTS = "/api/v1/tasks/events"


@dataclass
class Wire:
    """In front of the application: counts what is asked for, and cuts streams."""

    app: ASGIApp
    asked_for: list[str] = field(default_factory=list)
    streams: set[asyncio.Task[None]] = field(default_factory=set)
    whole: asyncio.Event = field(default_factory=asyncio.Event)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] != EVENTS:
            self.asked_for.append(scope.get("path", ""))
            await self.app(scope, receive, send)
            return
        await self.whole.wait()
        stream = asyncio.ensure_future(self.app(scope, receive, send))
        self.streams.add(stream)
        await asyncio.wait({stream})
        self.streams.discard(stream)

    def cut(self) -> None:
        """The streams there are end in the middle, and new ones are not answered until the wire is `whole`."""
        self.whole.clear()
        for stream in self.streams:
            stream.cancel()


@dataclass
class Dashboard:
    """A served board, and the store behind it."""

    url: str
    path: Path
    wire: Wire
    store: Store
    session: Session
    at_ms: int = field(default_factory=SystemClock().now_ms)

    async def opened(self, id_: str, parent: SubTask | None = None, *, label: str = "", turn_id: str = "") -> SubTask:
        """A task that waits."""
        self.at_ms += 1
        task = asked(parent or self.session, id_, turn_id=turn_id, at_ms=self.at_ms)
        if label:
            task = SubTask(**{**{name: getattr(task, name) for name in task.__slots__}, "label": CleanText(label)})
        return await self.store.tasks.open(task, wake=None)

    async def running(self, id_: str, parent: SubTask | None = None, **words: str) -> SubTask:
        """A task at work."""
        task = await self.opened(id_, parent, **words)
        now_ms = SystemClock().now_ms()
        assert await self.store.tasks.start(
            id_, worker_id=WORKER, alive_until_ms=now_ms + 60_000, now_ms=now_ms, live_max=9
        )
        return task

    async def over(self, id_: str, state: TaskState = TaskState.COMPLETED, *, reason: str = "") -> None:
        """It has ended, after 12 seconds' work by its own account."""
        ending = TaskEnding(state, SystemClock().now_ms(), CleanText(reason), CleanText("Found it."), "bubblewrap")
        assert await self.store.tasks.finish(id_, ending)

    async def one_of_each(self, parent: SubTask | None = None) -> None:
        """A task in each state, called like it."""
        for state in TaskState:
            await (self.opened if state is TaskState.QUEUED else self.running)(state.value, parent)
            if state.is_over:
                await self.over(state.value, state, reason="because")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def ground(
    valkey_server: EmbeddedValkey, sqlite_template: Path, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Dashboard]:
    """One served board for all tests of the module."""
    wires: list[Wire] = []

    def behind(app: ASGIApp) -> ASGIApp:
        wires.append(Wire(app))
        wires[0].whole.set()
        return wires[0]

    async with office(valkey_server, sqlite_template, tmp_path_factory.mktemp("board"), behind=behind) as served:
        yield Dashboard(served.url, served.path, wires[0], served.store, await conversation(served.store))


@pytest_asyncio.fixture(loop_scope="module")
async def dashboard(ground: Dashboard) -> Dashboard:
    """An empty board."""
    with contextlib.closing(sqlite3.connect(ground.path)) as database:
        database.execute("DELETE FROM sub_tasks")
        database.execute("DELETE FROM sessions WHERE parent_session_id IS NOT NULL")
        database.commit()
    ground.wire.whole.set()
    return ground


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def window(browser: Browser, ground: Dashboard) -> AsyncIterator[BrowserContext]:
    """A browser that is signed in."""
    context = await browser.new_context()
    await sign_in(context, ground.url)
    await context.new_page()  # which keeps the process alive that draws the others
    yield context
    await context.close()


@pytest_asyncio.fixture(loop_scope="module")
async def page(window: BrowserContext, dashboard: Dashboard) -> AsyncIterator[Page]:
    """The open page; anything it writes to the console as an error fails the test, but for streams that were cut."""
    complaints: list[str] = []
    page = await window.new_page()
    await page.set_viewport_size(DESK)
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("console", lambda message: complaints.append(message.text) if message.type == "error" else None)
    await page.goto(f"{dashboard.url}/tasks")
    await expect(page.locator("#connection")).to_have_text("Live")
    yield page
    await page.close()
    assert [each for each in complaints if "ERR_INCOMPLETE_CHUNKED_ENCODING" not in each] == []


def row(page: Page, id_: str) -> Locator:
    """The row of a task."""
    return page.locator(f'[data-id="{id_}"]')


class TestThePage:
    async def test_is_for_those_who_are_signed_in(self, browser: Browser, dashboard: Dashboard) -> None:
        async with httpx.AsyncClient(base_url=dashboard.url) as nobody:
            assert (await nobody.get("/tasks")).headers["location"] == "/login?next=%2Ftasks"

    async def test_says_when_there_is_nothing_to_see(self, page: Page, dashboard: Dashboard) -> None:
        await expect(page.get_by_text("No sub-agent has worked yet")).to_be_visible()
        await expect(page.get_by_role("table")).to_be_hidden()
        await expect(page).to_have_title("Tasks · Trivet")

    async def test_shows_what_happens_without_a_reload(self, page: Page, dashboard: Dashboard) -> None:
        """A task waits, runs for a while, costs something, and is over."""
        await dashboard.opened("k1")
        await expect(row(page, "k1").locator(".word")).to_have_text("waits")
        await expect(row(page, "k1").get_by_role("button")).to_have_text("label of k1")
        await expect(row(page, "k1").locator(".duration")).to_have_text("–")
        now_ms = SystemClock().now_ms()
        await dashboard.store.tasks.start(
            "k1", worker_id=WORKER, alive_until_ms=now_ms + 60_000, now_ms=now_ms - 70_000, live_max=9
        )
        await expect(row(page, "k1").locator(".word")).to_have_text("running")
        duration = row(page, "k1").locator(".duration")
        await expect(duration).to_have_text(re.compile(r"\d min \d+ s"))
        first_seen = await duration.inner_text()
        await expect(duration).not_to_have_text(first_seen)
        await dashboard.store.tasks.record(
            "k1", entries=(), usage=[model_call(dashboard.session.key, 2_900, 200, 0.0123)]
        )
        await expect(row(page, "k1").locator(".tokens")).to_have_text("3.1k")
        await expect(row(page, "k1").locator(".cost")).to_have_text("$0.0123")
        await dashboard.over("k1")
        await expect(row(page, "k1").locator(".word")).to_have_text("completed")
        await expect(page.locator("#types li")).to_contain_text("100 %")
        await expect(page.locator("#summary")).to_have_text("1 completed")

    @pytest.mark.long
    async def test_looks_every_few_seconds_while_the_stream_is_cut(self, page: Page, dashboard: Dashboard) -> None:
        """It says so, and says when all is well again; then it waits for events once more."""
        await page.clock.install()
        said = page.locator("#connection")
        dashboard.wire.cut()
        await expect(said).to_have_text("No live updates: looking every 3 seconds")
        for id_ in ("k1", "k2"):
            await dashboard.opened(id_)
            await page.clock.fast_forward(3_000)
            await expect(row(page, id_)).to_be_visible()
        dashboard.wire.whole.set()
        await expect(said).to_have_text("Live")
        looks = dashboard.wire.asked_for.count("/api/v1/tasks")
        await page.clock.fast_forward(60_000)
        assert dashboard.wire.asked_for.count("/api/v1/tasks") <= looks + 1
        await dashboard.running("k3")
        await expect(row(page, "k3").locator(".word")).to_have_text("running")

    @pytest.mark.long
    async def test_only_what_runs_pulses_and_nothing_where_motion_is_not_wanted(
        self, page: Page, dashboard: Dashboard
    ) -> None:
        await dashboard.one_of_each()
        await expect(page.locator(".task")).to_have_count(len(TaskState))
        await expect(page.locator(".task .word", has_text="waits")).to_have_count(1)  # the others have gone on
        await expect(page.locator(".task .word", has_text="running")).to_have_count(1)
        moving = "rows => rows.filter(row => getComputedStyle(row.querySelector('.dot')).animationName !== 'none'"
        moving += " && row.querySelector('.dot').checkVisibility()).map(row => row.dataset.id)"
        assert await page.locator(".task").evaluate_all(moving) == ["running"]
        await page.emulate_media(reduced_motion="reduce")
        assert await page.locator(".task").evaluate_all(moving) == []
        words = await page.locator(".task .word").all_text_contents()
        assert sorted(words) == ["cancelled", "completed", "failed", "running", "timed out", "waits"]

    @pytest.mark.long
    async def test_tells_whose_child_it_is_and_why_it_failed(self, page: Page, dashboard: Dashboard) -> None:
        parent = await dashboard.running("k1")
        await dashboard.running("k2", parent)
        await dashboard.over("k2", TaskState.FAILED, reason="killed_by_signal_9")
        nested = row(page, "k2")
        await expect(nested.locator(".reason")).to_have_text("its process was killed by signal 9")
        await expect(nested.locator(".nested")).to_have_text("⤷ Sub-agent of label of k1")
        await expect(row(page, "k1").locator(".nested")).to_be_hidden()
        await expect(row(page, "k1").locator(".reason")).to_be_hidden()

    @pytest.mark.long
    async def test_says_what_a_sub_agent_does_now(self, page: Page, dashboard: Dashboard) -> None:
        parent = await dashboard.running("k1")
        doing = row(page, "k1").locator(".doing")
        await expect(doing).to_be_hidden()
        for now, words in (
            (Doing(Occupation.MODEL), "asks its model"),
            (Doing(Occupation.TOOLS, ("file_read", "shell")), "runs file_read, shell"),
            (Doing(Occupation.TOOLS), "runs a tool"),
            (Doing(Occupation.APPROVAL, ("shell",)), "waits for approval of shell"),
            (Doing(Occupation.TOOLS, ("sub_agent",)), "runs sub_agent"),
        ):
            await dashboard.store.tasks.record("k1", entries=(), usage=(), doing=now)
            await expect(doing).to_have_text(words)
        await dashboard.running("k2", parent)
        await expect(doing).to_have_text("waits for 1 sub-agent")
        await dashboard.opened("k3", parent)
        await expect(doing).to_have_text("waits for 2 sub-agents")
        await dashboard.over("k1")
        await expect(doing).to_be_hidden()

    @pytest.mark.long
    async def test_shows_families_in_an_order_that_stays(self, page: Page, dashboard: Dashboard) -> None:
        """What one turn asked for stands together, each behind whom it works for; a family moves once, when the last of
        it is over."""
        first = await dashboard.running("a1")
        await dashboard.running("a2")
        other = await dashboard.running("b1", turn_id="another turn")
        await dashboard.running("a1x", first)
        rows = page.locator("#board tbody")

        async def shown(*wanted: str) -> None:
            read = "rows => rows.map(row => row.dataset.id ?? row.querySelector('.many').textContent)"
            await expect(rows).to_have_count(len(wanted))
            assert await rows.evaluate_all(read) == list(wanted)

        await shown("1 sub-agent", "b1", "3 sub-agents", "a1", "a1x", "a2")
        await dashboard.over("a1x", TaskState.FAILED)
        await dashboard.over("a1")
        await expect(page.locator(".family .stand").last).to_have_text("1 running · 1 completed · 1 failed")
        await shown("1 sub-agent", "b1", "3 sub-agents", "a1", "a1x", "a2")
        await dashboard.over(other.id)
        await expect(row(page, "b1").locator(".word")).to_have_text("completed")
        await shown("3 sub-agents", "a1", "a1x", "a2", "1 sub-agent", "b1")
        await expect(page.locator(".family .who").first).to_have_text(str(dashboard.session.key))

    async def test_a_row_opens_all_that_its_sub_agent_said(self, page: Page, dashboard: Dashboard) -> None:
        call = ToolCall("c1", "file_list", CleanText('{"path": "<b>"}'))
        task = await dashboard.running("k1")
        spoken = [
            Entry(Role.ASSISTANT, CleanText("I look."), tool_calls=(call,)),
            Entry(Role.TOOL, CleanText("no such folder"), tool_call_id="c1", is_error=True),
        ]
        await dashboard.store.tasks.record(task.id, entries=spoken, usage=())
        await row(page, "k1").get_by_role("button").click()
        await row(page, "k1").get_by_text("The whole conversation").click()
        said = row(page, "k1").locator(".talk li")
        await expect(said).to_contain_text(['I look.file_list {"path": "<b>"}', "no such folder"])
        await expect(said.locator(".speaker")).to_have_text(["explore", "Tool, an error"])
        await dashboard.store.tasks.record(
            task.id, entries=[Entry(Role.ASSISTANT, CleanText("Nothing here."))], usage=()
        )
        await dashboard.over("k1")
        await expect(said.last).to_contain_text("Nothing here.")

    async def test_what_models_write_stays_text(self, page: Page, dashboard: Dashboard) -> None:
        attack = "<img src=x onerror=\"document.title='owned'\">"
        await dashboard.running("k1", label=attack)
        await expect(row(page, "k1").get_by_role("button")).to_have_text(attack)
        await expect(page.locator("img")).to_have_count(0)
        await expect(page).to_have_title("Tasks · Trivet")

    async def test_can_be_read_and_opened_with_the_keyboard_alone(self, page: Page, dashboard: Dashboard) -> None:
        """What a task was asked and what it answered shows below it, and stays there while others come."""
        await dashboard.running("k1")
        await dashboard.over("k1")
        button = row(page, "k1").get_by_role("button", name="label of k1", expanded=False)
        await expect(button).to_be_visible()
        names = []
        while "label of k1" not in names:
            await page.keyboard.press("Tab")
            names.append(await page.evaluate("document.activeElement.textContent"))
        assert names[:3] == ["Skip to the content", "Overview", "Conversations"]
        assert len(names) == len(set(names)) == 17
        await page.keyboard.press("Enter")
        await expect(row(page, "k1").locator(".prompt")).to_have_text("prompt of k1")
        await expect(row(page, "k1").locator(".result")).to_have_text("Found it.")
        await dashboard.running("k2")
        await expect(row(page, "k2")).to_be_visible()
        await expect(row(page, "k1").get_by_role("button", expanded=True)).to_be_focused()
        await expect(row(page, "k1").locator(".result")).to_be_visible()

    @pytest.mark.parametrize("size", [DESK, PHONE], ids=["dashboard", "phone"])
    async def test_is_a_table_to_those_who_do_not_see_it(
        self, page: Page, dashboard: Dashboard, size: dict[str, int]
    ) -> None:
        """On a phone, too, where it looks like cards; and nothing there is wider than the screen."""
        await page.set_viewport_size({"width": size["width"], "height": size["height"]})
        await dashboard.running("k1", label="a-label-without-any-space-" * 3)
        board = page.get_by_role("table", name="Task board")
        await expect(board.get_by_role("rowheader")).to_have_count(2)
        await expect(board.get_by_role("cell")).to_have_count(5 if size is PHONE else 8)
        await expect(page.get_by_role("columnheader", name="Status")).to_have_count(1)
        await expect(
            page.get_by_role("navigation", name="Pages").get_by_role("link", name="Sub-agents")
        ).to_have_attribute("aria-current", "page")
        await expect(page.get_by_role("main")).to_be_visible()
        await expect(page.get_by_role("heading", level=1)).to_have_text("Sub-agents")
        assert await page.evaluate("document.documentElement.scrollWidth") <= size["width"]

    @pytest.mark.parametrize("scheme", ["light", "dark"])
    @pytest.mark.long_on("light")
    async def test_every_word_can_be_read_in_both_schemes(self, page: Page, dashboard: Dashboard, scheme: str) -> None:
        """Text contrasts with what is behind it by at least 4.5 to 1."""
        await page.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
        await dashboard.one_of_each(await dashboard.running("parent"))
        await dashboard.store.tasks.record("running", entries=(), usage=(), doing=Doing(Occupation.MODEL))
        await expect(row(page, "running").locator(".doing")).to_be_visible()
        await expect(page.locator(".task")).to_have_count(len(TaskState) + 1)
        seen = page.locator(
            ".status, .type, .label, .nested:not([hidden]), .reason:not([hidden]), .family th, .number, .faint"
        )
        seen = seen.or_(page.locator("thead th, #connection, #summary, .top a, .brand small, .rate"))
        for element in await seen.element_handles():
            if await element.is_visible():
                assert await element.evaluate(CONTRAST) >= 4.5, await element.text_content()
