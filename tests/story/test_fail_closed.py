"""A scrubber that fails: at every border the whole text is replaced, its author is told, and the product goes on.

Two ways to fail, each on every text or on those with the poison in them: a rule raises, or the time is spent.
"""

from __future__ import annotations

import copy
import io
import json
import logging
from dataclasses import replace
from pathlib import Path

import pytest

from agent.texts import UNCHECKED_NOTE, UNREAD_NOTE
from agent.tools.registry import Envelopes
from agent.tools.results import ResultStore
from channels.core.intake import IntakeConfig, MessageIntake
from channels.core.message import FileReference
from gateway import process
from gateway.bus.bus import RedisBus
from gateway.clock import SystemClock
from gateway.contracts.access import AccessPolicy, StrangerRule
from gateway.contracts.ids import SessionKey, SessionScope
from gateway.contracts.messages import AttachmentKind
from gateway.ops.admin.http import clean_json
from gateway.scrub import Scrubber
from gateway.scrub.known import WHOLE_TEXT
from gateway.scrub.scrubber import Machine, Overrun
from gateway.store import Store
from gateway.telemetry.logs import ScrubbingFormatter
from tests.doubles import MemoryBus, door_rooms
from tests.parts.agents import AgentProcess, message, running_agent
from tests.parts.incoming import private_message
from tests.parts.minds import Mind

POISON = "☠"
CANARY = "plain-words-that-no-rule-would-find"
TEXT = f"{POISON} {CANARY}"


class _PoisonedMachine:
    """A machine that cannot read on at the poison."""

    def __init__(self, machine: Machine, error: Exception) -> None:
        self._machine = machine
        self._error = error
        self.findings = machine.findings

    def feed(self, chunk: str, *, is_last: bool = False) -> str:
        if POISON in chunk:
            raise self._error
        return self._machine.feed(chunk, is_last=is_last)


class PoisonedScrubber(Scrubber):
    """Fails on texts with the poison in them."""

    error: Exception = RuntimeError(TEXT)

    def machine(self) -> Machine:
        poisoned: Machine = _PoisonedMachine(super().machine(), self.error)  # type: ignore[assignment]
        return poisoned

    def by(self, error: Exception) -> PoisonedScrubber:
        """The same, failing with that."""
        other = copy.copy(self)
        other.error = error
        return other


FAILURES = {
    "a rule raises": PoisonedScrubber(),
    "the time is spent": PoisonedScrubber().by(Overrun()),
    "memory is spent": PoisonedScrubber().by(MemoryError()),
    "every text is too much": Scrubber(budget_s=-1.0),
}
failing = pytest.mark.parametrize("scrubber", FAILURES.values(), ids=FAILURES)


@failing
async def test_a_message_its_names_and_its_files(scrubber: Scrubber) -> None:
    """The second is read in the light of the first."""
    bus = MemoryBus()
    policy = AccessPolicy(StrangerRule.OPEN)
    door = MessageIntake(door_rooms(bus, scrubber), IntakeConfig(policy, SessionScope.PLACE))
    file = FileReference(AttachmentKind.DOCUMENT, "7", name=TEXT, media_type=TEXT)
    for number in range(2):
        said = replace(private_message(), id=f"m{number}", text=TEXT, author_name=TEXT, attachments=(file,))
        await door.accept(said)
    assert len(bus.queued) == 2
    for taken in bus.queued:
        assert CANARY not in repr(taken)
        assert taken.text == WHOLE_TEXT
        assert {removed.kind for removed in taken.removed} == {"text"}


def test_rules_that_cannot_be_read_at_all(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> None:
        raise RuntimeError(TEXT)

    monkeypatch.setattr("gateway.scrub.wrapped.rule_book", fail)
    monkeypatch.setattr("gateway.scrub.lookahead.rule_book", fail)
    assert Scrubber().scrub(TEXT) == WHOLE_TEXT


@failing
async def test_a_turn_from_a_message_to_its_answer(
    scrubber: Scrubber, bus: RedisBus, sqlite_store: Store, tmp_path: Path
) -> None:
    """What the model says, stream and tool calls, what tools return and remember, titles, todos, reminders."""
    said = [
        "hello",  # what the conversation is titled by: the model would write the title without the poison
        f"please remember {TEXT}",
        f"say {TEXT}",
        f"remind me in 5 hours to {TEXT}",
        f"/title {TEXT}",
        f"/remind in 5 hours {TEXT}",
        f"/memory {TEXT}",
        "/status",
    ]
    async with running_agent(bus, sqlite_store, Mind(), tmp_path, scrubber=scrubber) as agent:
        for text in said:
            await agent.ask(text)
        told = "\n".join(reply.text for reply in agent.replies)
        kept = json.loads(await everything(agent))
    assert WHOLE_TEXT in told
    assert UNCHECKED_NOTE in told
    assert CANARY not in told
    # What the test put on the bus went past intake, and stands in the transcript as it was said. Nothing else does.
    made = [row for row in kept.pop("entries") if row["role"] != "user"]
    assert CANARY not in json.dumps([made, kept])


async def everything(agent: AgentProcess) -> str:
    """What SQL has of the person."""
    return (await agent.store.people.export(SessionKey("telegram", "1"), clean=Scrubber().scrub)).decode()


@failing
async def test_the_author_is_told_that_nobody_could_read_it(
    scrubber: Scrubber, bus: RedisBus, sqlite_store: Store, tmp_path: Path
) -> None:
    memory = MemoryBus()
    policy = AccessPolicy(StrangerRule.OPEN)
    door = MessageIntake(door_rooms(memory, scrubber), IntakeConfig(policy, SessionScope.PLACE))
    await door.accept(replace(private_message(), text=TEXT))
    taken = replace(memory.queued[0], key=message("x").key, address=message("x").address)
    async with running_agent(bus, sqlite_store, Mind(), tmp_path, scrubber=scrubber) as agent:
        await agent.bus.intake.enqueue(taken)
        (reply,) = await agent.heard(1)
        assert UNREAD_NOTE in reply.text
        assert CANARY not in await everything(agent)


@failing
def test_a_tools_result(scrubber: Scrubber) -> None:
    envelopes = Envelopes(ResultStore(SystemClock()), scrubber, SystemClock())
    for foreign in (True, False):
        envelope = envelopes.wrap(SessionKey("telegram", "1"), TEXT * 10_000, foreign=foreign)
        assert CANARY not in envelope.text
        assert envelope.text.startswith(WHOLE_TEXT)
        assert "could not be looked through" in envelope.text


@failing
def test_a_stream_of_deltas_however_it_is_cut(scrubber: Scrubber) -> None:
    for cut in range(1, len(TEXT)):
        stream = scrubber.stream()
        shown = stream.feed(TEXT[:cut]) + stream.feed(TEXT[cut:]) + stream.flush()
        assert CANARY not in shown
        assert shown == WHOLE_TEXT


@failing
def test_a_log_line_and_last_words(scrubber: Scrubber, capsys: pytest.CaptureFixture[str]) -> None:
    formatter = ScrubbingFormatter(scrubber, logging.Formatter())
    assert formatter.format(logging.LogRecord("a", logging.INFO, "f", 1, TEXT, (), None)) == WHOLE_TEXT
    process.use_scrubber(scrubber)
    try:
        assert process.scrubbed(TEXT) == WHOLE_TEXT
        inner = io.StringIO()
        stream = process.ScrubbedStream(inner)
        stream.write(f"{TEXT}\n")
        assert inner.getvalue() == WHOLE_TEXT
    finally:
        process.use_scrubber(Scrubber())
    assert CANARY not in "".join(capsys.readouterr())


@failing
def test_an_answer_of_the_operators_api(scrubber: Scrubber) -> None:
    rendered = clean_json(scrubber)({"rows": [{"text": TEXT, "number": 1}]}).body
    assert json.loads(bytes(rendered)) == {"rows": [{"text": WHOLE_TEXT, "number": 1}]}


@failing
async def test_an_export(scrubber: Scrubber, sqlite_store: Store) -> None:
    said = message(TEXT)
    await sqlite_store.turns.begin(turn_id="t", key=said.key, fence=1, messages=(said,), now_ms=1)
    document = await sqlite_store.people.export(said.key, clean=scrubber.scrub)
    assert CANARY not in document.decode()
    assert WHOLE_TEXT in document.decode()
