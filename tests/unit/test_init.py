"""What `trivet init` asks, and what it writes."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.config.catalog import catalog
from gateway.contracts.errors import ConfigError
from gateway.ops.doctor import CheckResult, ok, wrong
from gateway.ops.init.interview import AnswerChecks, Answers, Interview
from gateway.ops.init.questions import (
    ADMINS,
    MODEL,
    MODEL_BASE,
    MODEL_KEY,
    PLATFORMS,
    PRESET,
    SetupQuestion,
    configuration_text,
)

QUESTIONS = (
    *(each for platform in PLATFORMS for each in platform.questions),
    MODEL,
    MODEL_KEY,
    MODEL_BASE,
    PRESET,
    ADMINS,
)


class Somebody:
    """Types these lines, and remembers what was shown and which questions hid the answer."""

    def __init__(self, *typed: str) -> None:
        self._typed: Iterator[str] = iter(typed)
        self.shown: list[str] = []
        self.hidden: list[str] = []

    def show(self, text: str) -> None:
        self.shown.append(text)

    def ask(self, asks: str, *, default: str = "", is_secret: bool = False) -> str:
        if is_secret:
            self.hidden.append(asks)
        return next(self._typed) or default

    @property
    def all_shown(self) -> str:
        return "\n".join(self.shown)


class World:
    """Platforms that know one token each, and a model that answers to one name."""

    usual_model = "demo/scripted"

    def value(self, question: SetupQuestion, text: str) -> str:
        return "that is no key" if question is ADMINS and ":" not in text else ""

    def platform(self, name: str, answers: Answers) -> Sequence[CheckResult]:
        return [ok(name, "@bot") if "good" in answers.values() else wrong(name, "refused", "ask for another")]

    def model(self, answers: Answers) -> Sequence[CheckResult]:
        known = answers[MODEL.key] in {"openai/one", "demo/scripted"}
        return [ok(MODEL.key, "hello") if known else wrong(MODEL.key, "unknown", "take another")]


def test_every_question_is_about_a_setting_and_hides_exactly_the_secrets() -> None:
    assert {each.key: each.is_secret for each in QUESTIONS} == {
        each.key: catalog()[each.key].is_secret for each in QUESTIONS
    }


def test_what_is_passed_over_is_not_written() -> None:
    somebody = Somebody("", "", "", "", "", "")
    interview = Interview(somebody, World())
    assert interview.held("trivet.toml") == {MODEL.key: "demo/scripted", PRESET.key: "me"}
    interview.show_what_next("trivet.toml")
    assert "trivet chat" in somebody.shown[-1]
    assert "trivet up" not in somebody.shown[-1]  # which starts nothing without a channel


def test_a_refused_token_is_asked_for_again_and_a_good_one_is_taken() -> None:
    somebody = Somebody("bad", "", "good", "", "", "", "team", "telegram:1")
    interview = Interview(somebody, World())
    assert interview.held("trivet.toml") == {
        "channels.telegram.token": "good",
        MODEL.key: "demo/scripted",
        PRESET.key: "team",
        ADMINS.key: "telegram:1",
    }
    interview.show_what_next("trivet.toml")
    assert "trivet up" in somebody.shown[-1]
    assert "Write to @bot: in Telegram" in somebody.shown[-1]
    assert "trivet pair" not in somebody.shown[-1]


def test_a_token_that_cannot_be_tried_now_may_be_kept() -> None:
    held = Interview(Somebody("bad", "Keep", "", "", "", "", ""), World()).held("trivet.toml")
    assert held["channels.telegram.token"] == "bad"


def test_a_platform_of_two_tokens_is_left_out_without_the_second() -> None:
    held = Interview(Somebody("", "", "good", "", "", "", ""), World()).held("trivet.toml")
    assert list(held) == [MODEL.key, PRESET.key]


def test_a_model_is_named_again_until_it_answers_and_its_key_is_hidden() -> None:
    somebody = Somebody("", "", "", "openai/two", "a key", "", "", "openai/one", "a key", "", "", "")
    held = Interview(somebody, World()).held("trivet.toml")
    assert held == {MODEL.key: "openai/one", MODEL_KEY.key: "a key", PRESET.key: "me"}
    assert MODEL_KEY.asks in somebody.hidden
    assert "a key" not in somebody.all_shown


def test_what_a_setting_cannot_hold_is_asked_for_again() -> None:
    somebody = Somebody("", "", "", "", "", "me", "telegram:1")
    assert Interview(somebody, World()).held("trivet.toml")[ADMINS.key] == "telegram:1"
    assert "that is no key" in somebody.all_shown


@given(st.text(st.characters(codec="utf-8")), st.lists(st.from_regex(r"[a-z]+:\w+", fullmatch=True)))
def test_whatever_was_typed_is_read_back_from_the_file(token: str, admins: list[str]) -> None:
    text = configuration_text({"channels.telegram.token": token, "preset": "team", "access.admins": ", ".join(admins)})
    assert tomllib.loads(text) == {
        "preset": "team",
        "channels": {"telegram": {"token": token}},
        "access": {"admins": admins},
    }


def test_an_answer_is_judged_by_its_setting(tmp_path: Path) -> None:
    blank = tmp_path / "blank.toml"
    blank.touch()
    trying = AnswerChecks(blank, {"TRIVET_AGENT__MODEL": "openai/mine"})
    assert trying.usual_model == "openai/mine"
    assert trying.value(ADMINS, "telegram:1, slack:U1") == ""
    assert "access.admins must be" in trying.value(ADMINS, "me")
    assert "me, team, community" in trying.value(PRESET, "everybody")
    with pytest.raises(ConfigError):
        trying.platform("telegram", {ADMINS.key: "me"})
