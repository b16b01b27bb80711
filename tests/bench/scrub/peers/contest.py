"""Ours and theirs over the same rows in one run: recall, false alarms, microseconds for a message."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from gateway.scrub import Scrubber
from tests.bench.figures import percentile
from tests.bench.scrub.goal import Measured, percent
from tests.bench.scrub.mix import messages
from tests.bench.scrub.peers.scan import SCANNERS
from tests.parts.environments import interpreter
from tests.scrubbing import is_left, look_alikes, positives

HERE: Final = Path(__file__).parent
ROOT: Final = HERE.parents[3]
_TIMEOUT_S: Final = 600

Answer = tuple[str, float]
"""A text without what was found in it, and what that took in microseconds."""
Removal = Callable[[Sequence[str]], list[Answer]]


def beside_others(seed: int, rows: int, *, is_quick: bool) -> Measured:
    """A line for each scanner; one that cannot be installed says so."""
    secrets = [(sample.text, sample.secrets) for sample in positives(seed, rows)]
    harmless = [sample.text for sample in look_alikes(seed, 2 * rows)]
    mix = [message.text for message in messages(200 if is_quick else 1000, seed=seed)]
    lines = [f"{'':16} {'recall':>9} {'false alarms':>13} {'p50':>9} {'p99':>9}"]
    for name in ("ours", *SCANNERS):
        try:
            removal = _ours if name == "ours" else answers_of(name)
            answers = removal([*(text for text, _ in secrets), *harmless, *mix])
        except (OSError, subprocess.SubprocessError) as error:
            lines.append(f"{name:16} not measured: {type(error).__name__}")
            continue
        hidden = sum(
            not any(is_left(secret, clean) for secret in planted)
            for (_, planted), (clean, _) in zip(secrets, answers, strict=False)
        )
        alarms = sum(text != clean for text, (clean, _) in zip(harmless, answers[len(secrets) :], strict=False))
        took_us = [us for _, us in answers[len(secrets) + len(harmless) :]]
        shares = f"{percent(hidden / len(secrets)):>9} {percent(alarms / len(harmless)):>13}"
        lines.append(f"{name:16} {shares} {percentile(took_us, 50):6.0f} µs {percentile(took_us, 99):6.0f} µs")
    return Measured([], {f"beside others, {len(secrets):,} secrets, {len(harmless):,} look-alikes": lines})


def _ours(texts: Sequence[str]) -> list[Answer]:
    scrubber = Scrubber()
    answers = []
    for text in texts:
        began_ns = time.process_time_ns()
        clean = scrubber.scrub(text)
        answers.append((str(clean), (time.process_time_ns() - began_ns) / 1000))
    return answers


def answers_of(name: str) -> Removal:
    """A scanner only finds: what it finds is taken out of the text here."""
    python = interpreter(HERE / "scanners.lock")

    def answers(texts: Sequence[str]) -> list[Answer]:
        done = subprocess.run(
            (python, "-m", "tests.bench.scrub.peers.scan", name),
            check=True,
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            input=json.dumps(list(texts)),
            capture_output=True,
            text=True,
            timeout=_TIMEOUT_S,
        )
        return [(_without(text, found), us) for text, (found, us) in zip(texts, json.loads(done.stdout), strict=True)]

    return answers


def _without(text: str, found: Sequence[str]) -> str:
    for secret in sorted(filter(None, found), key=len, reverse=True):
        text = text.replace(secret, "*")
    return text
