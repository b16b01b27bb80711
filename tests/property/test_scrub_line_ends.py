"""A secret at the end of a line takes nothing of what follows: neither the line's end nor the next line, where that
reads as what lines begin with. What goes on in the next line is `tests/unit/test_scrub_wrapped.py`'s matter."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from typing import Final

import pytest
from typer.testing import CliRunner

from gateway.ops.cli.start import app
from gateway.scrub import Scrubber
from tests.scrubbing.slots import fill
from tests.scrubbing.tokens import TOKENS

LINES: Final = (
    *("2026-11-23T10:00:00Z INFO started", "2026-11-23T10:00:00.123+02:00 WARN late", "2026-11-23 10:00:00 up"),
    *("2026-11-23", "10:00:00 started", "Nov 23 10:00:00 host app[1]: up", "I1123 10:00:00 main.go:7] up"),
    *("1700000000", "1700000000.123 up", "1234567890", "20261123", "404 not found", "42", "127.0.0.1 - - GET / 200"),
    *("next line of words", "Next", "INFO", "DEBUG=true", "port: 5432", "  indented", "- item", "done.", "v1.2.3"),
    *(
        "main.py",
        "foo_bar",
        "requiredTypesForDisplay",
        "web01 up",
        "/var/log/app-1.log",
        "}",
        "</p>",
        "Привет",
        "",
        "x",
    ),
)
LINES_OF_A_KIND: Final = 8
LEADS: Final = ("{}", "token: {}", "export X={}", "2026-11-23T10:00:00Z INFO sent {}")
SCRUBBER: Final = Scrubber(placeholder_key=b"line ends")


def tokens(kind: str) -> Iterator[str]:
    """Some of a kind, each in one line."""
    rng = random.Random(kind)
    drawn = (fill(TOKENS[kind], rng) for _ in range(LINES_OF_A_KIND))
    return (token for token in drawn if "\n" not in token and "\\n" not in token)


def streamed(pieces: Sequence[str]) -> str:
    stream = SCRUBBER.stream()
    return "".join(map(stream.feed, pieces)) + stream.flush()


@pytest.mark.parametrize("kind", TOKENS)
def test_what_follows_the_line_stays_as_it_is(kind: str) -> None:
    """Cut at the line's end or anywhere around it, too."""
    lines = random.Random(kind).sample(LINES, LINES_OF_A_KIND)
    for number, (token, line) in enumerate(zip(tokens(kind), lines, strict=False)):
        before = LEADS[number % len(LEADS)].replace("{}", token)
        after = ("\n", "\r\n")[number % 2] + f"{line}\n"
        clean = SCRUBBER.scrub(before + after)
        assert clean.endswith(after), (before, after)
        assert token not in clean
        for pieces in ([before, after], [before + after[:1], after[1:]], [before[:-3], *before[-3:], *after]):
            assert streamed(pieces) == clean


def test_a_log_goes_through_the_command_line_by_line() -> None:
    secrets = [next(tokens(kind), "a word") for kind in TOKENS]
    log = [
        (f"app: got {secret}", f"2026-11-23T10:00:{number % 60:02}Z INFO next") for number, secret in enumerate(secrets)
    ]
    result = CliRunner().invoke(app, ["scrub"], input="".join(f"{said}\n{line}\n" for said, line in log))
    assert result.exit_code == 0
    lines = result.stdout.split("\n")
    assert lines[1::2] == [line for _, line in log]
    assert len(lines) == 2 * len(log) + 1
