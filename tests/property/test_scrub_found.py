"""What the fuzzer once found stays mended, and the fuzzer's own machinery keeps its word."""

from __future__ import annotations

from pathlib import Path

import pytest
from _pytest.mark import ParameterSet
from hypothesis import given
from hypothesis import strategies as st

from tests.fuzz.inputs import CUTS, composed, load
from tests.fuzz.promises import check

FOUND = sorted((Path(__file__).parent.parent / "fuzz" / "found").glob("*.txt"))


OPEN = {
    "a-second-scrub-changes-nothing-26265956": "nine tokens wall to wall",
    "a-second-scrub-changes-nothing-b35debab": "nine tokens wall to wall in a quoted value",
    "a-second-scrub-changes-nothing-c4627240": "an announced value of more than 512 characters, and a token at its end",
    "a-second-scrub-changes-nothing-e9907a78": "nine tokens wall to wall",
    "a-second-scrub-changes-nothing-e9b5999b": "nine tokens wall to wall",
    "a-second-scrub-changes-nothing-f4898743": "an address with a user and no password",
    "a-second-scrub-changes-nothing-f711cfd5": "nine tokens wall to wall",
    "a-second-scrub-changes-nothing-f7f43a2f": "announced values wall to wall",
    "a-stream-equals-the-whole-3515ddf1": "a known value with spaces and a key file that begins",
    "a-stream-equals-the-whole-3be187bb": "a known value with spaces, four times wall to wall",
    "a-stream-equals-the-whole-54a0659e": "two tokens in two lines, the second with another wall to wall",
    "a-stream-equals-the-whole-79985520": "a known value with spaces, twice wall to wall",
    "a-token-between-spaces-goes-9ee6c0e3": "a token that looks too much like words",
    "a-token-between-spaces-goes-f5811d10": "a token that looks too much like words",
}
"""Not mended yet; who mends one takes it off this list."""


def case(path: Path) -> ParameterSet:
    marks = [pytest.mark.xfail(reason=OPEN[path.stem])] if path.stem in OPEN else []
    return pytest.param(path, id=path.stem, marks=marks)


@pytest.mark.parametrize("path", [case(path) for path in FOUND])
def test_what_was_found_stays_mended(path: Path) -> None:
    check(load(path.read_text(encoding="utf-8")))


@given(st.binary(max_size=160))
def test_a_kept_case_is_the_same_case(source: bytes) -> None:
    case = composed(source)
    kept = load(case.dump())
    assert kept == case
    assert kept.text() == case.text()
    assert "".join(case.chunks(case.text())) == case.text()
    assert len(case.chunks(case.text())) == CUTS + 1
