"""Sub-agents as people and operators see them: the whole product, real processes, platforms behind real clients."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator
from typing import Any

import psutil
import pytest
import pytest_asyncio

from tests.parts.descendants import sub_agents_below
from tests.parts.product import Chat, Product, running_product
from tests.parts.waiting import until

pytestmark = pytest.mark.asyncio(loop_scope="module")

ANSWERED = "The sub-agents answered:"
WOKEN = "The sub-agents in the background have ended:"
_names = (f"Ada {number}" for number in itertools.count())


@pytest_asyncio.fixture(
    scope="module",
    loop_scope="module",
    params=["telegram", *(pytest.param(each, marks=pytest.mark.long) for each in ("discord", "slack"))],
)
async def product(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Product]:
    """One Trivet on one platform."""
    async with running_product(tmp_path_factory.mktemp("product"), platforms=(request.param,)) as running:
        yield running


@pytest.fixture
def ada(product: Product) -> Chat:
    """Somebody whom nobody has given any rights."""
    (platform,) = product.stages
    return product.chat(platform, next(_names))


def processes(product: Product) -> list[psutil.Process]:
    """Of all sub-agents."""
    assert product.process is not None
    return sub_agents_below(product.process.pid)


def key_of(chat: Chat) -> str:
    return f"{chat.platform}:{chat.person.id}"


async def board_of(product: Product, chat: Chat) -> list[dict[str, Any]]:
    """What the operator sees of one person's sub-agents, by their labels."""
    shown = await product.api("/api/v1/tasks")
    return sorted((task for task in shown if task["key"] == key_of(chat)), key=lambda task: str(task["label"]))


async def answered(chat: Chat, heading: str, *words: str) -> str:
    """The one answer under this heading, once it is there."""
    await chat.until_answered(heading)
    (answer,) = [said for said in chat.answers if heading in said]
    assert all(word in answer for word in words), answer
    return answer


async def test_a_job_is_split_over_three_and_answered_once(product: Product, ada: Chat) -> None:
    """The board has all three with what they cost, and the session has three children."""
    await ada.say("split say alpha | say beta | say gamma")
    await answered(ada, ANSWERED, "alpha", "beta", "gamma")
    tasks = await board_of(product, ada)
    assert [task["label"] for task in tasks] == ["say alpha", "say beta", "say gamma"]
    assert all(task["state"] == "completed" and task["tokens"] > 0 for task in tasks), tasks
    children = await product.api(f"/api/v1/sessions/{tasks[0]['parent_session_id']}/children")
    assert {child["id"] for child in children} == {task["session_id"] for task in tasks}


async def test_a_child_that_is_killed_is_explained(product: Product, ada: Chat) -> None:
    """`kill -9`, while its sister is done. Its line in the chat came without a sound, and is edited in place."""
    await ada.say("split slow 60 alpha | say beta")
    await until(lambda: "✓ explore: say beta" in ada.heard, lambda: ada.answers)
    (victim,) = processes(product)
    (doing,) = [task["doing"] for task in await board_of(product, ada) if task["state"] == "running"]
    assert doing == {"what": "model", "tools": [], "sub_agents": 0}
    victim.kill()
    await answered(ada, ANSWERED, "its process was killed by signal 9", "beta")
    done, killed = await board_of(product, ada)
    assert (killed["state"], killed["reason"]) == ("failed", "killed_by_signal_9")
    assert killed["tokens"] > 0, "the call that was cut off"
    assert killed["doing"] is None
    assert done["state"] == "completed"
    await until(lambda: "✗ explore: slow 60 alpha: killed by signal 9" in ada.heard, lambda: ada.answers)
    assert "⏳" not in ada.heard
    (line,) = [said for said in ada.stage.said(ada.place.id) if "✗" in said.text]
    assert line.edited
    assert line.silent is (ada.platform != "slack"), "Slack knows no silent messages"


async def test_a_stop_ends_them_all(product: Product, ada: Chat) -> None:
    """Nobody answers afterwards."""
    await ada.say("split slow 60 alpha | slow 60 beta | slow 60 gamma")
    await until(lambda: len(processes(product)) == 3)
    assert [task["state"] for task in await board_of(product, ada)] == ["running"] * 3
    await ada.say("/stop")
    await until(lambda: not processes(product))
    await ada.until_answered("Stopped. 3 sub-agents were ended.")
    await product.until_settled()
    assert [task["state"] for task in await board_of(product, ada)] == ["cancelled"] * 3
    assert ANSWERED not in ada.heard


async def test_in_the_background_they_come_back_by_themselves(product: Product, ada: Chat) -> None:
    """The turn ends without an answer; what they found is told once."""
    await ada.say("spawn say alpha | say beta")
    await answered(ada, WOKEN, "alpha", "beta")
    await product.until_settled()
    await answered(ada, WOKEN)
    assert {task["mode"] for task in await board_of(product, ada)} == {"background"}


@pytest.mark.long
async def test_who_may_only_read_has_sub_agents_that_only_read(product: Product, ada: Chat) -> None:
    """Whatever their type could do for others: the default policy is the ceiling of them all."""
    await ada.say('split general: tool file_write {"path": "a", "text": "b"} | general: tool file_list {}')
    answer = await answered(ada, ANSWERED, "The folder is empty")
    assert "there is no tool 'file_write'; there are: file_info, file_list" in answer.replace("\\_", "_")
