"""No sub-agent holds a tool that its parent lacks: for any policy, role, place, type, and any line of ancestors."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import replace
from typing import Final

from hypothesis import given, settings
from hypothesis import strategies as st

from agent.limits import SUBAGENT_DEPTH_MAX
from agent.models.client import ModelClient
from agent.models.demo import ScriptedClient
from agent.models.requests import ModelAnswer, ModelEvent, ModelRequest, RequestedCall, TokenCount
from agent.prompts.library import DEFAULT_PROFILE, PROFILES
from agent.subagents.catalog import NOT_AT_THE_BOTTOM, SubType, child_context, placed
from agent.subagents.parent import ChildHost, ParentServices
from agent.subagents.protocol import ModelCall, ToolCallFrame
from agent.subagents.runs import Assignment, TranscriptWriter
from agent.tools.policy import Permission, Permissions, Policy, PolicyLine, Risk, Visibility
from agent.tools.registry import ToolRegistry
from agent.tools.results import READ_MORE
from agent.tools.tool import CallOrigin, Enclosures, Suspension, ToolContext
from gateway.clock import SystemClock
from gateway.contracts.ids import ReplyAddress, SessionKey
from gateway.contracts.messages import literal_text
from gateway.contracts.profiles import CONVERSING, DELEGATING, FILES, READING, RUNNING, SEARCHING, WRITING
from gateway.contracts.sessions import Entry, GrantRole, Usage, UsagePurpose
from gateway.contracts.subagents import Doing
from gateway.scrub import Scrubber
from tests.parts.sub_types import CATALOG
from tests.parts.tooling import OPEN, registry, tool

STRICTNESS: Final = {Permission.ALLOW: 0, Permission.ASK_SELF: 1, Permission.ASK: 2, Permission.DENY: 3}
RISKS: Final = {
    **dict.fromkeys(READING, Risk.READ),
    **dict.fromkeys(WRITING, Risk.WRITE),
    **dict.fromkeys(RUNNING, Risk.EXECUTE),
    **dict.fromkeys(SEARCHING, Risk.NETWORK),
    **dict.fromkeys(DELEGATING, Risk.SPEND),
    **dict.fromkeys(CONVERSING, Risk.READ),
    "read_more": Risk.READ,
    "recall": Risk.READ,
    "remember": Risk.WRITE,
    "mcp_docs_search": Risk.EXECUTE,
}
"""Tools and the worst each can do."""

names = st.sampled_from(sorted(RISKS))
permission_words = st.sampled_from(list(Permission))
roles = st.sampled_from(list(GrantRole))
places = st.sampled_from(list(Visibility))
lines = st.builds(
    PolicyLine,
    names | st.sampled_from([risk.value for risk in Risk]),
    permission_words,
    st.lists(roles, max_size=2).map(tuple),
    st.lists(places, max_size=1).map(tuple),
)
policies = st.lists(lines, max_size=8).map(lambda found: Policy(tuple(found)))
configured = st.lists(names, max_size=12, unique=True).map(
    lambda tools: replace(CATALOG["code"], name="any", tools=tuple(tools))
)
sub_types = st.sampled_from(list(CATALOG.values())) | configured
chains = st.lists(sub_types, min_size=1, max_size=4)
ceilings = st.sampled_from([DEFAULT_PROFILE.ceiling, *(profile.ceiling for profile in PROFILES.values())])
ADA: Final = SessionKey("telegram", "1")


def context(role: GrantRole = GrantRole.ADMIN, place: Visibility = Visibility.DM, **options: object) -> ToolContext:
    """A turn of a user's."""
    return ToolContext(ADA, "turn-1", role, place, call_origin=CallOrigin("conversation"), **options)  # type: ignore[arg-type]


def line_of(root: ToolContext, chain: list[SubType]) -> list[ToolContext]:
    """A turn and the sub-agents below it, each the parent of the next."""
    found = [root]
    for number, sub_type in enumerate(chain, 1):
        found.append(child_context(found[-1], sub_type, session_id=f"s{number}", task_id=f"t{number}"))
    return found


def every_tool(policy: Policy, ran: list[str] | None = None) -> ToolRegistry:
    """The registry as the product has it, over tools that note that they ran."""

    def noting(name: str) -> Callable[[object], str]:
        def run(_arguments: object) -> str:
            if ran is not None:
                ran.append(name)
            return "done"

        return run

    tools = [tool(name, noting(name), risk=risk) for name, risk in RISKS.items() if name != READ_MORE.name]
    return registry(*tools, policy=policy)


def word(tools: ToolRegistry, of: ToolContext, name: str) -> Permission:
    """What the registry says, which is asked for every call."""
    return tools.permission(of, name)


@given(policies, roles, places, ceilings, chains)
def test_no_child_holds_what_its_parent_lacks(
    policy: Policy, role: GrantRole, place: Visibility, ceiling: Permissions, chain: list[SubType]
) -> None:
    """Nor may it simply run what its parent has to ask for; so a deny anywhere above is a deny."""
    tools = every_tool(policy)
    line = line_of(context(role, place, ceiling=ceiling), chain)
    host = policy.permissions(role, place)
    for name, risk in RISKS.items():
        assert STRICTNESS[word(tools, line[0], name)] >= STRICTNESS[host.of(name, risk)]
    for parent, child in itertools.pairwise(line):
        for name in RISKS:
            assert STRICTNESS[word(tools, child, name)] >= STRICTNESS[word(tools, parent, name)]


@given(policies, roles, places, ceilings, chains)
def test_no_child_holds_what_its_type_or_any_type_above_does_not_list(
    policy: Policy, role: GrantRole, place: Visibility, ceiling: Permissions, chain: list[SubType]
) -> None:
    """But for `read_more`, which reads on in results that the type's own tools gave."""
    tools = every_tool(policy)
    *_, last = line_of(context(role, place, ceiling=ceiling), chain)
    for name in RISKS.keys() - {"read_more"}:
        if any(sub_type.tools is not None and name not in sub_type.tools for sub_type in chain):
            assert word(tools, last, name) is Permission.DENY


@given(policies, roles, places, chains)
def test_some_tools_no_sub_agent_has_and_the_deepest_have_none_of_their_own(
    policy: Policy, role: GrantRole, place: Visibility, chain: list[SubType]
) -> None:
    tools = every_tool(policy)
    for depth, child in enumerate(line_of(context(role, place), chain)[1:], 1):
        assert child.call_origin.depth == depth
        assert {word(tools, child, name) for name in CONVERSING} == {Permission.DENY}
        if depth >= SUBAGENT_DEPTH_MAX:
            assert {word(tools, child, name) for name in NOT_AT_THE_BOTTOM} == {Permission.DENY}


@given(policies, roles, places)
def test_a_generalist_has_all_that_its_parent_has_but_for_what_belongs_to_a_conversation(
    policy: Policy, role: GrantRole, place: Visibility
) -> None:
    tools = every_tool(policy)
    parent, child, grandchild = line_of(context(role, place), [CATALOG["general"]] * 2)
    for name in RISKS.keys() - set(CONVERSING):
        assert word(tools, grandchild, name) is word(tools, child, name) is word(tools, parent, name)


@given(policies, roles, places, chains)
def test_a_child_runs_by_itself_only_file_tools_that_it_simply_may_run(
    policy: Policy, role: GrantRole, place: Visibility, chain: list[SubType]
) -> None:
    tools = every_tool(policy)
    *_, child = line_of(context(role, place), chain)
    found = placed(tuple(RISKS), lambda name: word(tools, child, name))
    for name in RISKS:
        granted = word(tools, child, name)
        assert (name in found.here) == (granted is Permission.ALLOW and name in FILES)
        assert (name in found.here | found.parent) == (granted is not Permission.DENY)
    assert found.here.isdisjoint(found.parent)
    assert found.writes == any(word(tools, child, name) is Permission.ALLOW for name in WRITING)


class Wanting(ScriptedClient):
    """A model that asks for everything."""

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        calls = tuple(RequestedCall(name, name, "{}") for name in RISKS)
        yield ModelAnswer("", calls, "tool_calls", TokenCount(1, 1), 0.0, request.model)


class Nowhere:
    """The one method of a `TaskStore` that a host needs."""

    async def record(self, _task_id: str, *, entries: Sequence[Entry], usage: Sequence[Usage], doing: Doing) -> None:
        """Forget it."""


async def all_called(tools: ToolRegistry, child: ToolContext, sub_type: SubType) -> frozenset[str]:
    """A child's model asks for every tool there is, offered or not, and its process has them all run; the tools that
    its parent offers."""
    specs = tools.specs_for(child)
    here = placed(tuple(spec.name for spec in specs), lambda name: tools.permission(child, name)).here
    transcript = TranscriptWriter(Nowhere(), child.call_origin.task_id)  # type: ignore[arg-type]
    assignment = Assignment(sub_type, "demo/scripted", UsagePurpose.SUBAGENT, child, 60.0)
    services = ParentServices(ModelClient(Wanting()), tools, Scrubber(), SystemClock())
    host = ChildHost(literal_text("look around"), assignment, services, transcript, local=here)
    async for _ in host.model(ModelCall("m1", (), tuple(RISKS))):
        pass
    for name in RISKS:
        await host.tool(ToolCallFrame(name, name, "{}"))
    await transcript.finish()
    return frozenset(spec.name for spec in specs)


@settings(max_examples=50)
@given(policies, roles, places, ceilings, chains)
def test_a_hostile_child_runs_nothing_that_anybody_above_it_may_not_simply_run(
    policy: Policy, role: GrantRole, place: Visibility, ceiling: Permissions, chain: list[SubType]
) -> None:
    """By its parent's hand, which is the only one it has: through the same host and registry as in the product. Where
    a person would have to be asked, and nobody can be, nothing runs."""
    ran: list[str] = []
    tools = every_tool(policy, ran)
    *above, child = line_of(context(role, place, ceiling=ceiling), chain)
    offered = asyncio.run(all_called(tools, child, chain[-1]))
    for name in ran:
        assert policy.permissions(role, place).of(name, RISKS[name]) is Permission.ALLOW
        assert all(word(tools, each, name) is Permission.ALLOW for each in above)
        assert all(sub_type.tools is None or name in sub_type.tools for sub_type in chain)
        assert name not in CONVERSING
    for each in above:
        assert offered <= {spec.name for spec in tools.specs_for(each)}
    assert set(ran) <= offered - set(FILES)


READ_ONLY: Final = ("explore", "plan", "security", "architect", "reviewer")


@given(policies, roles, places, st.sampled_from(READ_ONLY))
def test_what_is_called_read_only_changes_and_runs_nothing_whatever_the_policy_allows(
    policy: Policy, role: GrantRole, place: Visibility, name: str
) -> None:
    tools = every_tool(policy)
    _, child = line_of(context(role, place), [CATALOG[name]])
    for each, risk in RISKS.items():
        if risk in {Risk.WRITE, Risk.EXECUTE, Risk.SPEND}:
            assert word(tools, child, each) is Permission.DENY


def test_a_child_stands_where_its_parent_stands_and_answers_nobody() -> None:
    address = ReplyAddress("telegram", "1", "{}")
    options = {"asked_by": ADA, "address": address, "fence": 7, "enclosures": Enclosures(), "suspension": Suspension()}
    parent = context(GrantRole.MEMBER, Visibility.GROUP, **options)
    child = child_context(parent, CATALOG["code"], session_id="s", task_id="t")
    assert child.call_origin == CallOrigin("s", "t", 1)
    assert (child.enclosures, child.suspension) == (None, None)
    assert replace(child, ceiling=parent.ceiling, call_origin=parent.call_origin) == replace(
        parent, enclosures=None, suspension=None
    )
    assert child.permit is parent.permit


def test_results_that_were_cut_can_be_read_on_unless_they_were_files() -> None:
    tools = every_tool(Policy())
    can_read_on = {
        name: word(tools, child_context(context(), sub_type, session_id="s", task_id="t"), "read_more")
        for name, sub_type in CATALOG.items()
    }
    without = {name for name, found in can_read_on.items() if found is Permission.DENY}
    assert without == {"explore", "plan", "architect"}


def test_generalists_hand_on_down_to_the_bottom_and_no_further() -> None:
    tools = every_tool(OPEN)
    below = line_of(context(), [CATALOG["general"]] * SUBAGENT_DEPTH_MAX)[1:]
    may = [{name for name in NOT_AT_THE_BOTTOM if word(tools, child, name) is not Permission.DENY} for child in below]
    assert may == [set(NOT_AT_THE_BOTTOM)] * (SUBAGENT_DEPTH_MAX - 1) + [set()]
