"""The last words of a process: whichever way it dies, and whoever prints, no secret is in what it says."""

from __future__ import annotations

import io
import logging
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from gateway import process
from gateway.process import EXIT_CONFIG, LINE_CHARS_MAX, ScrubbedStream
from gateway.scrub import Scrubber
from gateway.telemetry.logs import configure_logs
from tests.parts.logs import logging_put_back
from tests.scrubbing import draw

SECRET = draw("ghp_<base62:36>", seed=21)
OWN = "correct-horse-battery"

BEGINNING = f"""
import asyncio, gc, logging, os, sys, threading, warnings
from gateway.contracts.errors import TrivetError
from gateway.process import run_to_exit
from gateway.scrub import Scrubber
from gateway.process import guard_streams, use_scrubber
secret, own = os.environ["CANARY"], {OWN!r}
"""
ENDINGS = {
    "an exception": "def program(): raise RuntimeError(secret)",
    "an error of ours": "def program(): raise TrivetError('cannot reach ' + secret)",
    "an exception from within another": """
def program():
    try:
        int(secret)
    except ValueError as error:
        raise RuntimeError("no number") from error""",
    "an exception in a thread": """
def program():
    thread = threading.Thread(target=int, args=(secret,))
    thread.start()
    thread.join()""",
    "an exception in a destructor": """
class Thing:
    def __del__(self): raise RuntimeError(secret)
    def __repr__(self): return secret
def program():
    Thing()
    gc.collect()""",
    "several exceptions of tasks": """
async def fail(): raise RuntimeError(secret)
async def both():
    async with asyncio.TaskGroup() as group:
        group.create_task(fail())
        group.create_task(fail())
def program(): asyncio.run(both())""",
    "an exception that nobody waits for": """
async def fail(): raise RuntimeError(secret)
async def forget():
    task = asyncio.create_task(fail())
    await asyncio.sleep(0)
    del task
    gc.collect()
def program(): asyncio.run(forget())""",
    "a warning that is logged before the logs are configured": """
def program(): logging.getLogger("a_library").warning("using %s", secret)""",
    "our own secret, known by then": """
def program():
    use_scrubber(Scrubber([own]))
    raise RuntimeError(own)""",
    "a library that prints": """
def program():
    guard_streams()
    print("sending", secret, end=" ", flush=True)
    print("and", secret)
    sys.stderr.write(secret[:20])
    sys.stderr.flush()
    sys.stderr.write(secret[20:])""",
}


def said_by(program: str) -> subprocess.CompletedProcess[str]:
    """A process of its own that runs `program` to its exit."""
    return subprocess.run(
        [sys.executable, "-c", f"{BEGINNING}\n{program}\nrun_to_exit(program)"],
        env={"CANARY": SECRET, "PATH": os.defpath},
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize("ending", ENDINGS)
def test_whatever_ends_a_process_its_words_are_scrubbed(ending: str) -> None:
    ended = said_by(ENDINGS[ending])
    said = ended.stdout + ended.stderr
    assert "[redacted:" in said
    assert SECRET[8:] not in said
    assert OWN not in said


def test_tasks_that_fail_for_one_reason_end_the_program_as_that_would() -> None:
    program = """
from gateway.contracts.errors import ConfigError
def program(): raise ExceptionGroup("tasks", [ExceptionGroup("deeper", [ConfigError("redis.url is wrong")])])"""
    ended = said_by(program)
    assert ended.returncode == EXIT_CONFIG
    assert ended.stderr == "trivet: redis.url is wrong\n"


def test_without_a_scrubber_the_last_words_are_held_back() -> None:
    ended = said_by("""
def program():
    sys.modules["gateway.scrub"] = None  # as when an upgrade replaces the files meanwhile
    raise RuntimeError(secret)""")
    assert (
        ended.stderr == "trivet: an error cannot be shown, since the scrubber cannot be loaded (ModuleNotFoundError)\n"
    )


class Broken(io.StringIO):
    """A log file on a disk that is full."""

    def write(self, text: str, /) -> int:
        raise OSError("no space left")


def test_a_line_that_cannot_be_written_is_not_printed_instead(capsys: pytest.CaptureFixture[str]) -> None:
    with logging_put_back():
        configure_logs(Scrubber(), output=Broken())
        logging.getLogger("a_library").error("token %s", SECRET)
    assert SECRET not in "".join(capsys.readouterr())


class TestScrubbedStream:
    @pytest.fixture
    def inner(self) -> Iterator[io.StringIO]:
        yield io.StringIO()
        process.use_scrubber(Scrubber())

    def test_half_a_line_waits_for_its_other_half(self, inner: io.StringIO) -> None:
        stream = ScrubbedStream(inner)
        stream.write(f"one\ntwo {SECRET[:10]}")
        stream.flush()
        assert inner.getvalue() == "one\n"
        stream.write(f"{SECRET[10:]}\n")
        assert inner.getvalue().startswith("one\ntwo [redacted:github#")

    def test_a_line_without_an_end_is_passed_on_at_last(self, inner: io.StringIO) -> None:
        stream = ScrubbedStream(inner)
        stream.write("x" * (LINE_CHARS_MAX + 1))
        assert len(inner.getvalue()) == LINE_CHARS_MAX + 1
        stream.write("the end")
        stream.end()
        assert inner.getvalue().endswith("the end")


def test_a_program_of_ours_leaves_no_core() -> None:
    """Also where cores were switched on for it."""
    said = said_by("""
import resource
_, hard = resource.getrlimit(resource.RLIMIT_CORE)
resource.setrlimit(resource.RLIMIT_CORE, (hard, hard))
def program(): print(resource.getrlimit(resource.RLIMIT_CORE)[0])""")
    assert said.stdout == "0\n"
