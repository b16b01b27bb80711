"""What the summarising model is given, in pieces that fit, and whether its summary is any good. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final

from agent.model.client import Ending, ModelAnswer, PromptMessage
from agent.tokens import estimate_tokens
from gateway.contracts.entries import Entry, EntryKind, Role
from gateway.contracts.messages import CleanText, joined, own_words, portion

_SPEAKERS: Final = {
    Role.USER: own_words("User: "),
    Role.ASSISTANT: own_words("Assistant: "),
    Role.TOOL: own_words("Tool result: "),
}
_LEFT_OUT: Final = own_words("[… the middle of the conversation was left out here: it was too long …]")
_TOKENS_PER_WORD: Final = 2  # paths and identifiers have more than prose
_FRAME_TOKENS: Final = 40
"""Of the marks and headings around material, and around a summary in a prompt."""


def material(entries: Iterable[Entry], scrub: Callable[[str], CleanText]) -> tuple[CleanText, ...]:
    """Entries as a text to read, one piece each: a tool call and its results are words here, and nothing
    a provider could refuse when they are parted. Notes are left out: nobody said them."""
    return tuple(_line(entry, scrub) for entry in entries if entry.kind is not EntryKind.NOTE)


def summary_request(
    lines: Sequence[CleanText], *, length: CleanText, prior: CleanText | None = None, focus: CleanText | None = None
) -> tuple[PromptMessage, ...]:
    """The material as one user message, behind the summary of what came before it; `length` says how long a new
    one may be."""
    parts = []
    if prior is not None:
        parts.append(joined(own_words("<earlier-summary>"), prior, own_words("</earlier-summary>"), by="\n"))
    if focus:
        parts.append(joined(own_words("Pay most attention to: "), focus))
    conversation = joined(*lines, by="\n\n")
    parts.append(joined(own_words("<conversation>"), conversation, own_words("</conversation>"), by="\n"))
    parts.append(length)
    return (PromptMessage(Role.USER, joined(*parts, by="\n\n")),)


def length_note(tokens: int) -> str:
    """What the model is told of the length of its summary."""
    return f"Write at most {max(tokens // _TOKENS_PER_WORD, 1)} words: what is longer is cut off and lost."


def material_room(
    window: int, answer_max: int, *, system: CleanText, prior: CleanText | None = None, focus: CleanText | None = None
) -> int:
    """Tokens of material that fit into one call of a model with this window, which may answer with `answer_max`."""
    around = estimate_tokens(system) + estimate_tokens(prior or "") + estimate_tokens(focus or "") + _FRAME_TOKENS
    return window - answer_max - around


def bounded(tokens: int, window: int) -> int:
    """So many tokens of an answer, but of a very small window not more than a quarter."""
    return min(tokens, window // 4)


def size_of(lines: Sequence[CleanText]) -> int:
    """Tokens of some material."""
    return sum(map(_size, lines))


def first_chunk(lines: Sequence[CleanText], room: int) -> tuple[tuple[CleanText, ...], tuple[CleanText, ...]]:
    """As much from the beginning as fits into `room` tokens, and the rest. A line that alone is too large
    is split; the chunk is never empty as long as there are lines."""
    if lines and _size(lines[0]) > room and len(lines[0]) > 1:
        lines = (*_halves(lines[0]), *lines[1:])
        return first_chunk(lines, room)
    count, left = 0, room
    while count < len(lines) and (count == 0 or _size(lines[count]) <= left):
        left -= _size(lines[count])
        count += 1
    return tuple(lines[:count]), tuple(lines[count:])


def without_middle(lines: Sequence[CleanText]) -> tuple[CleanText, ...]:
    """The first and the last quarter of the material."""
    text = joined(*lines, by="\n\n")
    quarter = len(text) // 4
    return (portion(text, 0, quarter), _LEFT_OUT, portion(text, len(text) - quarter, len(text)))


def is_usable(answer: ModelAnswer, *, replaced_tokens: int) -> bool:
    """False for a summary that is empty, was cut short, or is not smaller than what it replaces."""
    text = answer.text.strip()
    size = estimate_tokens(text) + _FRAME_TOKENS
    return bool(text) and answer.ending is Ending.OWN and size < replaced_tokens


def _size(line: CleanText) -> int:
    return estimate_tokens(line) + 1  # the blank line behind it


def _halves(line: CleanText) -> tuple[CleanText, CleanText]:
    middle = len(line) // 2
    return portion(line, 0, middle), portion(line, middle, len(line))


def _line(entry: Entry, scrub: Callable[[str], CleanText]) -> CleanText:
    calls = (
        joined(own_words("\n[calls "), scrub(call.name), own_words(" with "), call.arguments, own_words("]"))
        for call in entry.tool_calls
    )
    return joined(_SPEAKERS[entry.role], entry.text, *calls)
