"""A family of sessions as a tree is read: whatever the family, whatever the order in which it is found."""

from __future__ import annotations

from itertools import combinations, pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.contracts.messages import CleanText
from gateway.contracts.sessions import Session, SessionStatus
from gateway.ops.admin.views import nested
from gateway.ops.cli.sessions import tree_lines
from gateway.store.subagents import in_tree_order
from tests.contract.store_samples import ANN


def session(number: int, parent: int | None) -> Session:
    """Those of sub-agents have a channel; the number is the age, too."""
    return Session(
        id=f"s{number}",
        key=ANN,
        number=0 if number else 1,
        title=CleanText("title"),
        status=SessionStatus.ACTIVE,
        parent_session_id=None if parent is None else f"s{parent}",
        created_at_ms=number,
        updated_at_ms=number,
        message_count=0,
        tokens=0,
        cost_usd=0.0,
        channel="subagent:explore" if number else "",
    )


@st.composite
def families(draw: st.DrawFn) -> list[Session]:
    """A root, and each further session below one of those before it."""
    parents = [draw(st.integers(0, number - 1)) for number in range(1, draw(st.integers(1, 25)))]
    return [session(0, None), *(session(number, parent) for number, parent in enumerate(parents, 1))]


@settings(max_examples=40)
@given(families())
def test_a_tree_is_read_from_above_and_from_the_eldest(family: list[Session]) -> None:
    ordered = in_tree_order("s0", family)
    places = {each.id: place for place, each in enumerate(ordered)}
    assert set(places) == {each.id for each in family}
    for each in family[1:]:
        assert places[each.id] > places[each.parent_session_id or ""]
    for elder, younger in combinations(family, 2):
        if elder.parent_session_id == younger.parent_session_id:
            assert places[elder.id] < places[younger.id]
    depths = {"s0": 0}
    for before, each in pairwise(ordered):
        depths[each.id] = depths[each.parent_session_id or ""] + 1
        assert depths[each.id] <= depths[before.id] + 1


@settings(max_examples=40)
@given(families(), st.data())
def test_a_branch_is_read_without_the_rest(family: list[Session], data: st.DataObject) -> None:
    """Its own are all there; what hangs on a session that is missing is not."""
    root = data.draw(st.sampled_from(family)).id
    branch = in_tree_order(root, family)
    below = {root}
    for each in family:
        below |= {each.id} if each.parent_session_id in below else set()
    assert {each.id for each in branch} == below
    assert in_tree_order(root, [each for each in family if each.id != root]) == []


@settings(max_examples=40)
@given(families())
def test_the_api_and_the_command_show_every_session_once(family: list[Session]) -> None:
    ordered = in_tree_order("s0", family)
    shown = []
    waiting = [nested(ordered, (), now_ms=0)]
    while waiting:
        node = waiting.pop()
        shown.append((node.id, node.depth))
        waiting += reversed(node.children)
    lines = tree_lines(ordered, (), now_ms=0)
    assert [id_ for id_, _ in shown] == [each.id for each in ordered]
    assert [line.split("⤷")[0] for line in lines[1:]] == ["  " * (depth - 1) for _, depth in shown[1:]]
