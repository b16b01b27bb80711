"""How buttons stand under a message: in rows and with labels that each platform takes."""

from __future__ import annotations

import re
from collections.abc import Sequence

from discord.ui import Button

from channels.discord.interactions import view_of
from channels.slack.render import SlackChunk, blocks_of
from channels.telegram.render import TelegramChunk
from channels.telegram.sending import keyboard
from gateway.contracts.messages import Choice, CleanText


def choices(*labels: str) -> tuple[Choice, ...]:
    return tuple(Choice(CleanText(label), CleanText(f"/press {number}")) for number, label in enumerate(labels))


def rows(labels: Sequence[str]) -> list[list[str]]:
    """As Telegram shows them."""
    shown = keyboard(TelegramChunk("Well?", (), "Well?", choices=choices(*labels)))
    assert shown is not None
    return [[button["text"] for button in row] for row in shown["inline_keyboard"]]


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


def test_a_long_text_above_buttons_is_cut_where_slack_can_still_read_it() -> None:
    """A section takes 3,000 characters: no link, entity or fence is torn, and nothing of the text is missing."""
    words = " ".join(f"<https://example.org/{number}|the page {number}> &amp; &lt;more&gt;" for number in range(150))
    fence = "```\n" + "\n".join(f"line {number} &lt;" for number in range(400)) + "\n```"
    chunk = SlackChunk(f"{words}\n{fence}\nthe end", "plain", choices=choices("Approve"))
    *sections, _ = blocks_of(chunk, plain=False)
    parts = [section["text"]["text"] for section in sections]
    assert all(len(part) <= 3_000 for part in parts)
    for part in parts:
        outside = part.split("```")[::2]
        assert len(part.split("```")) % 2 == 1
        assert all(text.count("<") == text.count(">") for text in outside)
        assert re.sub(r"&(amp|lt|gt);", "", part).count("&") == 0
    flat = re.sub(r"[`\s]", "", "".join(parts))
    assert flat == re.sub(r"[`\s]", "", chunk.text)


def test_what_goes_out_plain_has_nothing_that_slack_could_refuse() -> None:
    """Its buttons are what was refused; the commands behind them may be typed."""
    assert blocks_of(SlackChunk("Well?", "Well?", choices=choices("Approve"), picks="resume"), plain=True) == []
