"""Which messages one turn takes."""

from __future__ import annotations

import pytest

from agent.working.batches import first_batch, turn_id_of
from tests.parts.agents import message


@pytest.mark.parametrize(
    ("texts", "taken"),
    [
        (["a"], 1),
        (["a", "b", "c"], 3),
        (["/new", "a"], 1),
        (["a", "b", "/new", "c"], 2),
        (["/title x", "/new"], 1),
    ],
)
def test_a_command_is_alone_and_talk_is_collected(texts: list[str], taken: int) -> None:
    messages = [message(text) for text in texts]
    assert first_batch(messages) == tuple(messages[:taken])


def test_a_turn_never_answers_two_places_at_once() -> None:
    """With scope `user` one lane holds what a person says in several places."""
    here, there = message("a", lane="here"), message("b", lane="there")
    assert first_batch([here, there]) == (here,)


def test_a_turn_is_named_after_its_first_message() -> None:
    """So every attempt at it has the same id, and its replies too."""
    first = message("a", message_id="telegram:bot:1:1")
    assert turn_id_of(first) == turn_id_of(message("a", message_id="telegram:bot:1:1"))
    assert turn_id_of(first) != turn_id_of(message("a", message_id="telegram:bot:1:2"))
