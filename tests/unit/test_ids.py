"""What turns are called."""

from __future__ import annotations

from gateway.contracts.ids import turn_id_of


def test_a_turn_is_named_after_its_first_message() -> None:
    """So every attempt at it has the same id, and its replies too."""
    assert turn_id_of("telegram:bot:1:1") == turn_id_of("telegram:bot:1:1")
    assert turn_id_of("telegram:bot:1:1") != turn_id_of("telegram:bot:1:2")
