"""What a child's process is given: its order, as it goes to the supervisor. Nothing else ever reaches it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

import pytest

from agent.models.client import ModelClient
from agent.models.demo import ScriptedClient
from agent.prompts.library import PROMPTS
from agent.subagents.parent import ChildRunner, ParentServices
from agent.subagents.protocol import ChildMessage, InitFrame, ProcessLimits
from agent.subagents.runs import SubagentRun, SubOrder
from agent.subagents.supervisor import ChildEnding, ChildOrder, Host
from agent.tools.files.workspace import Workspaces
from agent.tools.policy import Permission, Policy, PolicyLine, Risk
from agent.tools.registry import ToolRegistry
from gateway.clock import SystemClock
from gateway.contracts.messages import literal_text
from gateway.contracts.profiles import FILES, READING
from gateway.scrub import Scrubber
from gateway.store import Store
from tests.parts.scripted_children import ending, scripted_children
from tests.parts.sub_types import CATALOG
from tests.parts.tooling import OPEN, registry, tool

READ_ONLY: Final = ("explore", "plan", "security", "architect", "reviewer", "research")
WRITES_WHEN_ASKED: Final = Policy((PolicyLine(Risk.WRITE.value, Permission.ASK),))
ELSEWHERE: Final = ("shell", "code_exec", "web_search", "web_fetch", "browser", "db_query")
FIELDS_OF_A_CHILD: Final = {
    *("task_id", "workspace", "rounds_max", "limits", "confinement", "protocol"),
    *("sub_type", "system", "messages", "tools", "wrap_up"),
}


class Desk:
    """A supervisor that starts nothing and remembers the orders."""

    def __init__(self) -> None:
        self.orders: list[ChildOrder] = []

    async def run(self, order: ChildOrder, _host: Host) -> ChildEnding:
        self.orders.append(order)
        return ending("done")


def everything(policy: Policy) -> ToolRegistry:
    """The file tools, by name, and one of each other kind."""
    files = (tool(name, risk=Risk.READ if name in READING else Risk.WRITE) for name in FILES)
    return registry(*files, *(tool(name, risk=Risk.EXECUTE) for name in ELSEWHERE), policy=policy)


async def order_of(store: Store, folder: Path, sub_type: str, policy: Policy = OPEN) -> ChildOrder:
    """What goes to the supervisor for a child of this type."""
    desk, workspaces = Desk(), Workspaces(folder)
    tools = everything(policy)

    async def act(run: SubagentRun) -> str:
        services = ParentServices(ModelClient(ScriptedClient()), tools, Scrubber(), SystemClock())
        await ChildRunner(services, desk.run, workspaces).carry_out(run)
        return "done"

    async with scripted_children(store, act) as made:
        await made.agents.delegate(made.context, SubOrder(sub_type, literal_text("look around")))
    (order,) = desk.orders
    return order


def by_place(init: InitFrame) -> Mapping[bool, set[str]]:
    """The names of its tools, by whether it runs them itself."""
    return {here: {offered.name for offered in init.tools if offered.runs_here is here} for here in (True, False)}


@pytest.mark.parametrize("sub_type", READ_ONLY)
async def test_one_that_reads_may_not_write_into_its_home_whatever_the_policy_allows(
    sqlite_store: Store, tmp_path: Path, sub_type: str
) -> None:
    order = await order_of(sqlite_store, tmp_path, sub_type)
    assert order.home is not None
    assert not order.writes
    assert by_place(order.init)[True] == set(READING) & set(CATALOG[sub_type].tools or ())


async def test_one_that_writes_runs_its_file_tools_itself_and_nothing_else(sqlite_store: Store, tmp_path: Path) -> None:
    order = await order_of(sqlite_store, tmp_path, "code")
    assert order.writes
    assert by_place(order.init) == {True: set(FILES), False: {"shell", "code_exec", "read_more"}}


async def test_what_a_person_has_to_approve_is_not_the_childs_to_run(sqlite_store: Store, tmp_path: Path) -> None:
    """Its home is read-only then: the parent writes, once somebody has said yes."""
    order = await order_of(sqlite_store, tmp_path, "code", WRITES_WHEN_ASKED)
    assert not order.writes
    assert by_place(order.init)[True] == set(READING)
    assert {"file_write", "file_edit"} <= by_place(order.init)[False]


async def test_a_child_is_told_its_task_and_its_type_and_nothing_of_its_parent(
    sqlite_store: Store, tmp_path: Path
) -> None:
    """No key, no address, no name of a model or a person: the order says nothing but what stands here."""
    order = await order_of(sqlite_store, tmp_path, "explore")
    assert set(InitFrame.__slots__) == FIELDS_OF_A_CHILD
    init, explore = order.init, CATALOG["explore"]
    assert (init.sub_type, init.system, init.rounds_max) == ("explore", explore.prompt, explore.rounds_max)
    assert init.messages == (ChildMessage("user", "look around"),)
    assert (init.wrap_up, init.limits, init.workspace) == (PROMPTS.wrap_up, ProcessLimits(), "")
    assert order.limit_s == 300.0
