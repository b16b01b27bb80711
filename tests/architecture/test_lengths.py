"""No file is longer than one reads at a sitting, tests included."""

from __future__ import annotations

from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
PACKAGES: Final = ("gateway", "channels", "agent", "tests")
SUFFIXES: Final = (".py", ".lua", ".js")
FILE_LINES_MAX: Final = 800


def test_no_file_is_too_long() -> None:
    """Keep each file a chapter that one can read in one go."""
    files = [path for package in PACKAGES for path in (ROOT / package).rglob("*") if path.suffix in SUFFIXES]
    assert len(files) > 100
    lengths = {str(path.relative_to(ROOT)): len(path.read_text("utf-8").splitlines()) for path in files}
    assert {name: length for name, length in lengths.items() if length > FILE_LINES_MAX} == {}
