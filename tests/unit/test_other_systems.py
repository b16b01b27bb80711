"""Systems other than Linux, macOS among them: what only Linux has is neither looked up nor called there."""

from __future__ import annotations

import subprocess
import sys

from agent.subagents.confinement import ROOT

AS_ON_MACOS = """
import ctypes, os, resource, sys, sysconfig, urllib.request
sysconfig.get_config_vars()  # as it is on this system, and urllib too
sys.platform = "darwin"
for module, names in ((os, ["O_PATH"]), (resource, ["prlimit", "RLIMIT_SIGPENDING"])):
    for name in names:
        delattr(module, name)
class Library:
    def __init__(self, *_, **__): pass
    def __getattr__(self, name): raise AttributeError(f"dlsym: symbol not found: {name}")
ctypes.CDLL = Library
"""
A_CHILD = """
from agent.subagents.confinement import confine_this_process
from agent.subagents.confinement import die_with_parent, restrain, share_one_heap
from agent.subagents.protocol import ProcessLimits
die_with_parent()
share_one_heap()
restrain(ProcessLimits(descriptors=32))
print(confine_this_process(None, True, "landlock"), resource.getrlimit(resource.RLIMIT_NOFILE)[1])
"""
AN_AGENT = """
import asyncio
import agent.assembly
from agent.subagents.sandbox import find_confinement
from gateway.dumpable import close_to_others
close_to_others()
print("loaded")
"""


def run(code: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", AS_ON_MACOS + code], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_a_child_without_linux_holds_itself_as_far_as_it_can_and_says_so() -> None:
    assert run(A_CHILD) == "plain 32"


def test_an_agent_is_loaded_without_linux() -> None:
    assert run(AN_AGENT) == "loaded"
