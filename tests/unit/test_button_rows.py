"""How buttons stand under a message: in rows and with labels that each platform takes."""

from __future__ import annotations

from collections.abc import Sequence

from discord.ui import Button

from channels.discord.buttons import view_of
from channels.slack.blocks import blocks_of
from channels.slack.render import SlackChunk
from channels.telegram.render import TelegramChunk
from channels.telegram.sending import keyboard
from gateway.contracts.messages import Choice, CleanText


def choices(*labels: str) -> tuple[Choice, ...]:
    return tuple(Choice(CleanText(label), CleanText(f"/press {number}")) for number, label in enumerate(labels))


def rows(labels: Sequence[str]) -> list[list[str]]:
    """As Telegram shows them."""
    shown = keyboard(TelegramChunk("Well?", (), "Well?", choices=choices(*labels)))
    assert shown is not None
    return [[button.text for button in row] for row in shown.inline_keyboard]


def test_on_telegram_two_short_ones_share_a_row_and_all_others_have_their_own() -> None:
    assert rows(["Approve", "Deny"]) == [["Approve", "Deny"]]
    assert rows(["A", "B", "C"]) == [["A"], ["B"], ["C"]]
    assert rows(["Deny", "1. A long holiday in the mountains"]) == [["Deny"], ["1. A long holiday in the mountains"]]


def test_discord_takes_25_labels_of_80_characters() -> None:
    view = view_of(choices(*["x" * 100] * 30))
    assert view is not None
    assert len(view.children) == 25
    assert {len(str(child.label)) for child in view.children if isinstance(child, Button)} == {80}


def test_slack_takes_25_elements_with_labels_of_75_characters() -> None:
    for picks, buttons in (("", 25), ("resume", 24)):
        chunk = SlackChunk("Well?", "Well?", choices=choices(*["x" * 100] * 30), picks=picks)
        elements = blocks_of(chunk, plain=False)[-1]["elements"]
        labels = [element["text"]["text"] for element in elements if element["type"] == "button"]
        assert (len(elements), len(labels)) == (25, buttons)
        assert set(map(len, labels)) == {75}
