"""The failure ladder of the compactor: each rung, each limit, and what is charged. On a real store."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from agent.limits import (
    SUMMARY_BACKOFF_S,
    SUMMARY_CHUNKS_MAX,
    SUMMARY_THOUGHT_TOKENS,
    SUMMARY_TIMEOUT_S,
    SUMMARY_TOKENS_MAX,
)
from agent.models.client import ModelClient
from agent.models.requests import ModelEvent, ModelFacts, ModelRequest, always
from agent.models.selection import Models
from agent.runtime.compaction import NoSummary, Summarizer, SummaryOrder, UnusableSummary
from agent.tokens import estimate_tokens
from gateway.clock import SystemClock
from gateway.config import Settings
from gateway.config.settings import AgentSettings
from gateway.contracts.errors import ContextTooLong, ModelRejected, ModelUnavailable
from gateway.contracts.ids import SessionKey
from gateway.contracts.messages import CleanText
from gateway.contracts.sessions import Entry, EntryKind, Role, Session, ToolCall, UsagePurpose
from gateway.scrub import Scrubber
from gateway.store import Store
from tests.contract.store_samples import ANN, talk
from tests.parts.summarists import Summarist, raising, saying

CLOCK, SCRUBBER = SystemClock(), Scrubber()
AWAY, TOO_LONG = raising(ModelUnavailable("overloaded")), raising(ContextTooLong("too long"))


def ladder(store: Store, model: Summarist, *, pauses: list[float] | None = None) -> Summarizer:
    """A ladder on that model; pauses between tries are noted instead of waited for."""

    async def sleep(pause_s: float) -> None:
        if pauses is not None:
            pauses.append(pause_s)

    client = ModelClient(model, sleep=sleep)
    models = Models(client, Settings(agent=AgentSettings(model="demo/scripted", utility_model="demo/scripted")))
    return Summarizer(client, models, store, SCRUBBER, CLOCK)


@pytest.fixture
async def session(sqlite_store: Store) -> Session:
    return await talk(sqlite_store, ANN, "hello", number=1)


def conversation(turns: int, *, words: int = 40, output: int = 0) -> tuple[Entry, ...]:
    """Turns of about `words` words; with `output`, each calls a tool that returns so many characters."""
    entries: list[Entry] = []
    for number in range(turns):
        entries.append(Entry(Role.USER, CleanText(f"question {number}: " + "please " * words)))
        if output:
            call = ToolCall("c1", "recall", CleanText("{}"))
            entries.append(Entry(Role.ASSISTANT, CleanText(""), tool_calls=(call,)))
            entries.append(Entry(Role.TOOL, CleanText(f"output {number} " + "x" * output), tool_call_id="c1"))
        entries.append(Entry(Role.ASSISTANT, CleanText(f"answer {number}: " + "well " * words)))
    return tuple(entries)


def wanted(session: Session, entries: tuple[Entry, ...], *, prior: str = "", focus: str = "") -> SummaryOrder:
    clean_prior = CleanText(prior) if prior else None
    return SummaryOrder(session, entries, clean_prior, CleanText(focus) if focus else None, always)


def read(model: Summarist) -> list[str]:
    """What the model was given, call by call."""
    return [request.messages[0].text for request in model.summaries]


async def charged(store: Store, session: Session) -> float:
    found = await store.sessions.by_id(session.id)
    assert found is not None
    return found.cost_usd - session.cost_usd


# --- the call


async def test_the_call_is_small_cheap_and_without_tools(sqlite_store: Store, session: Session) -> None:
    model = Summarist()
    await ladder(sqlite_store, model).summarize(
        wanted(session, conversation(9), prior="Goal: so far", focus="the boat")
    )
    (request,) = model.summaries
    assert request.purpose is UsagePurpose.COMPACTION
    assert (request.completion_tokens_max, request.temperature, request.tools) == (SUMMARY_TOKENS_MAX, 0.2, ())
    assert request.timeout_s <= SUMMARY_TIMEOUT_S == 30.0
    assert request.backoff_s == SUMMARY_BACKOFF_S == (0.2, 0.4)
    assert request.key == ANN
    (message,) = request.messages
    assert message.role is Role.USER
    assert "Goal: so far" in message.text
    assert "the boat" in message.text
    assert await charged(sqlite_store, session) == pytest.approx(0.01)


async def test_notes_of_the_gateway_are_no_part_of_the_conversation(sqlite_store: Store, session: Session) -> None:
    model = Summarist()
    note = Entry(Role.USER, CleanText("<now>today</now>"), kind=EntryKind.NOTE)
    await ladder(sqlite_store, model).summarize(wanted(session, (*conversation(9), note)))
    assert "<now>" not in read(model)[0]


async def test_a_summary_is_scrubbed(sqlite_store: Store, session: Session) -> None:
    token = "ghp_" + "aB3dE5fG7hJ9kL1mN3pQ5rS7tU9vW1xY3zA5"
    model = Summarist(behaviours=(saying(f"Progress: the key is {token}."),))
    summary = await ladder(sqlite_store, model).summarize(wanted(session, conversation(9)))
    assert token not in summary
    assert summary.startswith("Progress: the key is [")


# --- what goes wrong with it


async def test_a_model_that_is_away_is_asked_three_times_and_no_more(sqlite_store: Store, session: Session) -> None:
    """After 200 and after 400 ms, give or take a fifth."""
    model, pauses = Summarist(behaviours=(AWAY,) * 9), list[float]()
    with pytest.raises(NoSummary, match="overloaded"):
        await ladder(sqlite_store, model, pauses=pauses).summarize(wanted(session, conversation(9)))
    assert len(model.summaries) == 3
    assert [round(pause_s, 1) for pause_s in pauses] in ([0.2, 0.3], [0.2, 0.4], [0.2, 0.5])


async def test_a_model_that_comes_back_is_heard(sqlite_store: Store, session: Session) -> None:
    model = Summarist(behaviours=(AWAY, AWAY, saying("Goal: fine")))
    assert await ladder(sqlite_store, model).summarize(wanted(session, conversation(9))) == "Goal: fine"


async def test_a_summary_that_is_cut_short_is_asked_for_once_more_at_half_the_length(
    sqlite_store: Store, session: Session
) -> None:
    """Each prompt names its length; the material names the tools; thinking has room of its own."""
    call = ToolCall("c1", "file_read", CleanText('{"path": "a.txt"}'))
    reading = Entry(Role.ASSISTANT, CleanText(""), tool_calls=(call,))
    model = Thinker(100_000, behaviours=(saying("Goal: half of", finish="length"), saying("Goal: short")))
    assert await ladder(sqlite_store, model).summarize(wanted(session, (*conversation(9), reading))) == "Goal: short"
    first, second = read(model)
    assert first.endswith("Write at most 512 words: what is longer is cut off and lost.")
    assert second.endswith("Write at most 256 words: what is longer is cut off and lost.")
    assert '[calls file_read with {"path": "a.txt"}]' in first
    assert {request.completion_tokens_max for request in model.summaries} == {
        SUMMARY_TOKENS_MAX + SUMMARY_THOUGHT_TOKENS
    }
    assert await charged(sqlite_store, session) == pytest.approx(0.02)


class Thinker(Summarist):
    """A model that thinks before it writes."""

    def facts(self, model: str) -> ModelFacts:
        return replace(super().facts(model), is_reasoning=True)


async def test_a_refusal_is_not_repeated(sqlite_store: Store, session: Session) -> None:
    model = Summarist(behaviours=(raising(ModelRejected("no such key")),))
    with pytest.raises(NoSummary, match="no such key"):
        await ladder(sqlite_store, model).summarize(wanted(session, conversation(9)))
    assert len(model.summaries) == 1


@pytest.mark.parametrize(
    ("text", "finish"),
    [
        ("", "stop"),
        ("  \n ", "stop"),
        ("Goal: half of", "length"),
        ("Goal: half of", "max_tokens"),
        ("w " * 9_000, "stop"),
    ],
)
async def test_an_empty_truncated_or_long_summary_is_a_failure_and_paid_for(
    sqlite_store: Store, session: Session, text: str, finish: str
) -> None:
    calls = 1 if finish == "stop" else 2
    model = Summarist(behaviours=(saying(text, finish=finish),) * calls)
    with pytest.raises(UnusableSummary):
        await ladder(sqlite_store, model).summarize(wanted(session, conversation(9)))
    assert len(model.summaries) == calls
    assert await charged(sqlite_store, session) == pytest.approx(0.01 * calls)


class Stalling(Summarist):
    """Says nothing for ever, from its call number `after` on."""

    def __init__(self, after: int, window: int = 8_192) -> None:
        super().__init__(window)
        self._after = after

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        if len(self.summaries) >= self._after:
            await asyncio.Event().wait()
        async for event in super().stream(request):
            yield event


@pytest.mark.parametrize("after", [0, 2])
async def test_the_time_limit_holds_on_every_path(
    sqlite_store: Store, session: Session, monkeypatch: pytest.MonkeyPatch, after: int
) -> None:
    """Also in the middle of the chunks: the original bounded only the first call."""
    monkeypatch.setattr("agent.limits.SUMMARY_TIMEOUT_S", 0.3)
    model = Stalling(after, window=2_048)
    with pytest.raises(NoSummary, match="time"):
        await ladder(sqlite_store, model).summarize(wanted(session, conversation(60)))
    assert len(model.summaries) == after


async def test_all_calls_together_have_a_limit_too(
    sqlite_store: Store, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agent.limits.COMPACTION_TIMEOUT_S", 0.05)
    began_s = time.monotonic()
    with pytest.raises(NoSummary, match="time"):
        await ladder(sqlite_store, Stalling(1, window=2_048)).summarize(wanted(session, conversation(60)))
    assert time.monotonic() - began_s < SUMMARY_TIMEOUT_S


# --- too long


async def test_first_the_tool_outputs_are_pruned(sqlite_store: Store, session: Session) -> None:
    """Each is larger than all that was said; without them one call is enough."""
    model = Summarist()
    await ladder(sqlite_store, model).summarize(wanted(session, conversation(6, output=8_000)))
    (text,) = read(model)
    assert text.count("<output pruned, ~") == 6
    assert "question 0" in text
    assert "answer 5" in text


async def test_then_it_is_read_in_chunks_with_a_rolling_summary(sqlite_store: Store, session: Session) -> None:
    """Each call has the summary of everything before; nothing is read twice, nothing is left out."""
    rolling = [saying(f"Goal: as of chunk {number}") for number in range(SUMMARY_CHUNKS_MAX)]
    model = Summarist(2_048, behaviours=tuple(rolling))
    summary = await ladder(sqlite_store, model).summarize(wanted(session, conversation(40), prior="Goal: long ago"))
    texts = read(model)
    assert 3 <= len(texts) <= SUMMARY_CHUNKS_MAX
    assert "Goal: long ago" in texts[0]
    for number, text in enumerate(texts[1:]):
        assert f"<earlier-summary>\nGoal: as of chunk {number}\n" in text
        assert "long ago" not in text
    for number in range(40):
        assert sum(f"question {number}:" in text for text in texts) == 1
        assert sum(f"answer {number}:" in text for text in texts) == 1
    assert summary == f"Goal: as of chunk {len(texts) - 1}"
    assert await charged(sqlite_store, session) == pytest.approx(0.01 * len(texts))


async def test_an_oversized_message_is_split(sqlite_store: Store, session: Session) -> None:
    words = " ".join(f"w{number}" for number in range(4_000))
    model = Summarist(4_096)
    await ladder(sqlite_store, model).summarize(wanted(session, (Entry(Role.USER, CleanText(words)),)))
    texts = [text.partition("<conversation>\n")[2].partition("\n</conversation>")[0] for text in read(model)]
    assert len(texts) > 1
    assert "".join(texts).replace("\n\n", "") == f"User: {words}"


async def test_a_chunk_that_the_provider_refuses_is_halved(sqlite_store: Store, session: Session) -> None:
    """The window is smaller than we believe: by what the provider says, not by our estimate."""

    class Smaller(Summarist):
        def facts(self, model: str) -> ModelFacts:
            return replace(super().facts(model), context_window=32_768)

    model = Smaller(3_000)
    await ladder(sqlite_store, model).summarize(wanted(session, conversation(80)))
    texts = read(model)
    assert len(texts) > 2
    assert all(sum(f"question {number}:" in text for text in texts) == 1 for number in range(80))


async def test_last_of_all_the_middle_is_dropped(sqlite_store: Store, session: Session) -> None:
    """More than all chunks could hold: first and last words stay, and the model is told."""
    model = Summarist(2_048)
    summary = await ladder(sqlite_store, model).summarize(wanted(session, conversation(400)))
    (text,) = read(model)
    assert "question 0" in text
    assert "answer 399" in text
    assert "left out" in text
    assert "question 200:" not in text
    assert estimate_tokens(summary) < 1_000


async def test_a_model_that_finds_everything_too_long_fails_in_the_end(sqlite_store: Store, session: Session) -> None:
    model = Summarist()
    model.usual = TOO_LONG
    with pytest.raises(NoSummary, match="too long"):
        await ladder(sqlite_store, model).summarize(wanted(session, conversation(20, output=3_000)))
    assert len(model.summaries) < 30


async def test_the_summary_of_a_last_small_chunk_may_be_longer_than_that_chunk(
    sqlite_store: Store, session: Session
) -> None:
    """It stands for all chunks: only together they have to be longer."""
    model = Summarist(2_048)
    model.usual = saying("Goal: to write. " + "Progress. " * 60)
    entries = (*conversation(24), Entry(Role.USER, CleanText("ok")))
    assert (await ladder(sqlite_store, model).summarize(wanted(session, entries))).startswith("Goal: to write.")


async def test_a_key_is_charged_for_itself(sqlite_store: Store, session: Session) -> None:
    model = Summarist()
    other = await talk(sqlite_store, SessionKey("telegram", "2"), "hello", number=1)
    await ladder(sqlite_store, model).summarize(wanted(other, conversation(9)))
    assert model.summaries[0].key == other.key
    assert await charged(sqlite_store, session) == 0
    assert await charged(sqlite_store, other) == pytest.approx(0.01)
