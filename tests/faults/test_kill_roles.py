"""kill -9 of any process, with conversations in flight: every message is answered once, in order.

What people wrote carries a word of its own, and the demo model repeats it; so an answer that is missing,
doubled or out of order shows in what the emulated platforms received.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import psutil
import pytest
import pytest_asyncio

from channels.emulators.serving import Emulator
from tests.parts.descendants import sub_agents_below
from tests.parts.product import PLATFORMS, VALKEY, Chat, Product, running_product
from tests.parts.waiting import PATIENCE_S, until

MID_TURN = 3  # of six chats: a platform that is still reconnecting after the test before may come later
pytestmark = [
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.timeout(300),
]  # processes start slowly on a busy machine
THINKING = {"TRIVET_AGENT__MODEL": "demo/scripted@800ms"}
SUB_AGENTS_ANSWERED = "The sub-agents answered:"
_words = (f"word{number}z" for number in itertools.count())


class Talk:
    """Some chats and what was said in each."""

    def __init__(self, chats: Sequence[Chat]) -> None:
        self._said: list[tuple[Chat, list[str]]] = [(chat, []) for chat in chats]

    async def go_on(self) -> None:
        """One more message in every chat."""
        for chat, words in self._said:
            words.append(next(_words))
            await chat.say(words[-1])

    async def until_answered(self) -> None:
        """Wait until every message has been answered somehow."""
        for chat, words in self._said:
            for word in words:
                await chat.until_answered(word)

    def assert_answered_once_and_in_order(self) -> None:
        """Each word stands once in the bot's answers, in the order in which they were said."""
        for chat, words in self._said:
            told = [line for line in chat.heard.split() if line.startswith("word") and line.endswith("z")]
            assert told == words, f"{chat.platform}: {chat.answers}"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def product(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Product]:
    """One Trivet on three platforms for all tests here, with a model that takes its time."""
    async with running_product(tmp_path_factory.mktemp("killed"), settings=THINKING) as running:
        yield running


@pytest.fixture
def talk(product: Product) -> Talk:
    """Two direct chats on each platform."""
    return Talk([product.chat(platform, name) for platform in PLATFORMS for name in ("Ann", "Ben")])


@pytest.mark.parametrize("role", ["agent", "channels", VALKEY])
async def test_a_killed_process_costs_no_message_and_doubles_no_answer(product: Product, talk: Talk, role: str) -> None:
    """Killed in the middle of turns, written to while it is away."""
    await talk.go_on()
    await product.until_running(MID_TURN)
    await talk.go_on()
    await product.kill(role)
    await talk.go_on()
    await talk.until_answered()
    await product.until_settled()
    await talk.go_on()
    await talk.until_answered()
    await product.until_settled()
    talk.assert_answered_once_and_in_order()


@pytest.mark.long
async def test_a_killed_agent_leaves_no_sub_agent_and_its_turn_is_taken_again(product: Product) -> None:
    """The board and the chat say that the first ones were lost; the answer is that of the second ones, and the only
    one."""
    ann = product.chat("telegram", "Ann")
    await ann.say("split slow 2 alpha | slow 2 beta | slow 2 gamma")
    (agent,) = product.processes()["agent"]
    await until(lambda: len(sub_agents_below(agent.pid)) == 3)
    orphans = sub_agents_below(agent.pid)
    await until(lambda: "⏳" in ann.heard)
    await product.kill("agent")
    _, alive = await asyncio.to_thread(psutil.wait_procs, orphans, timeout=PATIENCE_S)
    assert alive == []
    await ann.until_answered(SUB_AGENTS_ANSWERED)
    await product.until_settled()
    assert ann.heard.count(SUB_AGENTS_ANSWERED) == 1
    assert "its process was lost (" in ann.heard
    tasks = [task for task in await product.api("/api/v1/tasks") if task["key"] == f"telegram:{ann.person.id}"]
    ends = sorted((task["state"], task["reason"]) for task in tasks)
    assert ends == [("completed", "")] * 3 + [("failed", "worker_lost")] * 3


async def test_a_killed_supervisor_leaves_nobody_behind_and_its_successor_answers(product: Product, talk: Talk) -> None:
    """All children end with their parent, and a new Trivet on the same directory takes up what was left: strangers
    among them, who spoke for the first time while nobody was there."""
    await product.until_ready()  # which starts the admin role, too
    await talk.go_on()
    await product.until_running(MID_TURN)
    orphans = await product.kill_supervisor()
    assert len(orphans) == 4
    _, alive = await asyncio.to_thread(psutil.wait_procs, orphans, timeout=PATIENCE_S)
    assert alive == []
    await talk.go_on()
    strangers = Talk([product.chat(platform, "Eve") for platform in PLATFORMS])
    await strangers.go_on()
    await product.start()
    for each in (talk, strangers):
        await each.until_answered()
    await product.until_settled()
    for each in (talk, strangers):
        each.assert_answered_once_and_in_order()


@pytest.mark.asyncio(loop_scope="function")
@pytest.mark.long
async def test_one_process_with_all_roles_answers_once_whenever_it_is_killed(tmp_path: Path) -> None:
    """`trivet up --single`: killed in the middle of turns, written to while it is away, started by somebody else. Its
    admin role starts at the first request, and knows how much waited before."""
    async with running_product(tmp_path, settings=THINKING, arguments=["--single"]) as product:
        talk = Talk([product.chat(platform, name) for platform in PLATFORMS for name in ("Ann", "Ben")])
        for _ in range(2):
            await talk.go_on()
            await product.until_running(MID_TURN)
            (valkey,) = await product.kill_supervisor()
            await asyncio.to_thread(psutil.wait_procs, [valkey], timeout=PATIENCE_S)
            await talk.go_on()
            await product.start()
            await talk.until_answered()
            await product.until_settled()
        talk.assert_answered_once_and_in_order()
        assert await product.api("/api/v1/queue/past")


@pytest.mark.parametrize("platform", ["discord", "slack"])
@pytest.mark.long_on("discord", "telegram")
async def test_what_left_in_the_moment_of_the_kill_is_not_sent_again(product: Product, platform: str) -> None:
    """The ledger does not know yet that it arrived, but these platforms can be asked. Telegram cannot."""
    talk = Talk([product.chat(platform, name) for name in ("Cleo", "Dan")])
    (victim,) = product.processes()["channels"]
    killing = asyncio.create_task(kill_at_first_word(product.stages[platform], victim))
    await talk.go_on()
    await asyncio.wait_for(killing, PATIENCE_S)
    await talk.until_answered()
    await product.until_settled()
    talk.assert_answered_once_and_in_order()


async def kill_at_first_word(stage: Emulator, victim: psutil.Process) -> None:
    """SIGKILL as soon as the bot has said something, before the process can note that it has."""
    async for event in stage.events():
        if event.said is not None and event.said.author.is_bot:
            victim.kill()
            return
