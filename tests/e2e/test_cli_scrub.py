"""`trivet scrub` as a filter between other programs: long files, pieces that end anywhere, a reader that leaves."""

from __future__ import annotations

import contextlib
import re
import signal
import subprocess
import sys

import pytest

from tests.scrubbing import draw

SECRET = draw("ghp_<base62:36>", seed=31)
FILTER = (sys.executable, "-m", "gateway", "scrub")


@pytest.mark.long
def test_a_long_file_gives_what_the_text_in_one_piece_gives() -> None:
    """Pieces of the file end anywhere: in a character, in a secret, between a password and its value."""
    numbers = range(6000)
    text = "".join(f"{number} мой пароль:\n  Qwe{number}!@#\nключ {SECRET}\n" for number in numbers)
    ended = subprocess.run(FILTER, check=True, input=text.encode(), capture_output=True, timeout=60)
    kept = re.sub(r"\[redacted:([a-z-]+)#\w+\]", r"[\1]", ended.stdout.decode())
    assert kept == "".join(f"{number} мой пароль:\n  [named]\nключ [github]\n" for number in numbers)


def test_bytes_that_are_no_text_do_not_stop_it() -> None:
    given = b"a \xff b " + SECRET.encode() + b" \xd0"
    ended = subprocess.run(FILTER, check=True, input=given, capture_output=True, timeout=60)
    assert re.fullmatch(r"a \ufffd b \[redacted:github#\w+\] \ufffd", ended.stdout.decode())


@pytest.mark.skipif(not hasattr(signal, "SIGPIPE"), reason="there is no SIGPIPE on Windows")
def test_it_gives_what_it_has_at_once_and_ends_quietly_when_nobody_reads_on() -> None:
    pipe = subprocess.PIPE
    with subprocess.Popen(FILTER, stdin=pipe, stdout=pipe, stderr=pipe) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdin.write(b"a line\n")
        process.stdin.flush()
        assert process.stdout.read(6) == b"a line"
        process.stdout.close()
        with contextlib.suppress(BrokenPipeError):
            process.stdin.write(b"a line\n" * 100_000)
        with contextlib.suppress(BrokenPipeError):
            process.stdin.close()
        process.stdin = None
        assert process.stderr.read() == b""
        assert process.wait(20) == -signal.SIGPIPE
