"""Which messages one turn takes."""

from __future__ import annotations

import pytest

from agent.runtime.run import first_batch
from tests.parts.agents import message


@pytest.mark.parametrize(
    ("texts", "taken"),
    [(["a"], 1), (["a", "b", "c"], 3), (["/new", "a"], 1), (["a", "b", "/new", "c"], 2), (["/title x", "/new"], 1)],
)
def test_a_command_is_alone_and_talk_is_collected(texts: list[str], taken: int) -> None:
    messages = [message(text) for text in texts]
    assert first_batch(messages) == tuple(messages[:taken])


def test_a_turn_never_answers_two_places_at_once() -> None:
    """With scope `user` one lane holds what a person says in several places."""
    here, there = message("a", lane="here"), message("b", lane="there")
    assert first_batch([here, there]) == (here,)
