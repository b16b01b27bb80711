"""ARCHITECTURE.md names what is there, and leaves out no room."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
PACKAGES: Final = ("gateway", "channels", "agent")
NO_ROOMS: Final = ("__init__", "__main__", "__pycache__", "py")
A_NAME: Final = re.compile(r"`([a-z0-9_*/.]+)`")


def rows(heading: str) -> list[tuple[str, str]]:
    """Both columns of the table under that heading; a row whose first is empty goes on about the one above."""
    text = (ROOT / "ARCHITECTURE.md").read_text("utf-8")
    section = text.partition(f"## {heading}\n")[2].partition("\n## ")[0]
    found: list[tuple[str, str]] = []
    for first, second in re.findall(r"^\| ?(.*?) ?\| (.*) \|$", section, re.MULTILINE)[1:]:
        found.append((first or found[-1][0], second))
    assert len(found) > 10
    return found


def paths(cell: str) -> Iterator[tuple[str, list[Path]]]:
    """Each name of a cell and what it stands for: the first from the root, those behind it from the folder or the
    package of the one before."""
    folders = [ROOT]
    for name in A_NAME.findall(cell):
        there = [
            path for folder in folders if not name.startswith("/") for path in sorted(folder.glob(name.rstrip("/")))
        ]
        yield name, there
        if there:
            package = ROOT / there[0].relative_to(ROOT).parts[0]
            folders = [ROOT, there[0].parent, package]


def test_every_room_that_is_named_exists() -> None:
    """The first column of the rooms says where, the names in the second are found somewhere in the same packages."""
    lost = [name for first, _ in rows("Rooms") for name, there in paths(first) if not there]
    for first, second in rows("Rooms"):
        packages = {ROOT / path.relative_to(ROOT).parts[0] for _, there in paths(first) for path in there}
        for name in A_NAME.findall(second):
            places = [ROOT, *(packages | {ROOT / package for package in PACKAGES if name.startswith(package)})]
            wanted = name.rstrip("/")
            if not found(places, wanted):
                lost.append(name)
    assert not lost, lost


def found(places: list[Path], wanted: str) -> bool:
    """Whether a file or a folder of that name, its ending aside, is in one of these, the first of them the root."""
    root, *packages = places
    return (root / wanted).exists() or any(
        next(package.rglob(pattern), None) for package in packages for pattern in (wanted, f"{wanted}.*")
    )


def test_every_test_that_guards_an_invariant_exists() -> None:
    """A guard that was moved and not mended guards nothing for whoever looks for it."""
    guards = [
        each for _, guard in rows("Invariants, and what guards them") for each in paths(guard) if "test" in each[0]
    ]
    assert len(guards) > 50
    assert [name for name, there in guards if not there] == []


def test_no_room_is_left_out() -> None:
    """What stands directly in one of the packages has its own place in the first column."""
    named = {path for first, _ in rows("Rooms") for _, there in paths(first) for path in there}
    rooms = {path for package in PACKAGES for path in (ROOT / package).iterdir() if path.stem not in NO_ROOMS}
    missing = sorted(str(path.relative_to(ROOT)) for path in rooms - named)
    assert not missing, missing
