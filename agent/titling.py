"""What a title is: the request for one and what is made of the answer. Pure (agent.md section 5)."""

from __future__ import annotations

import re
import unicodedata
from typing import Final

import regex

from agent.limits import TITLE_GRAPHEMES_MAX, TITLE_INPUT_CHARS_MAX
from agent.model.client import PromptMessage
from gateway.contracts.entries import Role
from gateway.contracts.messages import CleanText, clipped

_THOUGHT: Final = r"think|thinking|thought|reason|reasoning|reflection"
_CLOSED_THOUGHT: Final = re.compile(rf"<({_THOUGHT})\b[^>]*>.*?</\1\s*>", re.DOTALL | re.IGNORECASE)
_OPEN_THOUGHT: Final = re.compile(rf"<({_THOUGHT})\b[^>]*>.*", re.DOTALL | re.IGNORECASE)
_STRAY_END: Final = re.compile(rf".*</({_THOUGHT})\s*>", re.DOTALL | re.IGNORECASE)
_LABEL: Final = re.compile(
    r"\A(?:chat\s+)?(?:title|titel|titre|título|titulo|заголовок|название|标题|標題|タイトル)\s*[:：]\s*", re.IGNORECASE
)
_MARKS: Final = re.compile(r"\A(?:#{1,6}\s+|>\s+|[-*+•]\s+|\d{1,2}[.)]\s+)")
_EDGES: Final = " \t*_`~\"'“”„«»‹›‘’「」『』《》〈〉【】"
_ENDINGS: Final = " \t.!?,;:…。！？，；：、．"
_LINK: Final = re.compile(r"!?\[([^\]]*)\]\([^)]*\)")


def first_request(text: CleanText) -> tuple[PromptMessage, ...]:
    """The titler's whole input: the first user text, bounded, nothing else."""
    return (PromptMessage(Role.USER, clipped(text, TITLE_INPUT_CHARS_MAX)),)


def sanitize_title(raw: str) -> str:
    """A title out of whatever a model wrote: one line, no marks, at most 60 graphemes; "" if nothing is left.

    Idempotent. The result still has to be scrubbed.
    """
    text = _STRAY_END.sub("", _OPEN_THOUGHT.sub("", _CLOSED_THOUGHT.sub("", raw)))
    line = next((cleaned for line in text.splitlines() if (cleaned := _strip_line(line))), "")
    return _strip_line(shorten(line))


def shorten(text: str) -> str:
    """At most 60 grapheme clusters: longer ones are cut to 59 and an ellipsis."""
    graphemes = regex.findall(r"\X", text)
    if len(graphemes) <= TITLE_GRAPHEMES_MAX:
        return text
    return "".join(graphemes[: TITLE_GRAPHEMES_MAX - 1]).rstrip() + "…"


def _strip_line(line: str) -> str:
    """Take marks, labels, quotes and closing punctuation off until nothing changes."""
    spaced = " ".join(line.split())
    stripped = "".join(char for char in spaced if unicodedata.category(char) not in {"Cc", "Cf"} or char == "\u200d")
    while True:
        before = stripped
        stripped = _LINK.sub(r"\1", _LABEL.sub("", _MARKS.sub("", stripped.strip(_EDGES))))
        stripped = _without_endings(stripped.strip(_EDGES))
        if stripped == before:
            return " ".join(stripped.split())


def _without_endings(text: str) -> str:
    """No closing punctuation, except the ellipsis that says a title was cut."""
    is_cut = text.endswith("…") and len(regex.findall(r"\X", text)) == TITLE_GRAPHEMES_MAX
    return text if is_cut else text.rstrip(_ENDINGS)
