"""What becomes of conversations that outgrow their model, and of words that are taken back."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from agent.limits import ROUNDS_KEPT_MESSAGES, ROUNDS_MESSAGES_MAX, SUMMARY_REST_TURNS
from agent.models.requests import ModelEvent, ModelFacts, ModelRequest, PromptMessage, RequestedCall, TextDelta
from gateway.bus.bus import RedisBus
from gateway.config.subagents import SubagentSettings
from gateway.contracts.errors import ContextTooLong, ModelRejected
from gateway.contracts.ids import SessionKey
from gateway.contracts.sessions import Entry, EntryKind, Role, UsagePurpose
from gateway.ops.admin.sessions import order_message
from gateway.scrub import Scrubber
from gateway.store import Store
from tests.parts.agents import AgentProcess, running_agent
from tests.parts.summarists import Summarist, prompt_tokens, raising, remembering, said, saying

ANNA, BEN = "telegram:1", "telegram:2"
FILLER = "and some more words that only fill the room " * 12
ALONE = SubagentSettings(enabled=False)
"""The tools of sub-agents take a quarter of a small window; here it is the conversation's."""


@pytest.fixture
def model() -> Summarist:
    return Summarist()


@pytest.fixture
async def agent(bus: RedisBus, sqlite_store: Store, tmp_path: Path, model: Summarist) -> AsyncIterator[AgentProcess]:
    async with running_agent(bus, sqlite_store, model, tmp_path, subagents=ALONE) as process:
        yield process


async def entries(agent: AgentProcess, key: str = ANNA) -> list[Entry]:
    session = await agent.store.sessions.current(SessionKey.parse(key))
    assert session is not None
    return list(await agent.store.transcript.page(session.id))


async def summaries(agent: AgentProcess, key: str = ANNA) -> list[Entry]:
    return [entry for entry in await entries(agent, key) if entry.kind is EntryKind.COMPACTION]


def prompt(request: ModelRequest) -> str:
    return "\n".join(message.text for message in request.messages)


# --- sixty turns on a small window


async def test_sixty_turns_on_a_window_of_8192_stay_coherent(agent: AgentProcess, model: Summarist) -> None:
    """Every prompt fits, is user-led and ends with the newest words; facts of the first turns are in the last
    prompt by way of several summaries; each boundary stands in the transcript; nothing was deleted."""
    facts = [f"fact anchor{number}" for number in range(5)]
    for number in range(60):
        fact = facts[number] if number < len(facts) else "nothing new"
        answer = await agent.ask(f"say turn {number}: {fact} {FILLER}")
        assert answer.startswith(f"turn {number}:")
    assert len(model.turns) == 60
    for number, request in enumerate(model.turns):
        assert prompt_tokens(request) <= model.window
        assert request.messages[0].role is Role.USER
        assert f"say turn {number}:" in request.messages[-1].text
    made = await summaries(agent)
    assert len(made) >= 3
    assert all(fact in prompt(model.turns[-1]) for fact in facts)
    assert all("anchor0" in summary.text for summary in made)
    kept = await entries(agent)
    asked = [entry.text for entry in kept if entry.role is Role.USER and entry.kind is EntryKind.MESSAGE]
    assert [re.findall(r"turn (\d+):", text)[0] for text in asked] == [str(number) for number in range(60)]
    for earlier, later in pairwise(made):
        assert earlier.tail_start_seq < later.tail_start_seq <= later.seq


async def test_a_conversation_does_not_fill_a_window_of_a_million(
    bus: RedisBus, sqlite_store: Store, tmp_path: Path
) -> None:
    """It is kept within 100,000 tokens, or what the operator says: every message costs what its prompt holds. What was
    said at the beginning is in the summary."""
    largest = {}
    for budget, messages in ((0, 30), (20_000, 10)):
        model, key = Summarist(1_000_000), f"telegram:{budget}"
        async with running_agent(
            bus, sqlite_store, model, tmp_path / str(budget), subagents=ALONE, context_budget=budget
        ) as agent:
            for number in range(messages):
                await agent.ask(f"say turn {number}: fact anchor{number} {FILLER * 20}", key)
        assert model.summaries
        assert "fact anchor0" in prompt(model.turns[-1])
        largest[budget] = max(map(prompt_tokens, (*model.turns, *model.summaries)))
    assert 75_000 < largest[0] <= 100_000
    assert largest[20_000] <= 20_000


async def test_each_message_is_summarised_once(agent: AgentProcess, model: Summarist) -> None:
    """A second compaction reads the first summary and what came after its boundary."""
    for number in range(40):
        await agent.ask(f"say unique{number}x {FILLER}")
    assert len(model.summaries) >= 2
    read = [request.messages[0].text for request in model.summaries]
    for number in range(40):
        assert sum(f"User: say unique{number}x" in text for text in read) <= 1
    assert all("<earlier-summary>" in text for text in read[1:])


async def test_compaction_waits_for_the_size_of_the_next_prompt(
    bus: RedisBus, sqlite_store: Store, tmp_path: Path
) -> None:
    """A turn of many calls sums up to far more tokens than the window has; no prompt of it is near that."""
    model = Caller(rounds=12, window=8_192)
    async with running_agent(bus, sqlite_store, model, tmp_path) as agent:
        await agent.ask("hello")
        await agent.ask("hello again")
        spent = await agent.store.sessions.current(SessionKey.parse(ANNA))
    assert spent is not None
    assert spent.tokens > 2 * model.window
    assert model.summaries == []


async def test_a_failing_summary_costs_nobody_the_answer(agent: AgentProcess, model: Summarist) -> None:
    """The turn goes on with everything, as long as that fits."""
    model.usual = raising(ModelRejected("no such key"))
    for number in range(19):
        assert (await agent.ask(f"say turn {number} {FILLER}")).startswith(f"turn {number}")
    assert model.summaries
    assert "say turn 0 " in prompt(model.turns[-1])
    assert await summaries(agent) == []


async def test_what_fits_in_no_way_is_said_plainly(agent: AgentProcess, model: Summarist) -> None:
    """With the way out; the model is not even asked."""
    model.usual = saying("")
    answers = [await agent.ask(f"say turn {number} {FILLER * 4}") for number in range(8)]
    assert "too long for the model. Begin a new one with /new." in answers[-1]
    assert len(model.turns) < 8
    await agent.ask("/new")
    assert (await agent.ask("say hello")).startswith("hello")


async def test_the_provider_knows_better_than_our_estimate(bus: RedisBus, sqlite_store: Store, tmp_path: Path) -> None:
    """Believed to be 32k, it is 4k: the refused prompt is compacted and sent once more."""
    model = Optimist(4_000)
    async with running_agent(bus, sqlite_store, model, tmp_path) as agent:
        for number in range(12):
            assert (await agent.ask(f"say turn {number} {FILLER}")).startswith(f"turn {number}")
        assert await summaries(agent)
    assert model.refused > 0


class Optimist(Summarist):
    """Says that its window is eight times as large as it is."""

    refused = 0

    def facts(self, model: str) -> ModelFacts:
        return replace(super().facts(model), context_window=self.window * 8)

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        self.refused += prompt_tokens(request) > self.window
        async for event in super().stream(request):
            yield event


async def test_a_summary_that_always_fails_is_not_paid_for_in_every_turn(agent: AgentProcess, model: Summarist) -> None:
    """It is tried at two lengths, then the conversation rests from it for some turns; one that works ends that."""
    model.usual = saying("Goal: half of", finish="length")
    turns: list[int] = []
    while len(turns) < 60 and turns.count(2) < 2:
        before = len(model.summaries)
        await agent.ask(f"say turn {len(turns)}: {FILLER}")
        turns.append(len(model.summaries) - before)
    assert turns[turns.index(2) :] == [2] + [0] * (SUMMARY_REST_TURNS - 1) + [2]
    model.usual = remembering
    for _ in range(SUMMARY_REST_TURNS):
        await agent.ask("say and now?")
    assert len(await summaries(agent)) == 1
    assert (await agent.ask("say it goes on")).startswith("it goes on")


# --- inside one turn


class Caller(Summarist):
    """Calls a tool for `rounds` rounds before it answers; each output has `chars` characters."""

    def __init__(self, rounds: int, window: int, *, chars: int = 0) -> None:
        super().__init__(window)
        self.rounds = rounds
        self.chars = chars

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        async for event in super().stream(request):
            if request.purpose is not UsagePurpose.TURN:
                yield event
            elif len(self.turns) % (self.rounds + 1) == 0 or not request.tools:
                yield TextDelta("done")
                yield said(request, "done")
                return
            else:
                number = len(self.turns)
                text = f"fact round{number} " + "x" * self.chars
                arguments = f'{{"fact": "{text}"}}' if self.chars else '{"query": ""}'
                name = "remember" if self.chars else "recall"
                answer = said(request, "")
                yield replace(answer, calls=(RequestedCall(f"c{number}", name, arguments),), finish_reason="tool_calls")
                return


def pairs_hold(messages: tuple[PromptMessage, ...]) -> bool:
    wanted: list[str] = []
    for message in messages:
        if message.role is Role.TOOL:
            if not wanted or message.tool_call_id != wanted.pop(0):
                return False
        elif wanted:
            return False
        wanted += [call.id for call in message.tool_calls]
    return not wanted


async def test_a_turn_of_many_rounds_is_condensed_between_them(
    bus: RedisBus, sqlite_store: Store, tmp_path: Path
) -> None:
    """Past fifty messages the first rounds become a summary; the last twenty messages and the request stay. The
    transcript keeps every round, and the summary lives no longer than the turn."""
    model = Caller(rounds=60, window=100_000)
    async with running_agent(bus, sqlite_store, model, tmp_path, tool_rounds_max=0) as agent:
        assert await agent.ask("please do it sixty times") == "done"
        kept = await entries(agent)
        session = await agent.store.sessions.current(SessionKey.parse(ANNA))
    assert len(model.summaries) >= 2
    assert sum(entry.role is Role.TOOL for entry in kept) == 60
    assert all(entry.kind is not EntryKind.COMPACTION for entry in kept)
    assert session is not None
    assert session.prompt_tokens == 0
    for request in model.turns:
        assert "please do it sixty times" in request.messages[0].text
        assert pairs_hold(request.messages)
        assert len(request.messages) <= 1 + ROUNDS_MESSAGES_MAX + 2
    lengths = [len(request.messages) for request in model.turns]
    assert min(after for before, after in pairwise(lengths) if after < before) <= (ROUNDS_KEPT_MESSAGES + 3)
    assert "<progress>" in model.turns[-1].messages[0].text
    second = model.summaries[1].messages[0].text
    assert "<earlier-summary>" in second


async def test_outputs_of_a_long_turn_make_room_for_each_other(
    bus: RedisBus, sqlite_store: Store, tmp_path: Path
) -> None:
    """Each call is as long as a page; all prompts fit, and the request stays."""
    model = Caller(rounds=20, window=8_192, chars=1_900)
    async with running_agent(bus, sqlite_store, model, tmp_path, subagents=ALONE) as agent:
        await agent.ask("say first things first")
        model.turns.clear()
        assert await agent.ask("please go on") == "done"
    assert all("please go on" in prompt(request) for request in model.turns)
    assert all(pairs_hold(request.messages) for request in model.turns)
    assert max(map(prompt_tokens, model.turns)) <= model.window


# --- by hand


async def test_compact_condenses_everything_and_says_how_much(agent: AgentProcess, model: Summarist) -> None:
    """However small it is: never gated, no tail. The next prompt begins with the summary."""
    for number in range(3):
        await agent.ask(f"say fact hand{number} {FILLER}")
    assert await agent.ask("/compact the facts") == "Compacted 6 messages."
    assert "Pay most attention to: the facts" in model.summaries[0].messages[0].text
    await agent.ask("history")
    (message,) = model.turns[-1].messages
    assert "<summary>\nGoal: to remember. Progress: fact hand0, fact hand1, fact hand2\n</summary>" in message.text
    assert message.text.endswith("history")


async def test_compact_says_when_there_is_nothing_or_it_failed(agent: AgentProcess, model: Summarist) -> None:
    assert await agent.ask("/compact") == "There is nothing to compact."
    await agent.ask(f"say {FILLER}")
    model.usual = saying("")
    assert await agent.ask("/compact") == "I could not make a summary that is shorter; nothing has changed."
    assert await summaries(agent) == []
    model.usual = raising(ContextTooLong("no"))
    assert "nothing has changed" in await agent.ask("/compact")


async def test_the_operator_may_order_it(agent: AgentProcess, model: Summarist) -> None:
    """On the lane of the conversation, as a message of the operator: the chat hears nothing of it."""
    for number in range(3):
        await agent.ask(f"say fact hand{number} {FILLER}")
    order = order_message(SessionKey.parse(ANNA), "/compact the facts", scrubber=Scrubber(), clock=agent.clock)
    await agent.bus.intake.enqueue(order)
    (reply,) = await agent.heard(1, "admin")
    assert reply.text == "Compacted 6 messages."
    (summary,) = await summaries(agent)
    assert summary.tail_start_seq == summary.seq
    assert len(await agent.heard(3)) == 3


async def test_summaries_are_charged_to_their_user(agent: AgentProcess) -> None:
    await agent.ask(f"say {FILLER}")
    await agent.ask(f"say {FILLER}", BEN)
    await agent.ask("/compact")
    costs = {}
    for key in (ANNA, BEN):
        session = await agent.store.sessions.current(SessionKey.parse(key))
        assert session is not None
        costs[key] = session.cost_usd
    assert costs == {ANNA: pytest.approx(0.01), BEN: 0}


# --- taking back


async def test_undo_takes_the_last_exchange_back(agent: AgentProcess) -> None:
    """The model never reads it again; the answer quotes what is gone."""
    await agent.ask("say the first")
    await agent.ask("say the second thing")
    answer = await agent.ask("/undo")
    assert answer == "I took back this exchange:\n\n> say the second thing"
    told = await agent.ask("history")
    assert "the first" in told
    assert "second" not in told


async def test_undo_takes_several_back_and_says_how_many_there_were(agent: AgentProcess) -> None:
    for word in ("one", "two", "three"):
        await agent.ask(f"say {word}")
    assert await agent.ask("/undo 2") == "I took back the last 2 exchanges, from here on:\n\n> say two"
    assert "I can see 2 message(s)" in await agent.ask("history")
    assert "the last 2 exchanges" in await agent.ask("/undo 9")
    assert await agent.ask("/undo") == "There is nothing to take back."


@pytest.mark.parametrize("argument", ["0", "-1", "x", "101", "²", "1 2", f"000000001{'0' * 20}", "1" * 5_000])
async def test_undo_refuses_what_is_no_number_of_exchanges(agent: AgentProcess, argument: str) -> None:
    await agent.ask("say hello")
    assert (await agent.ask(f"/undo {argument}")).startswith("Write /undo, or /undo N")
    assert "I can see 2 message(s)" in await agent.ask("history")


async def test_undo_across_a_boundary_brings_the_head_back(agent: AgentProcess) -> None:
    """The summary that stood for it goes, and with it what the last exchange had put into it."""
    await agent.ask(f"say fact kept {FILLER}")
    await agent.ask(f"say fact regretted {FILLER}")
    await agent.ask("/compact")
    await agent.ask("history")
    await agent.ask("/undo")
    await agent.ask("/undo")
    told = await agent.ask("history")
    assert "fact kept" in told
    assert "regretted" not in told
    assert "<summary>" not in told


async def test_undo_is_nobody_elses_business(agent: AgentProcess) -> None:
    await agent.ask("say mine", ANNA)
    await agent.ask("say his", BEN)
    assert "mine" not in await agent.ask("/undo", BEN)
    assert "say mine" in await agent.ask("history", ANNA)
