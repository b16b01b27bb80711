"""The talk of `trivet init`: asks, has every answer tried where it is used, and asks again."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, Protocol, TypeAlias

from gateway.config import SCRIPTED_MODEL, Settings, load_settings
from gateway.config.catalog import catalog
from gateway.config.loader import CONFIG_VARIABLE
from gateway.config.presets import Preset
from gateway.contracts.errors import ConfigError
from gateway.ops.doctor import CheckResult, CheckState, as_table, is_healthy, ok, wrong
from gateway.ops.doctor.platforms import check_platforms
from gateway.ops.init import questions
from gateway.preflight import said_by_agent

Answers: TypeAlias = Mapping[str, str]
"""Texts by the keys of settings, as they would be in the environment."""

_KEEP: Final = "keep"
_KEPT: Final = f"Enter to answer again, or `{_KEEP}` to go on with it as it is"


class Terminal(Protocol):
    """A terminal where somebody reads and types."""

    def show(self, text: str) -> None:
        """Show one line or more."""

    def ask(self, asks: str, *, default: str = "", is_secret: bool = False) -> str:
        """Ask and return the typed answer, without spaces around it; `default` for an empty one. Ends the program when
        nobody is there."""


class Checks(Protocol):
    """Checks that try answers where they will be used."""

    def value(self, question: questions.SetupQuestion, text: str) -> str:
        """Say in a sentence what is wrong with this answer by itself; "" if nothing is."""

    def platform(self, name: str, answers: Answers) -> Sequence[CheckResult]:
        """Ask the platform whether it takes its tokens."""

    def model(self, answers: Answers) -> Sequence[CheckResult]:
        """Ask the model a real question."""

    @property
    def usual_model(self) -> str:
        """Return the model that would be taken if nobody named one."""


class Interview:
    """One talk. Nothing is written before its end."""

    def __init__(self, terminal: Terminal, checks: Checks) -> None:
        self._terminal = terminal
        self._checks = checks
        self._answers: dict[str, str] = {}
        self._afterwards: list[str] = []

    def held(self, path: str) -> Answers:
        """Hold the interview and return the answers that were tried, or kept after a failed try. `path` is the file
        that they are for."""
        self._terminal.show(questions.OPENING.format(path=path))
        for platform in questions.PLATFORMS:
            self._ask_of_platform(platform)
        self._title(questions.MODEL_TITLE, questions.MODEL_STEPS)
        self._tried(self._model, self._checks.model)
        self._title(questions.PRESET_TITLE, questions.PRESET_STEPS)
        self._answers[questions.PRESET.key] = self._answer(questions.PRESET, default=Preset.ME)
        self._title(questions.ADMINS_TITLE, questions.ADMINS_STEPS)
        if admins := self._answer(questions.ADMINS):
            self._answers[questions.ADMINS.key] = admins
        return self._answers

    @property
    def has_bot(self) -> bool:
        """Tell whether there is anything to start."""
        return bool(self._afterwards)

    def show_what_next(self, path: str) -> None:
        """Show the next steps, once the file is written."""
        steps = [f"\n{path} is written. What is next:", questions.CHECK]
        steps += (questions.START, *self._afterwards) if self._afterwards else (questions.CHAT,)
        if self._afterwards and questions.ADMINS.key not in self._answers:
            steps.append(questions.LET_IN)
        self._terminal.show("\n".join(steps))

    def _ask_of_platform(self, platform: questions.Platform) -> None:
        self._title(platform.title, platform.steps.format(manifest=questions.slack_manifest_link()))
        given, findings = self._tried(
            lambda: self._tokens(platform), lambda given: self._checks.platform(platform.name, given)
        )
        if given:
            bot = next((found for found in findings if found.state is CheckState.OK), ok(platform.name, "the bot"))
            step = platform.afterwards.format(bot=bot.seen, link=bot.link or platform.link)
            self._afterwards.append(f"{platform.title}: {step}")

    def _tokens(self, platform: questions.Platform) -> Answers:
        """Ask for the tokens; return none of them if one is left out."""
        given: dict[str, str] = {}
        for question in platform.questions:
            text = self._answer(question)
            if not text:
                return {}
            given[question.key] = text
        return given

    def _model(self) -> Answers:
        model = self._answer(questions.MODEL, default=self._checks.usual_model)
        if model.startswith(SCRIPTED_MODEL):
            return {questions.MODEL.key: model}
        given = {questions.MODEL.key: model} | {
            each.key: self._answer(each) for each in (questions.MODEL_KEY, questions.MODEL_BASE)
        }
        return {key: text for key, text in given.items() if text}

    # --- asking

    def _title(self, title: str, steps: str) -> None:
        self._terminal.show(f"\n{title}\n{steps}")

    def _tried(
        self, ask: Callable[[], Answers], check: Callable[[Answers], Sequence[CheckResult]]
    ) -> tuple[Answers, Sequence[CheckResult]]:
        """Ask until what was said works, or is to be kept, or nothing was said; it is among the answers then."""
        while given := ask():
            findings = check(given)
            self._terminal.show(as_table(findings))
            if is_healthy(findings) or self._terminal.ask(_KEPT).lower() == _KEEP:
                self._answers |= given
                return given, findings
        return {}, ()

    def _answer(self, question: questions.SetupQuestion, *, default: str = "") -> str:
        """Return the first answer that the setting can hold."""
        return next(self._good_ones(question, default))

    def _good_ones(self, question: questions.SetupQuestion, default: str) -> Iterator[str]:
        while True:
            text = self._terminal.ask(question.asks, default=default, is_secret=question.is_secret)
            problem = self._checks.value(question, text) if text else ""
            if problem:
                self._terminal.show(problem)
            else:
                yield text


# Tries answers where they will be used: at the platforms, as the doctor does, and by one real completion.


_TRIAL: Final = "agent.trial"
_TRIAL_S: Final = 90.0  # the start of the process, and the patience of the trial itself
_MENDING: Final = "correct the name, the key or the address, or look at the network"


class AnswerChecks:
    """`Checks` on the real thing. `blank` is an empty configuration file, so only the answers and the variables of
    `environ` are in force."""

    def __init__(self, blank: Path, environ: Mapping[str, str]) -> None:
        self._blank = blank
        self._environ = {**environ, CONFIG_VARIABLE: str(blank)}

    @property
    def usual_model(self) -> str:
        return self._settings({}).agent.model

    def value(self, question: questions.SetupQuestion, text: str) -> str:
        try:
            self._settings({question.key: text})
        except ConfigError as error:
            return str(error)
        return ""

    def platform(self, name: str, answers: Answers) -> Sequence[CheckResult]:
        findings = asyncio.run(check_platforms(self._settings(answers)))
        return [finding for finding in findings if finding.name == name]

    def model(self, answers: Answers) -> Sequence[CheckResult]:
        model = answers[questions.MODEL.key]
        try:
            said = asyncio.run(said_by_agent(_TRIAL, environ=self._with(answers), within_s=_TRIAL_S))
        except TimeoutError:
            slow = f"{model} did not answer within {_TRIAL_S:g} s"
            return [wrong(questions.MODEL.key, slow, "try again, or take another")]
        except ConfigError as error:
            return [wrong(questions.MODEL.key, f"{model}: {error}", _MENDING)]
        return [ok(questions.MODEL.key, f"{model} answered: {said}")]

    def _settings(self, answers: Answers) -> Settings:
        return load_settings(self._blank, self._with(answers)).settings

    def _with(self, answers: Answers) -> dict[str, str]:
        return self._environ | {catalog()[key].variable: text for key, text in answers.items()}
