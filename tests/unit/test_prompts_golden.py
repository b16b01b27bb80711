"""Rendered system prompts, as the model gets them, against files that people read.

After a change that is meant, write them anew and look at the difference:

    .venv/bin/python -m tests.unit.test_prompts_golden
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Final

import pytest

from agent.prompts.library import PROFILES, PROMPTS, load_prompt
from agent.tokens import estimate_tokens, stand_in
from gateway.contracts.context_blocks import _NAMES, _OURS
from gateway.contracts.messages import CleanText
from gateway.contracts.profiles import SUB_TYPE_ROWS
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


WRITTEN_FOR_OTHERS: Final = {"history", "known", "conversation", "earlier-summary"}
"""Blocks in the requests of other prompts than a turn's: these explain them themselves."""


def test_every_block_of_the_gateway_is_explained_in_one_line() -> None:
    """In the ground rules those of a turn; a sub-agent reads of the three that it meets."""
    names = set(f"{_OURS}|{_NAMES}".split("|")) - WRITTEN_FOR_OTHERS
    lines = PROMPTS.system.splitlines()
    for name in (*names, "output pruned"):
        assert sum(f"<{name}>" in line for line in lines if line.startswith("- <")) == 1, name
    assert all(f"<{name}>" in PROMPTS.delegated for name in ("foreign", "tool-failures", "output pruned"))
    assert stand_in("").startswith("<output pruned")
    assert all(f"<{name}>" in PROMPTS.gather + PROMPTS.summary for name in WRITTEN_FOR_OTHERS - {"history"})


def test_the_prompts_stay_short(capsys: pytest.CaptureFixture[str]) -> None:
    """Each is paid for again and again: the ground rules with every message."""
    sizes = {field.name: estimate_tokens(getattr(PROMPTS, field.name)) for field in fields(PROMPTS)}
    types = {name: estimate_tokens(load_prompt(f"subagents/{name}")) for name in SUB_TYPE_ROWS}
    with capsys.disabled():
        print("\nprompt tokens (estimated):", ", ".join(f"{name} {size}" for name, size in sizes.items()))
        print("sub-agents:", ", ".join(f"{name} {size}" for name, size in types.items()))
    assert sizes["system"] <= 1_200
    assert max(types.values()) <= 500


def write_anew() -> None:
    """Overwrite the golden files."""
    for name, render in CASES.items():
        with tempfile.TemporaryDirectory() as folder:
            (GOLDEN / f"{name}.md").write_text(render(Writer(Path(folder))) + "\n", "utf-8")


if __name__ == "__main__":
    write_anew()
