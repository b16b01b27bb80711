"""The prompt of a running turn, for any history, any rounds and any window."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from itertools import pairwise
from typing import cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.models.requests import PromptMessage, always
from agent.models.transcript import PromptBudget, is_said, preamble, turns_of
from agent.runtime.compaction import Compaction, Compactor
from agent.runtime.compaction_plan import plan_compaction
from agent.runtime.window import TurnWindow
from agent.tokens import estimate_tokens
from gateway.contracts.errors import ContextTooLong
from gateway.contracts.ids import SessionKey
from gateway.contracts.messages import CleanText
from gateway.contracts.sessions import UNTITLED, Entry, EntryKind, Role, Session, SessionStatus
from tests.property.transcripts import histories, rounds

pytestmark = pytest.mark.filterwarnings("ignore:Generating overly large repr")
SESSION = Session("s", SessionKey("telegram", "1"), 1, UNTITLED, SessionStatus.ACTIVE, None, 0, 0, 0, 0, 0.0)
NOTE = Entry(Role.USER, preamble(0), kind=EntryKind.NOTE)
SHORT = CleanText("Goal: to be short.")


class Shortener:
    """The compactor as a room sees it, without a model: its summaries are short, or it fails."""

    def __init__(self, *, works: bool) -> None:
        self._works = works

    async def compact(
        self, session: Session, view: Sequence[Entry], *, budget: PromptBudget, **_: object
    ) -> Compaction:
        plan = plan_compaction(view, budget)
        if plan is None or not self._works:
            return Compaction(tuple(view), has_failed=plan is not None)
        summary = Entry(Role.ASSISTANT, SHORT, 9_999, EntryKind.COMPACTION, tail_start_seq=plan.tail_start_seq)
        tail = (entry for entry in view if entry.seq >= plan.tail_start_seq and entry.kind is not EntryKind.COMPACTION)
        return Compaction((summary, *tail), len(plan.head))

    async def summarise(self, *_: object, **__: object) -> CleanText | None:
        return SHORT if self._works else None


def room_of(view: tuple[Entry, ...], window: int, *, works: bool) -> TurnWindow:
    budget = PromptBudget(window, window, window * 3 // 4)
    return TurnWindow(
        cast(Compactor, Shortener(works=works)),
        SESSION,
        view,
        budget,
        system=SHORT,
        fixed_tokens=100,
        protected=frozenset({"todo_write"}),
        fence=1,
        permit=always,
        zone="",
    )


def size(prompt: Sequence[PromptMessage]) -> int:
    return sum(
        estimate_tokens(message.text) + sum(estimate_tokens(call.arguments) for call in message.tool_calls)
        for message in prompt
    )


def is_sound(prompt: Sequence[PromptMessage]) -> bool:
    """User-led, no two messages of the user in a row, every call followed by its results."""
    for at, message in enumerate(prompt):
        wanted = [call.id for call in message.tool_calls]
        if [result.tool_call_id for result in prompt[at + 1 : at + 1 + len(wanted)]] != wanted:
            return False
    users = [message.role is Role.USER for message in prompt]
    results = sum(message.role is Role.TOOL for message in prompt)
    calls = sum(len(message.tool_calls) for message in prompt)
    return users[0] and not any(first and second for first, second in pairwise(users)) and results == calls


@settings(max_examples=60)
@given(histories, rounds, st.integers(600, 30_000), st.booleans(), st.booleans())
def test_a_prompt_of_a_running_turn_is_sound_and_fits(
    history: tuple[Entry, ...], added: tuple[Entry, ...], window: int, works: bool, is_refused: bool
) -> None:
    """Or the user is told. What was asked in this turn, before and in between, is verbatim in every prompt."""
    asked = Entry(Role.USER, CleanText("what this turn was asked"), history[-1].seq + 1)
    view, in_flight = (*history, asked), (NOTE, *added)
    room = room_of(view, window, works=works)
    requests = [asked, *filter(is_said, added)]

    async def condense() -> tuple[PromptMessage, ...]:
        await room.fit(PromptBudget(window, window, window * 3 // 4))
        return await room.condensed(in_flight, counted=0, is_refused=is_refused) or room.prompt(in_flight)

    try:
        prompt = asyncio.run(condense())
    except ContextTooLong:
        return
    assert is_sound(prompt)
    assert size(prompt) <= window
    said = "\n".join(message.text for message in prompt if message.role is Role.USER)
    assert all(request.text in said for request in requests)
    assert "<now>" in said
    newest = turns_of(view)[-1]
    assert newest[-1] == asked


@settings(max_examples=30)
@given(histories, st.lists(rounds, min_size=2, max_size=5), st.integers(2_000, 12_000))
def test_what_is_condensed_once_stays_condensed(
    history: tuple[Entry, ...], batches: list[tuple[Entry, ...]], window: int
) -> None:
    """Between two changes a prompt grows at its end only, round after round."""
    asked = Entry(Role.USER, CleanText("what this turn was asked"), history[-1].seq + 1)
    room = room_of((*history, asked), window, works=True)
    in_flight: tuple[Entry, ...] = (NOTE,)

    async def live() -> None:
        nonlocal in_flight
        await room.fit(PromptBudget(window, window, window * 3 // 4))
        sent = room.prompt(in_flight)
        for added in batches:
            in_flight = (*in_flight, *added)
            anew = await room.condensed(in_flight, counted=0)
            now = room.prompt(in_flight)
            assert anew in (None, now)
            if anew is None:
                assert now[: len(sent)] == sent
            sent = now

    try:
        asyncio.run(live())
    except ContextTooLong:
        return
