"""`CleanText` is a type, not a habit: only the scrubber makes it of raw text."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MAKERS = ("gateway/scrub/scrubber.py",)
"""Of raw text."""

RESTORERS = (
    "gateway/contracts/envelope.py",
    "gateway/contracts/sessions.py",
    "gateway/contracts/commands.py",
    "gateway/bus/deliveries.py",
    "gateway/bus/access.py",
    "gateway/store/",
)
"""Of text that was clean when it was written; the sentinel title."""

OWN_WORDS = (
    "gateway/contracts/messages.py",
    "gateway/i18n/",
    "agent/prompts/library.py",
    "agent/models/transcript.py",
    "agent/runtime/compaction_plan.py",
)
"""Of what we wrote ourselves: literals and clean parts joined, our sentences and their translations with clean values
in them (`tests/words` pins that what is said is a literal; with other values the type is `str`), the prompt files, the
time of day, the size of what was pruned."""


def calls_of_clean_text(source: str) -> list[int]:
    """The lines on which `CleanText` is called, or made by a cast."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call):
            name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            is_cast = name == "cast" and bool(node.args) and "CleanText" in ast.unparse(node.args[0])
            if name == "CleanText" or is_cast:
                found.append(node.lineno)
    return found


@pytest.mark.parametrize("package", ["gateway", "channels", "agent"])
def test_only_the_scrubber_makes_clean_text(package: str) -> None:
    for path in sorted((ROOT / package).rglob("*.py")):
        name = path.relative_to(ROOT).as_posix()
        if not name.startswith((*MAKERS, *RESTORERS, *OWN_WORDS)):
            assert calls_of_clean_text(path.read_text(encoding="utf-8")) == [], name


def variable_own_words(source: str) -> list[int]:
    """The lines on which `literal_text` is given anything but a literal."""
    return [
        node.lineno
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Call)
        and getattr(node.func, "id", getattr(node.func, "attr", "")) == "literal_text"
        and not all(isinstance(argument, ast.Constant) for argument in node.args)
    ]


@pytest.mark.parametrize("package", ["gateway", "channels", "agent"])
def test_our_own_words_are_literals(package: str) -> None:
    for path in sorted((ROOT / package).rglob("*.py")):
        assert variable_own_words(path.read_text(encoding="utf-8")) == [], path.name


def test_the_law_sees_a_violation() -> None:
    assert calls_of_clean_text("x = messages.CleanText('raw')") == [1]
    assert calls_of_clean_text("x = cast(CleanText, raw)") == [1]
    assert variable_own_words("literal_text(f'{raw}')") == [1]
    assert calls_of_clean_text("def f(x: CleanText) -> CleanText: return x") == []
