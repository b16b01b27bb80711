"""The answers of sub-agents that decide how an orchestration goes on: a reviewer's verdict, a lead's parts. Pure.

A verdict is believed only as a whole JSON object: what approves is the field `approved`, never a word in a sentence,
and nothing is mended into an approval.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, Final

from agent.limits import ORCHESTRATION_TASK_CHARS_MAX
from agent.tools.arguments import parse_arguments
from gateway.contracts.errors import ToolError

_FENCED: Final = re.compile(r"```(?:json)?\s*\n(?P<inside>.*)\n\s*```", re.DOTALL | re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a reviewer decided, and what it wants mended."""

    approved: bool
    feedback: str


@dataclass(frozen=True, slots=True)
class Part:
    """One of the parts that a lead has split its work into."""

    sub_type: str
    task: str


class BadParts(ValueError):
    """What a lead wrote is no list of parts. The message is a clause for its ear."""


def read_verdict(text: str) -> Verdict | None:
    """The verdict, None if the answer is not one JSON object with a true or false `approved`."""
    fenced = _FENCED.fullmatch(text.strip())
    try:
        written = json.loads(fenced["inside"] if fenced else text, object_pairs_hook=_without_twins)
    except (ValueError, RecursionError):
        return None
    if not isinstance(written, dict) or not isinstance(written.get("approved"), bool):
        return None
    return Verdict(written["approved"], _plain(written.get("feedback")))


def read_parts(text: str, *, types: Collection[str], otherwise: str, parts_max: int) -> tuple[Part, ...]:
    """The parts in a lead's answer; one without a type is done by `otherwise`. Raises `BadParts`."""
    start, end = text.find("{"), text.rfind("}")
    if not 0 <= start < end:
        raise BadParts("the answer holds no JSON object")
    try:
        written = parse_arguments(text[start : end + 1]).get("parts")
    except ToolError as error:
        raise BadParts(str(error)) from error
    if not isinstance(written, list) or not written:
        raise BadParts("`parts` is no list with at least one part")
    if len(written) > parts_max:
        raise BadParts(f"there are {len(written)} parts, and there may be {parts_max} at most")
    return tuple(_part(place, part, types, otherwise) for place, part in enumerate(written, 1))


def _part(place: int, written: object, types: Collection[str], otherwise: str) -> Part:
    if not isinstance(written, dict):
        raise BadParts(f"part {place} is no object with `type` and `task`")
    task = written.get("task")
    if not isinstance(task, str) or not task.strip():
        raise BadParts(f"part {place} has no `task`")
    if len(task) > ORCHESTRATION_TASK_CHARS_MAX:
        raise BadParts(f"the task of part {place} is longer than {ORCHESTRATION_TASK_CHARS_MAX} characters")
    sub_type = written.get("type") or otherwise
    if sub_type not in types:
        raise BadParts(f"part {place} has an unknown type; there are: {', '.join(sorted(types))}")
    return Part(sub_type, task.strip())


def _without_twins(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object that says a thing twice may say two things."""
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("two fields have the same name")
    return found


def _plain(feedback: object) -> str:
    if feedback is None:
        return ""
    return feedback if isinstance(feedback, str) else json.dumps(feedback, ensure_ascii=False)
