"""Why a sub-agent did not complete, as people read it."""

from __future__ import annotations

import pytest

from agent.subagents.reasons import in_words


@pytest.mark.parametrize(
    ("reason", "words"),
    [
        ("worker_lost", "its process was lost with the worker that ran it"),
        ("killed_by_signal_9", "its process was killed by signal 9"),
        ("limit_300_s", "it took longer than 300 s"),
        ("limit_0.5_s", "it took longer than 0.5 s"),
        ("exit_1", "its process ended with code 1"),
        ("memory_over_1024_mb", "it took more than 1024 MB of memory"),
        ("budget_spent", "today's allowance is spent"),
        ("too_many_frames", "too many frames"),
        ("the model did not answer", "the model did not answer"),
        ("", ""),
    ],
)
def test_a_reason_reads_as_a_clause(reason: str, words: str) -> None:
    assert in_words(reason) == words
