"""Cutting long results, and sets of permissions, for any text and any set."""

from __future__ import annotations

import regex
from hypothesis import given
from hypothesis import strategies as st

from agent.tools.policy import EVERYTHING, Permission, Permissions, Risk, permissions
from agent.tools.results import grapheme_start, pieces

clusters = st.sampled_from(
    ["a", "é", "e\u0301", "👩‍👩‍👧‍👦", "🇩🇪", "🏳️‍🌈", "\r\n", "\n", " ", "각", "हि", "́", "日", "\u200d", "z͑̾ͫ", "👍🏽"]
)
texts = st.lists(clusters, max_size=60).map("".join)


@given(texts, st.integers(0, 200))
def test_cutting_keeps_head_and_tail_and_no_more_than_asked_for(text: str, length: int) -> None:
    head_end, tail_start = pieces(length, text)
    assert 0 <= head_end <= tail_start <= len(text)
    assert head_end + len(text) - tail_start <= max(length, 0)


@given(texts, st.integers(0, 200))
def test_cuts_never_part_a_grapheme(text: str, length: int) -> None:
    edges = {0, len(text), *(found.end() for found in regex.finditer(r"\X", text))}
    assert set(pieces(length, text)) <= edges


@given(st.lists(clusters, min_size=60, max_size=80).map("".join))
def test_head_and_tail_are_as_long_as_the_graphemes_allow(text: str) -> None:
    longest = max(len(found) for found in regex.findall(r"\X", text))
    head_end, tail_start = pieces(30, text)
    assert head_end > 20 - longest
    assert len(text) - tail_start > 10 - longest


@given(texts, st.integers(-5, 300))
def test_the_edge_before_a_place_is_the_last_one(text: str, at: int) -> None:
    edges = [0, *(found.end() for found in regex.finditer(r"\X", text))]
    wanted = max(edge for edge in edges if edge <= max(at, 0))
    assert grapheme_start(text, at) == wanted


words = st.sampled_from(list(Permission))
names = st.sampled_from(["look", "write", "shell", "fetch"])
rules = st.builds(
    permissions,
    risks=st.dictionaries(st.sampled_from(list(Risk)), words),
    tools=st.dictionaries(names, words),
    otherwise=words,
)
sets = st.lists(rules, max_size=3).map(
    lambda parts: Permissions(frozenset(rule for part in parts for rule in part.rules))
)
ORDER = [Permission.ALLOW, Permission.ASK_SELF, Permission.ASK, Permission.DENY]


@given(sets, sets, names, st.sampled_from(list(Risk)))
def test_an_intersection_says_the_stricter_of_both_words(
    one: Permissions, other: Permissions, name: str, risk: Risk
) -> None:
    assert (one & other).of(name, risk) is max(one.of(name, risk), other.of(name, risk), key=ORDER.index)


@given(sets, sets, sets)
def test_intersection_is_associative_commutative_and_idempotent(
    one: Permissions, two: Permissions, three: Permissions
) -> None:
    assert (one & two) & three == one & (two & three)
    assert one & two == two & one
    assert one & one == one
    assert one & EVERYTHING == one


@given(st.sets(names), names, st.sampled_from(list(Risk)))
def test_only_the_named_tools_are_allowed(allowed: set[str], name: str, risk: Risk) -> None:
    assert (Permissions.only(allowed).of(name, risk) is Permission.ALLOW) == (name in allowed)
