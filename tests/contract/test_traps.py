"""Each known trap of the platforms is pinned by a test that exists, or says why it needs none."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

from tests.contract.traps import TRAPS

ROOT = Path(__file__).parents[2]
NUMBERS = {"8": 69, "3.13": 11, "4.16": 6, "10.1": 10, "10.2": 9}


@pytest.mark.parametrize(("chapter", "last"), NUMBERS.items())
def test_no_trap_is_left_out(chapter: str, last: int) -> None:
    assert list(TRAPS[chapter]) == list(range(1, last + 1))


def test_every_test_that_is_named_exists() -> None:
    named = {test for chapter in TRAPS.values() for test in chapter.values() if not test.startswith("exempt: ")}
    missing = {test for test in named if test.partition("::")[2] not in pinned_in(test.partition("::")[0])}
    assert missing == set()


def test_whatever_is_exempt_has_a_reason() -> None:
    exempt = [text for chapter in TRAPS.values() for text in chapter.values() if text.startswith("exempt:")]
    assert all(len(text.removeprefix("exempt: ").split()) > 5 for text in exempt)


@cache
def pinned_in(path: str) -> frozenset[str]:
    """The names of the tests in a file."""
    text = (ROOT / path).read_text(encoding="utf-8")
    return frozenset(re.findall(r"^ *(?:async )?def (test_\w+)\(", text, re.MULTILINE))
