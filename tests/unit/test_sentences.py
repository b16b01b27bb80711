"""What the agent says to people by itself."""

from __future__ import annotations

from agent.texts import removed_note
from gateway.contracts.messages import RemovedSecrets
from gateway.i18n import ENGLISH


def test_who_sent_no_secret_is_told_nothing() -> None:
    assert removed_note([], ENGLISH) == ""


def test_secrets_are_told_of_by_kind_and_number() -> None:
    note = removed_note(
        [RemovedSecrets("openai", 1), RemovedSecrets("github", 2), RemovedSecrets("openai", 1)], ENGLISH
    )
    assert "from your message (2 × github, 2 × openai)" in note
    assert "Please replace it" in note
