"""Block Kit, as far as our messages need it. Pure."""

from __future__ import annotations

from itertools import count
from typing import Any, Final

from channels.slack import limits
from channels.slack.render import SlackChunk

Block = dict[str, Any]

PICK: Final = "pick-"
"""In front of the command that a list is for."""


def blocks_of(chunk: SlackChunk, *, plain: bool) -> list[Block]:
    """The chunk's text with a row of buttons and lists below it; nothing for a chunk without any."""
    if not chunk.choices and not chunk.picks:
        return []
    words, kind = (chunk.plain, "plain_text") if plain else (chunk.text, "mrkdwn")
    parts = [words[at : at + limits.SECTION_CHARS_MAX] for at in range(0, len(words), limits.SECTION_CHARS_MAX)]
    buttons = [
        {
            "type": "button",
            "action_id": f"choice-{number}",
            "text": {"type": "plain_text", "text": choice.label[: limits.BUTTON_LABEL_CHARS_MAX]},
            "value": choice.command,
        }
        for number, choice in zip(count(1), chunk.choices, strict=False)
    ]
    lists = [_list(chunk.picks)] if chunk.picks else []
    elements = [*buttons[: limits.ACTIONS_MAX - len(lists)], *lists]
    sections: list[Block] = [{"type": "section", "text": {"type": kind, "text": part}} for part in parts]
    return [*sections, {"type": "actions", "elements": elements}]


def _list(command: str) -> Block:
    """Slack asks us what is in it, whenever somebody opens it or types. It speaks no language but that of commands."""
    return {
        "type": "external_select",
        "action_id": f"{PICK}{command}",
        "placeholder": {"type": "plain_text", "text": f"/{command} …"},
        "min_query_length": 0,
    }


def option(label: str, value: str) -> Block:
    """One line of a list."""
    return {"text": {"type": "plain_text", "text": label[: limits.OPTION_CHARS_MAX]}, "value": value}
