"""What the agent says to people by itself."""

from __future__ import annotations

from agent.sentences import removed_note
from gateway.contracts.messages import RemovedSecrets
from gateway.words import ENGLISH


def test_who_sent_no_secret_is_told_nothing() -> None:
    assert removed_note([], ENGLISH) == ""


def test_secrets_are_told_of_by_kind_and_number() -> None:
    note = removed_note(
        [RemovedSecrets("openai", 1), RemovedSecrets("github", 2), RemovedSecrets("openai", 1)], ENGLISH
    )
    assert "from your message (2 × github, 2 × openai)" in note
    assert "Please replace it" in note
    assert "together" not in note


def test_what_two_messages_held_together_is_said_so() -> None:
    note = removed_note([RemovedSecrets("github", 1, is_joined=True), RemovedSecrets("named", 1)], ENGLISH)
    assert "from your message (1 × named)" in note
    assert "Your last messages together held what looked like a secret (1 × github)" in note
    assert note.count("Please replace it") == 1
