"""Stories run many agents on one machine: what works on it is found out once."""

from __future__ import annotations

import compileall
from functools import cache
from typing import Any, Final

import pytest

from agent.subagents import sandbox as children
from agent.tools.exec import sandbox as programs

_compile_once: Final = cache(compileall.compile_dir)
_found: Final[dict[tuple[str, ...], Any]] = {}
"""What was found out of each sandbox; to try one anew for every agent was half of what a story costs."""


@pytest.fixture(autouse=True)
def _sandboxes_are_tried_once(monkeypatch: pytest.MonkeyPatch) -> None:
    try_program, try_child = programs._probe_failure, children._tried

    async def try_program_once(sandbox: programs.Sandbox) -> str | None:
        tried = ("program", sandbox._bwrap, *sandbox._arguments)
        if tried not in _found:
            _found[tried] = await try_program(sandbox)
        complaint: str | None = _found[tried]
        return complaint

    async def try_child_once(sandbox: children.ChildSandbox) -> tuple[str, bool]:
        tried = ("child", sandbox.confinement, *sandbox._bwrap)
        if tried not in _found:
            _found[tried] = await try_child(sandbox)
        found: tuple[str, bool] = _found[tried]
        return found

    monkeypatch.setattr(compileall, "compile_dir", _compile_once)
    monkeypatch.setattr(programs, "_probe_failure", try_program_once)
    monkeypatch.setattr(children, "_tried", try_child_once)
