"""Each fault of a provider has one outcome in a turn: what its user reads, how often the provider is asked, which calls
are paid for, and whether another model answers instead. Whole turns on the real litellm, against the wires of three
vendors; with `-s` the table is printed."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice, repeat
from pathlib import Path
from typing import Final

import pytest

from agent.models.requests import StopReason
from agent.runtime import steps
from agent.texts import ending_note
from gateway.bus.bus import RedisBus
from gateway.contracts.budgets import Period, UsageSum
from gateway.contracts.ids import SessionKey
from gateway.contracts.sessions import UsagePurpose
from gateway.i18n import words_for
from gateway.store import Store
from tests.parts.agents import AgentProcess, running_agent
from tests.parts.providers.gemini import BLOCKED_PROMPT
from tests.parts.providers.script import Answer, Body, Call, Fault, FaultKind
from tests.parts.providers.server import ProviderServer
from tests.parts.providers.vendors import VENDORS, asked

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore:Pydantic serializer warnings")
AGAIN: Final = "I could not answer that just now. In a moment, /retry tries it once more."
SLOW: Final = "That took too long, so I stopped. /retry tries it once more."
LATER: Final = "The model takes no more requests for now. Send /retry in 60 min 0 s."
REJECTED: Final = (
    "The provider of the model does not take this request, so asking again will not help. Begin a new conversation "
    "with /new, or ask the operator."
)
OPERATOR: Final = "I cannot answer at the moment: the operator has to mend something first."
LONG: Final = "This conversation has become too long for the model. Begin a new one with /new."
SILENT: Final = "The model ended without saying anything. /retry asks it once more."
CUT, FILTERED, REFUSED = (
    ending_note(ending, words_for("en")) for ending in (StopReason.CUT, StopReason.FILTERED, StopReason.REFUSED)
)
LENGTH: Final = {"openai": "length", "anthropic": "max_tokens", "gemini": "MAX_TOKENS"}
FILTER: Final = {"openai": "content_filter", "anthropic": "refusal", "gemini": "SAFETY"}
HELLO: Final = Answer(("Hello.",))
OTHER: Final = "Hello from the other."
FALLS_BACK: Final = frozenset({AGAIN, SLOW, LATER, REJECTED, OPERATOR})
"""What is read where nobody else answers."""
TRIES: Final = 3


@dataclass(frozen=True, slots=True)
class Row:
    """What a provider does when it is asked for the first time, the second, and from then on; what the user reads; how
    often it is asked. `finish` is the vendor's word where that differs; vendors that have none are left out."""

    answers: Sequence[Answer | Fault]
    reads: str
    asked: int
    finish: Mapping[str, str] = field(default_factory=dict)
    vendors: Sequence[str] = tuple(VENDORS)

    @property
    def paid(self) -> int:
        """Count the calls that are paid for: all that began to answer."""
        given = islice(chain(self.answers, repeat(self.answers[-1])), self.asked)
        return sum(isinstance(answer, Answer) and answer.stalls_after != 0 for answer in given)


def busy(kind: FaultKind, **headers: str) -> Fault:
    return Fault(kind, {name.replace("_", "-"): value for name, value in headers.items()})


ROWS: Final[Mapping[str, Row]] = {
    "a whole answer": Row([HELLO], "Hello.", 1),
    "keep-alives and pings": Row([Answer(("Hel", "lo."), is_chatty=True)], "Hello.", 1),
    "no finish reason": Row([Answer(("Hello.",), finish=None)], "Hello.", 1),
    "cut off at its length, then whole": Row([Answer(("Half a",)), Answer((" word.",))], "Half a word.", 2, LENGTH),
    "cut off at its length, twice": Row(
        [Answer(("Half a",)), Answer((" word",), finish="again")], f"Half a word\n\n{CUT}", 2, LENGTH
    ),
    "nothing but a cut": Row([Answer(()), Answer((), finish="again")], SILENT, 2, LENGTH),
    "a pause": Row(
        [Answer(("Half a",)), Answer((" word.",))], "Half a word.", 2, {"anthropic": "pause_turn"}, ["anthropic"]
    ),
    "filtered in the middle": Row([Answer(("Half a",))], f"Half a\n\n{FILTERED}", 1, FILTER),
    "filtered before a word": Row([Answer(())], FILTERED, 1, FILTER),
    "a call that was filtered": Row([Answer((), (Call("todo_read"),))], FILTERED, 1, FILTER),
    "a refusal": Row([Answer((), refusal="I will not.")], f"I will not.\n\n{REFUSED}", 1, {}, ["openai"]),
    "a refused prompt": Row([Answer(())], FILTERED, 1, {"gemini": BLOCKED_PROMPT}, ["gemini"]),
    "no choices and no words": Row([Answer(())], SILENT, 1),
    "words that nobody can see": Row([Answer(("\u200b", " \ufeff\n"))], SILENT, 1),
    "rate limited once": Row([busy(FaultKind.RATE_LIMITED, retry_after="7"), HELLO], "Hello.", 2),
    "rate limited for an hour": Row([busy(FaultKind.RATE_LIMITED, retry_after="3600")], LATER, 1),
    "rate limited always": Row([busy(FaultKind.RATE_LIMITED)], AGAIN, TRIES),
    "overloaded once": Row([busy(FaultKind.OVERLOADED), HELLO], "Hello.", 2),
    "overloaded always": Row([busy(FaultKind.OVERLOADED)], AGAIN, TRIES),
    "broken always": Row([busy(FaultKind.BROKEN)], AGAIN, TRIES),
    "a prompt that is too long": Row([Fault(FaultKind.TOO_LONG)], LONG, 1),
    "a wrong key": Row([Fault(FaultKind.KEY)], OPERATOR, 1),
    "no credit": Row([Fault(FaultKind.QUOTA)], OPERATOR, 1),
    "an invalid request": Row([Fault(FaultKind.INVALID)], REJECTED, 1),
    "an unknown model": Row([Fault(FaultKind.UNKNOWN_MODEL)], REJECTED, 1),
    "an error in the middle": Row([Answer(("Hell",), fault=Fault(FaultKind.OVERLOADED)), HELLO], "Hello.", 2),
    "a connection that breaks": Row([Answer(("Hell", "o"), is_cut=True), HELLO], "Hello.", 2),
    "a slow first byte": Row([Answer(("Hello.",), stalls_after=0)], SLOW, 1),
    "a stream that stops": Row([Answer(tuple("Hello."), stalls_after=4)], SLOW, 1),
}


def as_said_by(vendor: str, answer: Answer | Fault, row: Row) -> Answer | Fault:
    """The answer with the vendor's word for its end, which belongs to the first; and to a second that says so."""
    if isinstance(answer, Fault) or vendor not in row.finish or (answer is not row.answers[0] and not answer.finish):
        return answer
    return Answer(answer.deltas, answer.calls, finish=row.finish[vendor])


async def read(agent: AgentProcess, server: ProviderServer, vendor: str, row: Row, key: str) -> tuple[str, int, int]:
    """What the user of `key` reads when the provider does that, how often it was asked for it, and how many of its
    calls are paid for."""
    left, turns = deque(as_said_by(vendor, answer, row) for answer in row.answers), list[Body]()

    def answer(body: Body) -> Answer | Fault:
        if not body.get("tools"):  # a title
            return Answer(("A title",))
        if body.get("model") == "gpt-4o":
            return Answer((OTHER,))
        turns.append(body)
        return left.popleft() if len(left) > 1 else left[0]

    server.answer = answer
    text = await agent.ask("hello", key)
    used = await agent.store.usage.by_purpose(SessionKey.parse(key), Period(0, 2**62))
    return text.partition(" (Reference")[0], len(turns), used.get(UsagePurpose.TURN, UsageSum()).calls


async def read_all(
    vendor: str,
    bus: RedisBus,
    store: Store,
    path: Path,
    monkeypatch: pytest.MonkeyPatch,
    *,
    fallbacks: tuple[str, ...] = (),
) -> Mapping[str, tuple[str, int, int]]:
    """What `read` says of each row of a vendor."""
    monkeypatch.setattr("agent.models.client.random.uniform", lambda *_: 0.0)  # nobody waits before the next try
    found = {}
    async with (
        asked(VENDORS[vendor], lambda _body: HELLO) as (server, client),
        running_agent(bus, store, client, path, model=VENDORS[vendor].model, fallbacks=fallbacks) as agent,
    ):
        for number, (name, row) in enumerate(rows_of(vendor).items()):
            monkeypatch.setattr(steps, "ROUND_TIMEOUT_S", 1.0 if row.reads == SLOW else 60.0)
            found[name] = await read(agent, server, vendor, row, f"telegram:{number}")
            text, times, paid = found[name]
            print(f"{vendor:10} {name:34} asked {times}, paid {paid}: {text!r}")
    return found


def rows_of(vendor: str) -> Mapping[str, Row]:
    return {name: row for name, row in ROWS.items() if vendor in row.vendors}


@pytest.mark.parametrize("vendor", VENDORS)
@pytest.mark.long_on("gemini")
async def test_each_fault_has_one_outcome(
    vendor: str, bus: RedisBus, sqlite_store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing of an answer that broke stays in the one that follows, and no error of a provider is ever shown."""
    found = await read_all(vendor, bus, sqlite_store, tmp_path, monkeypatch)
    assert found == {name: (row.reads, row.asked, row.paid) for name, row in rows_of(vendor).items()}


@pytest.mark.long
async def test_another_model_answers_where_trying_again_has_not_helped(
    bus: RedisBus, sqlite_store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not in place of an answer that was cut, filtered or empty, nor where the prompt has to become shorter."""
    found = await read_all("openai", bus, sqlite_store, tmp_path, monkeypatch, fallbacks=("openai/gpt-4o",))
    reads = {name: OTHER if row.reads in FALLS_BACK else row.reads for name, row in rows_of("openai").items()}
    assert {name: text for name, (text, _, _) in found.items()} == reads
