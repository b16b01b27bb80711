"""The processes of sub-agents, as the operating system shows them."""

from __future__ import annotations

import contextlib

import psutil

MODULE = "agent.subagents.child"


def sub_agents_below(pid: int) -> list[psutil.Process]:
    """Those that live below a process, oldest first; what confines one and is not Python is not counted."""
    found = []
    with contextlib.suppress(psutil.NoSuchProcess):
        for process in psutil.Process(pid).children(recursive=True):
            with contextlib.suppress(psutil.NoSuchProcess, psutil.ZombieProcess):
                if MODULE in process.cmdline() and process.name() != "bwrap":
                    found.append(process)
    return sorted(found, key=lambda process: process.create_time())
