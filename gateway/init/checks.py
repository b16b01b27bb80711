"""Tries answers where they will be used: at the platforms, as the doctor does, and by one real completion."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from gateway.config import Settings, load_settings
from gateway.config.catalog import catalog
from gateway.config.loading import CONFIG_VARIABLE
from gateway.contracts.errors import ConfigError
from gateway.doctor.findings import Finding, ok, wrong
from gateway.doctor.platforms import check_platforms
from gateway.init.interview import Answers
from gateway.init.questions import MODEL, Question

_TRIAL: Final = (sys.executable, "-m", "agent.trial")
_TRIAL_S: Final = 90.0  # the start of the process, and the patience of the trial itself
_FOREWORD: Final = "trivet: "
_MENDING: Final = "correct the name, the key or the address, or look at the network"


class Trying:
    """`gateway.init.interview.Checks` on the real thing. `blank` is an empty configuration file: only the answers, and
    what else stands in `environ`, are in force."""

    def __init__(self, blank: Path, environ: Mapping[str, str]) -> None:
        self._blank = blank
        self._environ = {**environ, CONFIG_VARIABLE: str(blank)}

    @property
    def usual_model(self) -> str:
        return self._settings({}).agent.model

    def value(self, question: Question, text: str) -> str:
        try:
            self._settings({question.key: text})
        except ConfigError as error:
            return str(error)
        return ""

    def platform(self, name: str, answers: Answers) -> Sequence[Finding]:
        findings = asyncio.run(check_platforms(self._settings(answers)))
        return [finding for finding in findings if finding.name == name]

    def model(self, answers: Answers) -> Sequence[Finding]:
        model = answers[MODEL.key]
        try:
            tried = subprocess.run(  # noqa: S603 - a module of ours
                _TRIAL,
                env=self._with(answers),
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=_TRIAL_S,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return [wrong(MODEL.key, f"{model} did not answer within {_TRIAL_S:g} s", "try again, or take another")]
        if tried.returncode:
            said = tried.stderr.strip().rpartition("\n")[2].removeprefix(_FOREWORD)
            return [wrong(MODEL.key, f"{model}: {said}", _MENDING)]
        return [ok(MODEL.key, f"{model} answered: {tried.stdout.strip()}")]

    def _settings(self, answers: Answers) -> Settings:
        return load_settings(self._blank, self._with(answers)).settings

    def _with(self, answers: Answers) -> dict[str, str]:
        return self._environ | {catalog()[key].variable: text for key, text in answers.items()}
