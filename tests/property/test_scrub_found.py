"""What the fuzzer once found stays mended, and the fuzzer's own machinery keeps its word."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fuzz.inputs import CUTS, composed, load
from tests.fuzz.promises import check

FOUND = sorted((Path(__file__).parent.parent / "fuzz" / "found").glob("*.txt"))


@pytest.mark.parametrize("path", FOUND, ids=[path.stem for path in FOUND])
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
