"""Block Kit, as far as our messages need it. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import chain, count
from typing import Any, Final

from channels.slack import limits
from channels.slack.render import SlackChunk

Block = dict[str, Any]

_FENCE: Final = "```"
_FENCE_LINE: Final = len(_FENCE) + 1
_ATOM: Final = re.compile(r"<[^<>]*>|&[a-z]+;|[^<&\s]{1,200}|[<&\s]")

PICK: Final = "pick-"
"""In front of the command that a list is for."""


def blocks_of(chunk: SlackChunk, *, plain: bool) -> list[Block]:
    """The chunk's text with a row of buttons and lists below it; nothing for a chunk without any, and nothing that
    could be refused once more for one that goes out `plain`: what the buttons say may be typed."""
    if plain or not (chunk.choices or chunk.picks):
        return []
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
    sections: list[Block] = [
        {"type": "section", "text": {"type": "mrkdwn", "text": part}} for part in _parts(chunk.text)
    ]
    return [*sections, {"type": "actions", "elements": elements}]


def _parts(words: str) -> Iterator[str]:
    """As many as sections take, cut between lines where that is possible; a fence is closed and opened anew."""
    part, is_fenced = "", False
    for line in chain.from_iterable(map(_pieces, words.split("\n"))):
        is_end = is_fenced and line == _FENCE
        if part and not is_end and len(part) + 1 + len(line) + _FENCE_LINE > limits.SECTION_CHARS_MAX:
            yield f"{part}\n{_FENCE}" if is_fenced else part
            part = _FENCE if is_fenced else ""
        part = f"{part}\n{line}" if part else line
        is_fenced ^= line == _FENCE
    yield part


def _pieces(line: str) -> Iterator[str]:
    """A line that is too long in several, none of which ends within a word, a link or an entity."""
    piece = ""
    for atom in _ATOM.findall(line):
        if piece and len(piece) + len(atom) + 2 * _FENCE_LINE > limits.SECTION_CHARS_MAX:
            yield piece
            piece = ""
        piece += atom
    yield piece


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
