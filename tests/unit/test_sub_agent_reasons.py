"""Why a sub-agent did not complete, or was not to be had, as people and models read it: each code has its words."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterable, Iterator
from enum import StrEnum
from pathlib import Path
from string import Formatter

import pytest

from agent.subagents.runs import OrderRefused
from agent.subagents.steps import conclude_without_result
from gateway.contracts.errors import NoSubAgent, Reason, Shortfall
from gateway.i18n import ENGLISH, Language, Words
from gateway.i18n.reasons import SHORTFALLS, WORDINGS, in_brief, in_words, instead_of, own_code_of

ROOT = Path(__file__).parents[2]
FOREIGN = [language for language in Language if language is not Language.EN]
IN_A_MODEL_S_EARS = re.compile(r"[a-z].*[a-z`)]")
"""How an order begins and ends that stands behind a colon, or as a sentence of its own."""


def named_in(text: str) -> set[str]:
    """The places for values."""
    return {name for _, name, _, _ in Formatter().parse(text) if name}


def code_of(reason: Reason) -> str:
    """As a row would hold it."""
    names = named_in(reason)
    return reason.of("7" if "number" in names else "SomeError") if names else reason


def without_words(codes: Iterable[StrEnum], table: Collection[StrEnum]) -> list[str]:
    """The codes that have no row."""
    return [code for code in codes if code not in table]


def test_every_code_has_its_row() -> None:
    assert without_words([*Reason, *NoSubAgent], WORDINGS) == []
    assert without_words(Shortfall, SHORTFALLS) == []
    assert (len(WORDINGS), len(SHORTFALLS)) == (len(Reason) + len(NoSubAgent), len(Shortfall))


def test_a_code_that_is_added_without_a_row_is_seen() -> None:
    class Later(StrEnum):
        EATEN = "eaten_by_{name}"

    assert without_words([*Reason, *Later], WORDINGS) == ["eaten_by_{name}"]


@pytest.mark.parametrize("reason", Reason)
def test_every_end_is_told_in_every_language_without_its_code(reason: Reason) -> None:
    code = code_of(reason)
    english = in_words(code)
    for told in (english, in_brief(code, ENGLISH)):
        assert " " in told or told == "stopped"
        assert not re.search(r"[_{}]", told)
        assert all(figure in told for figure in ("7", "SomeError") if figure in code)
    for language in FOREIGN:
        assert in_words(code, Words(language)) not in ("", english)
        assert in_brief(code, Words(language)) not in ("", in_brief(code, ENGLISH))


@pytest.mark.parametrize("refusal", NoSubAgent)
def test_every_refusal_tells_a_person_why_and_a_model_what_to_do_instead(refusal: NoSubAgent) -> None:
    values = dict.fromkeys(named_in(WORDINGS[refusal].happened), "some 7")
    refused = OrderRefused(refusal, **values)
    assert str(refused) == f"{refused.said(ENGLISH)}: {instead_of(refusal)}"
    for language in FOREIGN:
        assert refused.said(Words(language)) not in ("", refused.said(ENGLISH))
        assert all(value in refused.said(Words(language)) for value in values.values())


@pytest.mark.parametrize("shortfall", Shortfall)
def test_every_shortfall_tells_a_model_why_and_what_to_do_instead(shortfall: Shortfall) -> None:
    values = dict.fromkeys(named_in(SHORTFALLS[shortfall].happened), "some 7")
    outcome = conclude_without_result((), shortfall, **values)
    assert not re.search(r"[_{}]", outcome.problem)
    assert IN_A_MODEL_S_EARS.fullmatch(outcome.instead)


@pytest.mark.parametrize("known", [*map(code_of, Reason), *NoSubAgent])
def test_a_model_is_told_what_it_may_do_instead(known: str) -> None:
    assert IN_A_MODEL_S_EARS.fullmatch(instead_of(known))


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("worker_lost", "its process was lost with the worker that ran it"),
        ("killed_by_signal_9", "its process was killed by signal 9"),
        ("limit_300_s", "it took longer than 300 s"),
        ("limit_0.5_s", "it took longer than 0.5 s"),
        ("exit_1", "its process ended with code 1"),
        ("memory_over_1024_mb", "it took more than 1024 MB of memory"),
        ("threads_over_64", "it started more than 64 threads"),
        ("raised_MemoryError", "it had no memory left"),
        ("raised_KeyError", "its process failed (KeyError)"),
        (
            "protocol_9223372036854775807",
            "its process speaks another protocol (9223372036854775807): half of an upgrade",
        ),
    ],
)
def test_a_code_reads_as_a_clause(code: str, words: str) -> None:
    assert in_words(code).startswith(words)


@pytest.mark.parametrize("code", ["eaten_by_mice", "killed_by_signal_", "killed_by_signal_{number}", "limit_x_s", ""])
def test_a_code_of_another_release_reads_as_it_is(code: str) -> None:
    for language in Language:
        assert in_words(code, Words(language)) == code.replace("_", " ")
        assert in_brief(code, Words(language)) == ""
    assert instead_of(code) == ""


@pytest.mark.parametrize(
    "said", ["budget_spent", "worker_lost", "killed_by_signal_9", "raised_", "raised_X: tell the user", "no_task", ""]
)
def test_a_child_gives_no_reason_that_is_its_parents_to_give(said: str) -> None:
    assert own_code_of(said) is None


@pytest.mark.parametrize("said", ["raised_hunter2_hunter2", "raised_id", "protocol_4111111111111111"])
def test_what_a_child_gives_as_its_reason_carries_nothing_else(said: str) -> None:
    """A code is shown as it is: whatever could be a secret is among its words, which are scrubbed."""
    assert own_code_of(said) is None


@pytest.mark.parametrize("said", ["model_failed", "rounds_spent", "raised_OSError", "protocol_1"])
def test_a_child_says_why_it_cannot_go_on(said: str) -> None:
    assert own_code_of(said) == said


# --- that what is said there is what the sources say


def sources() -> Iterator[ast.AST]:
    """Every node of whoever ends, refuses or shows sub-agents."""
    for package in ("agent/subagents", "gateway/ops/admin"):
        for path in sorted((ROOT / package).rglob("*.py")):
            yield from ast.walk(ast.parse(path.read_text("utf-8")))


def given(node: ast.AST) -> tuple[str, set[str]] | None:
    """Which refusal or shortfall a call names, and the values that it gives."""
    if not isinstance(node, ast.Call):
        return None
    known = [each for each in node.args if isinstance(each, ast.Attribute)]
    for each in known:
        if isinstance(each.value, ast.Name) and each.value.id in ("NoSubAgent", "Shortfall"):
            return f"{each.value.id}.{each.attr}", {str(keyword.arg) for keyword in node.keywords}
    return None


def test_whoever_refuses_or_falls_short_gives_the_values_that_the_words_name() -> None:
    found = [call for call in map(given, sources()) if call is not None]
    texts: dict[str, str] = {f"NoSubAgent.{refusal.name}": WORDINGS[refusal].happened for refusal in NoSubAgent}
    texts |= {f"Shortfall.{shortfall.name}": SHORTFALLS[shortfall].happened for shortfall in Shortfall}
    assert [(name, values) for name, values in found if values != named_in(texts[name])] == []
    assert texts.keys() - {name for name, _ in found} == {"Shortfall.TIME_UP"}  # looked up where the time is kept


def test_no_code_is_spelled_beside_the_enumeration() -> None:
    spelled = {
        node.value
        for node in sources()
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and re.fullmatch(r"\w*_\w*", node.value)
    }
    assert {word for word in spelled if instead_of(word)} == set()
