"""Hold that ARCHITECTURE.md is short and names every folder, and only what exists.

SECURITY.md names settings that exist and bounds that hold. Of README.md and docs `tests/unit/test_docs.py` holds that.
"""

from __future__ import annotations

import re
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
from channels.core import adapter
from channels.discord.limits import HISTORY_AGE_MAX_S
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
LINES_MAX: Final = 200
WORDS_MAX: Final = 25
A_PATH: Final = re.compile(r"`((?:gateway|channels|agent|tests|deploy)(?:/[A-Za-z0-9_*.]+)*/?)`")
A_TEST: Final = re.compile(r"`((?:tests/[a-z0-9_*/.]+)|(?:test_[a-z0-9_*]+\.py))`")
A_WORD: Final = re.compile(r"\*\*([a-z -]+)\*\*")
STEPS: Final = ["receive", "admit", "sanitize", "enqueue", "claim", "run", "commit", "deliver", "acknowledge"]
A_SETTING: Final = re.compile(r"`\[?([a-z_]+(?:\.[a-z_]+)+)\]?(?: = [^`]*)?`")
PROMISED: Final = {
    "An admin token of fewer than 32 characters": (ADMIN_TOKEN_CHARS_MIN, 32),
    "at most 8 MiB and 250,000 parts": ((LINE_BYTES_MAX, LINE_PARTS_MAX), (8 * 1024 * 1024, 250_000)),
    "lasts at most 20 seconds": (FOREIGN_TIMEOUT_S, 20),
    "Five wrong codes": ({PAIRING_TRIES_MAX, LINK_TRIES_MAX}, {5}),
    "lock their enterer out for an hour": ({PAIRING_LOCKED_S, LINK_LOCKED_S}, {3600}),
    "its sub-agents end within a second": (SUBAGENT_RIGHTS_EVERY_S < 1, True),
    "anything older than five minutes": (adapter.REPLAY_WINDOW_S, 300),
    "a random token** of 132 bits": (int(BUTTON_TOKEN_CHARS * log2(len(_READABLE))), 132),
    "holds ten minutes": (LINK_CODE_TTL_S, 600),
    "512 MB and 20,000 files": ((WORKSPACE_BYTES_MAX, WORKSPACE_FILES_MAX), (512 * 1024 * 1024, 20_000)),
    "History is read back for 24 h": (HISTORY_AGE_MAX_S, 24 * 3600),
    "kept for at most 15 minutes": (VAULT_TTL_S_MAX, 15 * 60),
    "remembers for up to 30 minutes": (LENT_KNOWN_S, 30 * 60),
}
"""What SECURITY.md says of a bound: the bound in the code, and as it is said."""


def document() -> str:
    return (ROOT / "ARCHITECTURE.md").read_text("utf-8")


def section(heading: str) -> str:
    """Return the text below that heading, up to the next one."""
    found = document().partition(f"## {heading}\n")[2].partition("\n## ")[0]
    assert found, heading
    return found


def rows(heading: str) -> list[tuple[str, str]]:
    """Return both columns of the table below that heading, without the row of titles."""
    found = re.findall(r"^\| (.*?) \| (.*) \|$", section(heading), re.MULTILINE)[1:]
    assert len(found) > 10
    return found


def exists(path: str) -> bool:
    return next(ROOT.glob(path.rstrip("/")), None) is not None


def folders() -> set[str]:
    """Return every folder of the three packages that holds a file of ours."""
    return {
        str(folder.relative_to(ROOT))
        for package in PACKAGES
        for folder in [ROOT / package, *(ROOT / package).rglob("*/")]
        if folder.name != "__pycache__" and any(path.is_file() for path in folder.iterdir())
    }


def test_the_document_is_short() -> None:
    assert len(document().splitlines()) <= LINES_MAX
    assert 10 < len(A_WORD.findall(section("Words"))) <= WORDS_MAX


def test_every_path_that_is_named_exists() -> None:
    named = A_PATH.findall(document())
    assert len(named) > 50
    assert [path for path in named if not exists(path)] == []


def test_every_folder_is_named() -> None:
    """A folder has a place in the first column of the folders, once."""
    named = [path for first, _ in rows("Folders") for path in A_PATH.findall(first)]
    assert sorted(named) == sorted(folders())


def test_each_step_of_the_walk_has_one_file() -> None:
    steps = rows_of_the_walk()
    assert [step for step, _ in steps] == STEPS
    assert [file for _, file in steps if not (ROOT / file.strip("`")).is_file()] == []


def rows_of_the_walk() -> list[tuple[str, str]]:
    return re.findall(r"^\| (\w+) \| (`[^`|]*`) \|", section("The walk of one message"), re.MULTILINE)


def test_every_test_that_holds_an_invariant_exists() -> None:
    """A test is named by its path, or by its name in the folder of the test before it."""
    missing: list[str] = []
    held = 0
    for _, cell in rows("Invariants, and the tests that hold them"):
        folder = "tests"
        for name in A_TEST.findall(cell):
            path = name if "/" in name else f"{folder}/{name}"
            folder = path.rpartition("/")[0]
            held += 1
            if not exists(path):
                missing.append(path)
    assert held > 80
    assert missing == []


@pytest.mark.parametrize("words", PROMISED)
def test_a_bound_that_is_promised_is_the_one_that_holds(words: str) -> None:
    in_the_code, as_said = PROMISED[words]
    assert words in " ".join((ROOT / "SECURITY.md").read_text("utf-8").split())
    assert in_the_code == as_said


def test_every_setting_that_is_named_exists() -> None:
    """Or the table that it stands in; below a table of entries every name is one."""
    tables = {key.partition(".")[0] for key in catalog()}
    named = A_SETTING.findall((ROOT / "SECURITY.md").read_text("utf-8"))
    settings = [name for name in named if name.partition(".")[0] in tables]
    assert len(settings) > 5
    assert [name for name in settings if not any(is_named(name, setting) for setting in catalog().values())] == []


def is_named(name: str, setting: Setting) -> bool:
    return f"{setting.key}.".startswith(f"{name}.") or (setting.is_table and name.startswith(f"{setting.key}."))
