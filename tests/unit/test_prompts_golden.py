"""Rendered system prompts, as the model gets them, against files that people read.

After a change that is meant, write them anew and look at the difference:

    .venv/bin/python -m tests.unit.test_prompts_golden
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from agent.prompts.library import PROFILES
from gateway.contracts.messages import CleanText
from gateway.contracts.sessions import GrantRole, Todo, TodoState
from tests.parts.prompting import Writer

GOLDEN: Final = Path(__file__).parents[1] / "golden" / "prompts"
TODOS: Final = (
    Todo(1, CleanText("collect the figures"), TodoState.DONE),
    Todo(2, CleanText("write the summary"), TodoState.IN_PROGRESS),
    Todo(3, CleanText("send it to Bea"), TodoState.PENDING),
)


def _full(writer: Writer) -> CleanText:
    """Everything that can stand in a prompt, in a direct message of an admin."""
    _furnish(writer)
    return writer.prompt("telegram:1", profile=PROFILES["analyst"], todos=TODOS)


def _shared(writer: Writer) -> CleanText:
    """A place with one session for all: nothing of any of them."""
    _furnish(writer)
    return writer.prompt("telegram:/-100456", role=GrantRole.MEMBER, todos=TODOS[2:])


def _guest(writer: Writer) -> CleanText:
    """Somebody who may only read."""
    _furnish(writer)
    return writer.prompt("slack:U2/C1", role=GrantRole.GUEST)


def _furnish(writer: Writer) -> None:
    for name, text in {
        "AGENT": "You work for the tea shop in Hamburg.",
        "IDENTITY": "Your name is Ada.",
        "SOUL": "You are patient, and you like a dry joke.",
        "USER": "You talk to the staff and to customers.",
        "SHIELD": "Never name a purchase price.",
    }.items():
        writer.file(f"workspace/{name}.md", f"{text}\n")
    writer.file("users/telegram:1/USER.md", "This is Anna, who owns the shop.\n")
    writer.file(
        "workspace/skills/house-rules.md",
        "---\ndescription: Rules of the house.\nalways_loaded: true\n---\nOpen from 9 to 18, Sundays closed.\n",
    )
    writer.file("users/telegram:1/skills/ledger.md", "---\ndescription: How Anna keeps her books.\n---\nIn cents.\n")


CASES: Final[dict[str, Callable[[Writer], CleanText]]] = {
    "minimal": Writer.prompt,
    "full": _full,
    "shared_place": _shared,
    "guest": _guest,
}


@pytest.mark.parametrize("name", CASES)
def test_a_prompt_reads_as_its_golden_file_says(name: str, tmp_path: Path) -> None:
    assert CASES[name](Writer(tmp_path)) + "\n" == (GOLDEN / f"{name}.md").read_text("utf-8")


def write_anew() -> None:
    """Overwrite the golden files."""
    for name, render in CASES.items():
        with tempfile.TemporaryDirectory() as folder:
            (GOLDEN / f"{name}.md").write_text(render(Writer(Path(folder))) + "\n", "utf-8")


if __name__ == "__main__":
    write_anew()
