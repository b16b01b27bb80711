"""Who else may look into a process that holds keys: nobody of its own user."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LOOK = """
import ctypes, os, subprocess, sys
from gateway.process import run_to_exit
if os.geteuid() == 0:  # whom nothing is hidden from
    os.setgroups([]); os.setresgid(65534, 65534, 65534); os.setresuid(65534, 65534, 65534)
    ctypes.CDLL(None).prctl(4, 1, 0, 0, 0)  # which changing the user has undone, and a start of that user would not
def program():
    sys.stdout.write(subprocess.run(["/bin/sh", "-c", SCRIPT], stdout=subprocess.PIPE, text=True).stdout)
SCRIPT = '''
for name in environ mem maps auxv; do (: < /proc/$PPID/$name) 2>&- && echo "reads $name"; done
ls /proc/$PPID/fd > /dev/null 2>&1 && echo "sees files"
(echo 1000 > /proc/$PPID/oom_score_adj) 2>&- && echo "sends the memory killer"
echo looked
'''
"""
LINUX = pytest.mark.skipif(sys.platform != "linux", reason="only Linux closes a process")


def seen_by_a_child(ending: str) -> list[str]:
    """What another program finds of one that runs as the same ordinary user."""
    looking = subprocess.run([sys.executable, "-c", LOOK + ending], cwd=ROOT, stdout=subprocess.PIPE, check=True)
    return looking.stdout.decode().splitlines()


@LINUX
def test_a_child_of_an_ordinary_user_reads_nothing_of_a_program_of_ours() -> None:
    """Of any other program it does, memory aside, which some systems hide from everybody."""
    assert seen_by_a_child("run_to_exit(program)") == ["looked"]
    assert {"reads environ", "sees files", "sends the memory killer", "looked"} <= set(seen_by_a_child("program()"))


@LINUX
def test_a_role_is_closed_before_its_first_module_is_loaded(tmp_path: Path) -> None:
    """Which may take a second, with all keys in the environment."""
    (tmp_path / "a_role.py").write_text("import ctypes; print(ctypes.CDLL(None).prctl(3, 0, 0, 0, 0))")
    with subprocess.Popen(
        [sys.executable, "-m", "gateway.ops.supervisor.child", "a_role"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": f"{tmp_path}:{ROOT}"},
    ) as role:
        assert role.stdout is not None
        assert role.stdout.read() == b"0\n"
