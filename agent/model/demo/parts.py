"""The parts that the demo model plays in an orchestration, each so that the strategy can be watched. Pure.

A strategy tells a sub-agent who it is, what all is for, what its own part is, and in which form it is to answer. What
comes back is a task in the demo model's own words, or the whole answer where a form is asked for.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

_GOAL: Final = re.compile(r"^# What all of it is for\n(?P<goal>.+?)(?=\n\n|\Z)", re.DOTALL | re.MULTILINE)
_PART: Final = re.compile(r"^# Your part\n(?P<part>.+?)(?=\n\n|\Z)", re.DOTALL | re.MULTILINE)
_MATERIAL_END: Final = re.compile(r".*^</foreign mark=\w+>$", re.DOTALL | re.MULTILINE)
_SIDE: Final = re.compile(r"You are side (?P<side>\d+) and speak for this position: (?P<position>.+)", re.DOTALL)
_SAY: Final = "slow 3 say"
_FORM_PAUSE_S: Final = 3.0
_FIRST_DRAFT: Final = "This is the first draft"
_BARS: Final = re.compile(r"\s*\|\s*")
STRATEGIES: Final = ("sequential", "parallel", "graph", "debate", "review", "hierarchical")


@dataclass(frozen=True, slots=True)
class Part:
    """What one does: `task`, in the words that choose what the demo model does; where `is_answer`, it is
    what it says, letter for letter, after `pause_s`."""

    task: str
    is_answer: bool = False
    pause_s: float = 0.0


def part_played(prompt: str) -> Part | None:
    """The part of a sub-agent of a strategy; None for any other."""
    found = _GOAL.search(prompt)
    if found is None:
        return None
    goal, own = found["goal"].strip(), _PART.search(prompt)
    form = _MATERIAL_END.sub("", prompt)
    if '{"approved":' in form:
        return _form(_verdict(prompt))
    if '{"parts":' in form:
        return _form({"parts": [{"task": each} for each in _BARS.split(goal)]})
    if own is not None:
        return Part(_own_part(own["part"].strip()))
    if prompt.startswith("You are the author"):
        is_again = "was reviewed and not approved" in prompt
        return Part(f"{_SAY} {'This is the draft again, with an end' if is_again else _FIRST_DRAFT}: {goal}")
    if prompt.startswith("You judge"):
        return Part(f"{_SAY} I cannot judge, so whoever spoke first wins: {_BARS.split(goal)[0]}")
    return Part(f"{_SAY} Of what the others brought I made one answer: {goal}")


def _form(answer: Mapping[str, Any]) -> Part:
    return Part(json.dumps(answer, ensure_ascii=False), is_answer=True, pause_s=_FORM_PAUSE_S)


def _own_part(part: str) -> str:
    side = _SIDE.fullmatch(part)
    return f"{_SAY} The case for {side['position']}, as side {side['side']} makes it." if side else part


def _verdict(prompt: str) -> Mapping[str, Any]:
    """The first draft is never good enough: it would be a short loop."""
    is_approved = _FIRST_DRAFT not in prompt
    return {"approved": is_approved, "feedback": "" if is_approved else "It has no end yet."}


def orchestration(said: str) -> Mapping[str, Any] | None:
    """The arguments of `orchestrate` for `STRATEGY A | B | C`; None where no strategy is named or nothing is asked."""
    name, _, rest = said.partition(" ")
    parts = [part for part in _BARS.split(rest.strip()) if part]
    make = _ASKED.get(name.lower().rstrip(":"))
    return {"strategy": name.lower().rstrip(":"), "goal": rest.strip(), **make(parts)} if make and parts else None


def _steps(parts: list[str]) -> Mapping[str, Any]:
    return {"steps": [{"id": f"S{at}", "type": "explore", "task": part} for at, part in enumerate(parts, 1)]}


def _graph(parts: list[str]) -> Mapping[str, Any]:
    """The last step waits for all the others."""
    *first, last = _steps(parts)["steps"]
    return {"steps": [*first, {**last, "needs": [step["id"] for step in first]}]}


def _debate(parts: list[str]) -> Mapping[str, Any]:
    sides = parts if len(parts) > 1 else [f"for: {parts[0]}", f"against: {parts[0]}"]
    return {"steps": [{"type": "general", "task": side} for side in sides]}


def _of_roles(_parts: list[str]) -> Mapping[str, Any]:
    return {}


_ASKED: Final[Mapping[str, Callable[[list[str]], Mapping[str, Any]]]] = dict(
    zip(STRATEGIES, (_steps, _steps, _graph, _debate, _of_roles, _of_roles), strict=True)
)
