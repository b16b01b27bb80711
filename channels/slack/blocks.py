"""Block Kit, as far as our messages need it. Pure."""

from __future__ import annotations

from itertools import count
from typing import Any

from channels.slack import limits
from channels.slack.render import SlackChunk

Block = dict[str, Any]


def blocks_of(chunk: SlackChunk, *, plain: bool) -> list[Block]:
    """The chunk's text with a row of buttons below it; nothing for a chunk without any."""
    if not chunk.choices:
        return []
    words, kind = (chunk.plain, "plain_text") if plain else (chunk.text, "mrkdwn")
    parts = [words[at : at + limits.SECTION_CHARS_MAX] for at in range(0, len(words), limits.SECTION_CHARS_MAX)]
    buttons = [
        {
            "type": "button",
            "action_id": f"choice-{number}",
            "text": {"type": "plain_text", "text": choice.label},
            "value": choice.command,
        }
        for number, choice in zip(count(1), chunk.choices, strict=False)
    ]
    sections: list[Block] = [{"type": "section", "text": {"type": kind, "text": part}} for part in parts]
    return [*sections, {"type": "actions", "elements": buttons}]
