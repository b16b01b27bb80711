"""Runs inside the fuzzer: every input is a case, every broken promise a file in `found/`, and on it goes.

Started by `python -m tests.fuzz`; takes libFuzzer's own arguments.
"""

from __future__ import annotations

import hashlib
import sys
from collections import Counter
from pathlib import Path
from typing import Final

import atheris

with atheris.instrument_imports(include=["gateway.scrub"]):
    from tests.fuzz.inputs import Case, composed
    from tests.fuzz.promises import BrokenPromise, check
    from tests.fuzz.shrinking import smallest

FOUND: Final = Path(__file__).with_name("found")
OF_ONE_PROMISE_MAX: Final = 10
"""More of the same would be the same mistake."""

_found: Counter[str] = Counter()


def broken(case: Case) -> str | None:
    """The promise that this case breaks, None if all hold."""
    try:
        check(case)
    except BrokenPromise as broken_promise:
        return broken_promise.promise
    except Exception as exception:  # noqa: BLE001 - this is what we are looking for
        return f"no exception, {type(exception).__name__}"
    return None


def test_one_input(source: bytes) -> None:
    """Called by the fuzzer."""
    case = composed(source)
    promise = broken(case)
    if promise is None or _found[promise] >= OF_ONE_PROMISE_MAX:
        return
    case = smallest(case, lambda smaller: broken(smaller) == promise)
    kept = case.dump()
    path = FOUND / f"{promise.replace(' ', '-').replace(',', '')}-{hashlib.sha256(kept.encode()).hexdigest()[:8]}.txt"
    if not path.exists():
        _found[promise] += 1
        path.write_text(kept, encoding="utf-8")
        sys.stderr.write(f"fuzz: {path.name}: {case.text()!r:.300}\n")


if __name__ == "__main__":
    broken(composed(b""))  # reads the rules, which no input is to pay for
    atheris.Setup(sys.argv, test_one_input)
    atheris.Fuzz()
