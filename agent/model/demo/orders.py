"""What the demo model asks of sub-agents: the arguments of their tool, one order for each task. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Final

from agent.model.demo.wishes import parts_of

_TYPED: Final = re.compile(r"(?P<type>[a-z]+):\s*(?P<task>.+)", re.DOTALL)
_OTHERWISE: Final = "explore"
_LEAST_WATCHED_S: Final = 5  # what is asked for in plain words takes long enough to be seen on the board

IsTold = Callable[[str], bool]
"""Whether a task says by its first word what is to be done."""


def orders(rest: str, is_told: IsTold, types: Collection[str]) -> list[Mapping[str, str]]:
    """The tasks of `split` and `spawn`: as they stand between bars, or as they are listed in plain words. A type in
    front of a task chooses who does it, where `types` are unknown or have one of that name."""
    tasks = [task.strip() for task in rest.split("|") if task.strip()]
    if len(tasks) == 1 and not is_told(rest) and not _TYPED.fullmatch(rest):
        return watched(parts_of(rest), is_told, types)
    return [_order(task, types) for task in tasks]


def watched(parts: Sequence[str], is_told: IsTold, types: Collection[str]) -> list[Mapping[str, str]]:
    """Each takes a little longer than the one before it; one that says what it does takes as long as that."""
    return [
        _order(part, types) if is_told(part) else {**_order(part, types), **_slow(_order(part, types)["task"], seconds)}
        for seconds, part in enumerate(parts, _LEAST_WATCHED_S)
    ]


def _slow(task: str, seconds: int) -> Mapping[str, str]:
    return {"task": f"slow {seconds} {task}", "label": task}


def _order(task: str, types: Collection[str]) -> Mapping[str, str]:
    typed = _TYPED.fullmatch(task)
    if typed and (not types or typed["type"] in types):
        return {"type": typed["type"], "task": typed["task"]}
    return {"type": _OTHERWISE, "task": task}
