"""What an orchestration tells the model that asked for it: the answer first, then who did what. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from agent.limits import ORCHESTRATION_REASON_CHARS_MAX, SUBAGENT_RESULTS_CHARS_MAX
from agent.subagents.strategies.assignments import Outcome, heading, shares, shown, size
from agent.tools.framing import frame_chars, framed
from gateway.words import ENGLISH
from gateway.words.reasons import what_now

_APART: Final = "\n\n"
_HEAD: Final = "| step | type | state | seconds | tokens | handle |\n|---|---|---|---|---|---|"
_STATE_CHARS: Final = 60  # of a state with its reason, in a row
_CELL_BREAKS: Final = str.maketrans({"|": "/", "\n": " ", "\r": " "})


@dataclass(frozen=True, slots=True)
class Row:
    """One step in the table. `handle` is the id of its task, under which read_more has all of its answer; "" where
    there is none. `seconds` is None where nobody counted."""

    id: str
    sub_type: str
    state: str
    seconds: float | None = None
    tokens: int = 0
    handle: str = ""


@dataclass(frozen=True, slots=True)
class Account:
    """One orchestration that is over."""

    strategy: str
    outcome: Outcome
    rows: tuple[Row, ...]
    seconds: float
    tokens: int
    tokens_max: int
    cost_usd: float

    def text(self, mark: str) -> str:
        """At most SUBAGENT_RESULTS_CHARS_MAX characters: answers are cut, the table is not. What sub-agents said stands
        in frames with `mark`."""
        table = self._table()
        opening = self._opening()
        room = SUBAGENT_RESULTS_CHARS_MAX - len(opening) - len(table) - 2 * len(_APART)
        return _APART.join(filter(None, (opening, self._answer(room, mark), table)))

    def _opening(self) -> str:
        problem = self.outcome.problem[:ORCHESTRATION_REASON_CHARS_MAX]
        if not problem:
            return ""
        rest = "What was achieved until then is no finished answer:" if self.outcome.answer else "There is no result."
        return f"The orchestration ({self.strategy}) failed: {problem}.{what_now(self.outcome.instead)} {rest}"

    def _answer(self, room: int, mark: str) -> str:
        exhibits = self.outcome.answer
        is_alone = len(exhibits) == 1 and not self.outcome.problem
        headings = ["" if is_alone else f"{heading(exhibit)}\n" for exhibit in exhibits]
        room -= sum(len(title) + frame_chars(len(mark)) + len(_APART) for title in headings)
        rooms = shares([size(exhibit) for exhibit in exhibits], room)
        handles = {row.id: row.handle for row in self.rows}
        return _APART.join(
            f"{title}{framed(shown(exhibit, share, handle=handles.get(exhibit.id, '')), mark)}"
            for exhibit, title, share in zip(exhibits, headings, rooms, strict=True)
        )

    def _table(self) -> str:
        done = sum(row.state == "completed" for row in self.rows)
        summary = (
            f"{self.strategy}: {done} of {len(self.rows)} steps completed, {ENGLISH.lasting(self.seconds * 1000)}, "
            f"{self.tokens} of {self.tokens_max} tokens, ${self.cost_usd:.4f}"
        )
        return "\n".join((f"---\n{summary}\n", _HEAD, *map(_line, self.rows)))


def _line(row: Row) -> str:
    seconds = "" if row.seconds is None else f"{row.seconds:.0f}"
    state = row.state.translate(_CELL_BREAKS)[:_STATE_CHARS]
    return f"| {row.id} | {row.sub_type} | {state} | {seconds} | {row.tokens or ''} | {row.handle} |"
