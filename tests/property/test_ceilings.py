"""No sub-agent holds a tool that its parent lacks: for any policy, role, place, type, and any line of ancestors."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Final

from hypothesis import given
from hypothesis import strategies as st

from agent.limits import SUBAGENT_DEPTH_MAX
from agent.profiles import DEFAULT, PROFILES
from agent.subagents.catalog import CATALOG, SubType
from agent.subagents.ceilings import NOT_AT_THE_BOTTOM, child_context, placed
from agent.tools.enclosures import Enclosures
from agent.tools.lineage import Lineage
from agent.tools.permissions import Permission, Permissions, Place, Policy, PolicyLine, Risk
from agent.tools.suspension import Suspension
from agent.tools.tool import ToolContext
from gateway.contracts.entries import GrantRole
from gateway.contracts.ids import ReplyAddress, SessionKey
from gateway.contracts.toolsets import CONVERSING, DELEGATING, FILES, READING, RUNNING, SEARCHING, WRITING

STRICTNESS: Final = {Permission.ALLOW: 0, Permission.ASK: 1, Permission.DENY: 2}
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
places = st.sampled_from(list(Place))
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
ceilings = st.sampled_from([DEFAULT.ceiling, *(profile.ceiling for profile in PROFILES.values())])
ADA: Final = SessionKey("telegram", "1")


def context(role: GrantRole = GrantRole.ADMIN, place: Place = Place.DM, **options: object) -> ToolContext:
    """A turn of a user's."""
    return ToolContext(ADA, ADA, "turn-1", role, place, lineage=Lineage("conversation"), **options)  # type: ignore[arg-type]


def line_of(root: ToolContext, chain: list[SubType]) -> list[ToolContext]:
    """A turn and the sub-agents below it, each the parent of the next."""
    found = [root]
    for number, sub_type in enumerate(chain, 1):
        found.append(child_context(found[-1], sub_type, session_id=f"s{number}", task_id=f"t{number}"))
    return found


def word(policy: Policy, of: ToolContext, name: str) -> Permission:
    """As the registry finds it for every call."""
    granted = policy.permissions(of.role, of.place) & of.ceiling
    return granted.of(name, RISKS[name])


@given(policies, roles, places, ceilings, chains)
def test_no_child_holds_what_its_parent_lacks(
    policy: Policy, role: GrantRole, place: Place, ceiling: Permissions, chain: list[SubType]
) -> None:
    """Nor may it simply run what its parent has to ask for; so a deny anywhere above is a deny."""
    line = line_of(context(role, place, ceiling=ceiling), chain)
    for parent, child in itertools.pairwise(line):
        for name in RISKS:
            assert STRICTNESS[word(policy, child, name)] >= STRICTNESS[word(policy, parent, name)]


@given(policies, roles, places, ceilings, chains)
def test_no_child_holds_what_its_type_or_any_type_above_does_not_list(
    policy: Policy, role: GrantRole, place: Place, ceiling: Permissions, chain: list[SubType]
) -> None:
    """But for `read_more`, which reads on in results that the type's own tools gave."""
    *_, last = line_of(context(role, place, ceiling=ceiling), chain)
    for name in RISKS.keys() - {"read_more"}:
        if any(sub_type.tools is not None and name not in sub_type.tools for sub_type in chain):
            assert word(policy, last, name) is Permission.DENY


@given(policies, roles, places, chains)
def test_some_tools_no_sub_agent_has_and_the_deepest_have_none_of_their_own(
    policy: Policy, role: GrantRole, place: Place, chain: list[SubType]
) -> None:
    for depth, child in enumerate(line_of(context(role, place), chain)[1:], 1):
        assert child.lineage.depth == depth
        assert {word(policy, child, name) for name in CONVERSING} == {Permission.DENY}
        if depth >= SUBAGENT_DEPTH_MAX:
            assert {word(policy, child, name) for name in NOT_AT_THE_BOTTOM} == {Permission.DENY}


@given(policies, roles, places)
def test_a_generalist_has_all_that_its_parent_has_but_for_what_belongs_to_a_conversation(
    policy: Policy, role: GrantRole, place: Place
) -> None:
    parent, child, grandchild = line_of(context(role, place), [CATALOG["general"]] * 2)
    for name in RISKS.keys() - set(CONVERSING):
        assert word(policy, grandchild, name) is word(policy, child, name) is word(policy, parent, name)


@given(policies, roles, places, chains)
def test_a_child_runs_by_itself_only_file_tools_that_it_simply_may_run(
    policy: Policy, role: GrantRole, place: Place, chain: list[SubType]
) -> None:
    *_, child = line_of(context(role, place), chain)
    found = placed(tuple(RISKS), lambda name: word(policy, child, name))
    for name in RISKS:
        granted = word(policy, child, name)
        assert (name in found.here) == (granted is Permission.ALLOW and name in FILES)
        assert (name in found.here | found.parent) == (granted is not Permission.DENY)
    assert found.here.isdisjoint(found.parent)
    assert found.writes == any(word(policy, child, name) is Permission.ALLOW for name in WRITING)


READ_ONLY: Final = ("explore", "plan", "security", "architect", "reviewer")


@given(policies, roles, places, st.sampled_from(READ_ONLY))
def test_what_is_called_read_only_changes_and_runs_nothing_whatever_the_policy_allows(
    policy: Policy, role: GrantRole, place: Place, name: str
) -> None:
    _, child = line_of(context(role, place), [CATALOG[name]])
    for tool, risk in RISKS.items():
        if risk in {Risk.WRITE, Risk.EXECUTE, Risk.SPEND}:
            assert word(policy, child, tool) is Permission.DENY


def test_a_child_stands_where_its_parent_stands_and_answers_nobody() -> None:
    address = ReplyAddress("telegram", "1", "{}")
    options = {"asked_by": ADA, "address": address, "fence": 7, "enclosures": Enclosures(), "suspension": Suspension()}
    parent = context(GrantRole.MEMBER, Place.GROUP, **options)
    child = child_context(parent, CATALOG["code"], session_id="s", task_id="t")
    assert child.lineage == Lineage("s", "t", 1)
    assert (child.enclosures, child.suspension) == (None, None)
    assert replace(child, ceiling=parent.ceiling, lineage=parent.lineage) == replace(
        parent, enclosures=None, suspension=None
    )
    assert child.permit is parent.permit


def test_results_that_were_cut_can_be_read_on_unless_they_were_files() -> None:
    policy = Policy()
    can_read_on = {
        name: word(policy, child_context(context(), sub_type, session_id="s", task_id="t"), "read_more")
        for name, sub_type in CATALOG.items()
    }
    without = {name for name, found in can_read_on.items() if found is Permission.DENY}
    assert without == {"explore", "plan", "architect"}
