"""ARCHITECTURE.md names what is there, and leaves out no room. SECURITY.md and README.md name settings that there are,
and SECURITY.md bounds that hold."""

from __future__ import annotations

import re
from collections.abc import Iterator
from math import log2
from pathlib import Path
from typing import Final

import pytest

from agent.limits import (
    BUTTON_TOKEN_CHARS,
    LENT_KNOWN_S,
    SUBAGENT_RIGHTS_EVERY_S,
    WORKSPACE_BYTES_MAX,
    WORKSPACE_FILES_MAX,
)
from agent.subagents.protocol import LINE_BYTES_MAX, LINE_PARTS_MAX
from channels.discord import interactions as of_discord
from channels.discord.limits import HISTORY_AGE_MAX_S
from channels.slack import client as of_slack
from gateway.clock import _READABLE
from gateway.config.catalog import Setting, catalog
from gateway.config.features import VAULT_TTL_S_MAX
from gateway.limits import (
    ADMIN_TOKEN_CHARS_MIN,
    FOREIGN_TIMEOUT_S,
    LINK_CODE_TTL_S,
    LINK_LOCKED_S,
    LINK_TRIES_MAX,
    PAIRING_LOCKED_S,
    PAIRING_TRIES_MAX,
)

ROOT: Final = Path(__file__).parents[2]
PACKAGES: Final = ("gateway", "channels", "agent")
NO_ROOMS: Final = ("__init__", "__main__", "__pycache__", "py")
A_NAME: Final = re.compile(r"`([a-z0-9_*/.]+)`")
A_SETTING: Final = re.compile(r"`\[?([a-z_]+(?:\.[a-z_]+)+)\]?(?: = [^`]*)?`")
PROMISED: Final = {
    "An admin token of fewer than 32 characters": (ADMIN_TOKEN_CHARS_MIN, 32),
    "at most 8 MiB and 250,000 parts": ((LINE_BYTES_MAX, LINE_PARTS_MAX), (8 * 1024 * 1024, 250_000)),
    "lasts at most 20 seconds": (FOREIGN_TIMEOUT_S, 20),
    "Five wrong codes": ({PAIRING_TRIES_MAX, LINK_TRIES_MAX}, {5}),
    "lock their enterer out for an hour": ({PAIRING_LOCKED_S, LINK_LOCKED_S}, {3600}),
    "its sub-agents end within a second": (SUBAGENT_RIGHTS_EVERY_S < 1, True),
    "anything older than five minutes": ({of_slack.REPLAY_WINDOW_S, of_discord.REPLAY_WINDOW_S}, {300}),
    "a random token** of 132 bits": (int(BUTTON_TOKEN_CHARS * log2(len(_READABLE))), 132),
    "holds ten minutes": (LINK_CODE_TTL_S, 600),
    "512 MB and 20,000 files": ((WORKSPACE_BYTES_MAX, WORKSPACE_FILES_MAX), (512 * 1024 * 1024, 20_000)),
    "History is read back for 24 h": (HISTORY_AGE_MAX_S, 24 * 3600),
    "kept for at most 15 minutes": (VAULT_TTL_S_MAX, 15 * 60),
    "remembers for up to 30 minutes": (LENT_KNOWN_S, 30 * 60),
}
"""What SECURITY.md says of a bound: the bound in the code, and as it is said."""


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


@pytest.mark.parametrize("words", PROMISED)
def test_a_bound_that_is_promised_is_the_one_that_holds(words: str) -> None:
    in_the_code, as_said = PROMISED[words]
    assert words in " ".join((ROOT / "SECURITY.md").read_text("utf-8").split())
    assert in_the_code == as_said


@pytest.mark.parametrize("document", ["SECURITY.md", "README.md"])
def test_every_setting_that_is_named_exists(document: str) -> None:
    """Or the table that it stands in; below a table of entries every name is one."""
    tables = {key.partition(".")[0] for key in catalog()}
    named = A_SETTING.findall((ROOT / document).read_text("utf-8"))
    settings = [name for name in named if name.partition(".")[0] in tables]
    assert len(settings) > 5
    assert [name for name in settings if not any(is_named(name, setting) for setting in catalog().values())] == []


def is_named(name: str, setting: Setting) -> bool:
    return f"{setting.key}.".startswith(f"{name}.") or (setting.is_table and name.startswith(f"{setting.key}."))
