"""The loop of a child: rounds of model and tools until there is an answer. Pure: it is told what came back, and says
what to ask next.

After `rounds_max` rounds of tools one more call, without tools, asks for a wrap-up. A prompt that is too long loses its
old tool results, the newest last; when there is nothing left to lose, that is the end."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import count

from agent.limits import NOTE_CHARS_MAX, OUTPUTS_KEPT, PRUNED_FROM_CHARS
from agent.subagents import protocol
from agent.tokens import failure_note, stand_in
from gateway.contracts.errors import Reason


class Rounds:
    """One conversation between a child's model and its tools.

    Ask `next_call`, tell `answered`, run the calls it returns, tell `returned`, as long as `ending` is None."""

    def __init__(self, init: protocol.InitFrame) -> None:
        self._system = init.system
        self._messages = list(init.messages)
        self._tools = tuple(tool.name for tool in init.tools)
        self._left = init.rounds_max
        self._wrap_up = init.wrap_up
        self._asked = 0
        self._spent = protocol.DoneFrame(
            success=False, response="", tokens_in=0, tokens_out=0, cost_usd=0.0, duration_ms=0
        )
        self.ending: protocol.DoneFrame | protocol.FailedFrame | None = None
        """The child's last frame (without its duration); None: it goes on."""

    def next_call(self) -> protocol.ModelCall:
        """Return the next call of the model."""
        self._asked += 1
        return protocol.ModelCall(f"m{self._asked}", tuple(self._messages), self._offered, self._system)

    def answered(self, result: protocol.ModelResult) -> tuple[protocol.CalledTool, ...]:
        """Take the model's answer; returns the calls to run, each with an id of its own."""
        self._spent = replace(
            self._spent,
            tokens_in=self._spent.tokens_in + result.tokens_in,
            tokens_out=self._spent.tokens_out + result.tokens_out,
            cost_usd=self._spent.cost_usd + result.cost_usd,
        )
        if result.is_too_long and self._lose_old_results():
            return ()
        if result.error or result.is_too_long:
            self.ending = protocol.FailedFrame(result.error or Reason.PROMPT_TOO_LONG)
            return ()
        calls = told_apart(result.calls) if self._offered else ()
        self._messages.append(protocol.ChildMessage("assistant", result.text, calls))
        if not calls:
            self.ending = replace(self._spent, success=bool(result.text.strip()), response=result.text)
        return calls

    def returned(self, calls: Sequence[protocol.CalledTool], outcomes: Sequence[protocol.ToolOutcome]) -> None:
        """Take what the calls of a round came to, in their order."""
        if not calls:
            return
        self._messages += [
            protocol.ChildMessage("tool", each.text, call_id=each.id, is_error=each.is_error) for each in outcomes
        ]
        failures = [
            (call.name, _in_short(outcome.text))
            for call, outcome in zip(calls, outcomes, strict=True)
            if outcome.is_error
        ]
        if failures:
            self._tell(failure_note(failures))
        self._left -= 1
        if self._left == 0 and self._wrap_up:
            self._tell(self._wrap_up)

    @property
    def _offered(self) -> tuple[str, ...]:
        return self._tools if self._left > 0 else ()

    def _tell(self, text: str) -> None:
        """Say something in the role of the user; neighbours are one message, as providers expect."""
        if self._messages and self._messages[-1].role == "user":
            text = f"{self._messages.pop().text}\n\n{text}"
        self._messages.append(protocol.ChildMessage("user", text))

    def _lose_old_results(self) -> bool:
        """Prune old results; return False when there are none left."""
        for kept in (OUTPUTS_KEPT, 0):
            results = [at for at, said in enumerate(self._messages) if said.role == "tool"]
            old = frozenset(results[: max(len(results) - kept, 0)])
            lighter = [
                replace(said, text=stand_in(said.text)) if at in old and len(said.text) > PRUNED_FROM_CHARS else said
                for at, said in enumerate(self._messages)
            ]
            if lighter != self._messages:
                self._messages = lighter
                return True
        return False


def told_apart(calls: Iterable[protocol.CalledTool]) -> tuple[protocol.CalledTool, ...]:
    """Give each call of a round a unique id: some models give none, or the same to all."""
    taken: set[str] = set()
    apart = []
    for call in calls:
        names = (f"{call.id or 'call'}-{number}" for number in count(2))
        own = call.id if call.id and call.id not in taken else next(name for name in names if name not in taken)
        taken.add(own)
        apart.append(replace(call, id=own))
    return tuple(apart)


def _in_short(text: str) -> str:
    """Put the text on one line. A longer one is not quoted: it is not yet scrubbed, and a cut could go through a
    secret."""
    line = " ".join(text.split()) if len(text) <= NOTE_CHARS_MAX else ""
    return line or "see above"
