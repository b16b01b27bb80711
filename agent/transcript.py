"""Pure operations on a transcript: whole turns, whole tool-call groups, entries as prompt messages."""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set
from itertools import groupby
from typing import Final

from agent.limits import IMAGES_KEPT, IMAGES_SHOWN_MAX
from agent.model.client import PromptMessage
from gateway.contracts.alongside import Image, images_in, words_in
from gateway.contracts.entries import Entry, EntryKind, Role
from gateway.contracts.messages import CleanText, joined, own_words

_LOST_RESULT: Final = own_words("(no result: the call was interrupted)")


def summary_of(view: Sequence[Entry]) -> CleanText | None:
    """The summary in front of a view, if it has one."""
    return view[0].text if view and view[0].kind is EntryKind.COMPACTION else None


def said_in(view: Sequence[Entry]) -> tuple[Entry, ...]:
    """A view without its summary."""
    return tuple(entry for entry in view if entry.kind is not EntryKind.COMPACTION)


def is_said(entry: Entry) -> bool:
    """True for what a person said."""
    return entry.role is Role.USER and entry.kind is EntryKind.MESSAGE


def last_said(view: Sequence[Entry]) -> CleanText:
    """What a person said last; empty where nobody has."""
    return next((words_in(entry.text) for entry in reversed(view) if is_said(entry)), own_words(""))


def has_images(view: Sequence[Entry], turn_id: str) -> bool:
    """Whether images came along with what was said in that turn."""
    return any(images_in(entry.text) for entry in view if entry.turn_id == turn_id and is_said(entry))


def shown_images(entries: Sequence[Entry]) -> frozenset[Image]:
    """The images that a prompt of these entries shows; of the others only the places are told.

    Those of a turn are shown with it. When there would be too many, all but a few of the earlier ones go at once, so
    that the beginning of the prompt changes seldom: the same whoever counts, since each turn is counted in its order.
    """
    shown: list[Image] = []
    for turn in turns_of(entries):
        new = [image for entry in turn if is_said(entry) for image in images_in(entry.text)][-IMAGES_SHOWN_MAX:]
        if len(shown) + len(new) > IMAGES_SHOWN_MAX:
            shown = shown[max(len(shown) - min(IMAGES_KEPT, IMAGES_SHOWN_MAX - len(new)), 0) :]
        shown += new
    return frozenset(shown)


def turns_of(entries: Iterable[Entry]) -> tuple[tuple[Entry, ...], ...]:
    """Entries cut into user-led turns: user messages, then everything up to the next user message.

    Consecutive user messages (a batch, or one whose turn failed) belong to one turn; a note begins none.
    Entries before the first user message form a turn of their own.
    """
    turns: list[list[Entry]] = []
    for entry in entries:
        follows_user = bool(turns) and turns[-1][-1].role is Role.USER
        if not turns or (is_said(entry) and not follows_user):
            turns.append([])
        turns[-1].append(entry)
    return tuple(map(tuple, turns))


def with_whole_groups(entries: Iterable[Entry]) -> tuple[Entry, ...]:
    """Every assistant tool call followed by its results, in call order: providers refuse anything else.

    Results without a call are dropped; calls without a result (a run that was killed) get one that says so.
    """
    whole: list[Entry] = []
    for speech, results in _groups(entries):
        whole.append(speech)
        whole.extend(results.get(call.id) or _lost(call.id, speech) for call in speech.tool_calls)
    return tuple(whole)


def _groups(entries: Iterable[Entry]) -> Iterable[tuple[Entry, dict[str, Entry]]]:
    """Each entry that is no result, with the results that follow it by call id (ids repeat between turns)."""
    groups: list[tuple[Entry, dict[str, Entry]]] = []
    for entry in entries:
        if entry.role is not Role.TOOL:
            groups.append((entry, {}))
        elif groups:
            groups[-1][1][entry.tool_call_id] = entry
    return groups


def as_prompt(entries: Iterable[Entry]) -> tuple[PromptMessage, ...]:
    """Entries as prompt messages; neighbouring user entries become one message, as providers expect.

    In such a message our notes stand in front of what people said, so that their words come last.
    """
    messages: list[PromptMessage] = []
    whole = with_whole_groups(entries)
    shown = shown_images(whole)
    for is_said_to_us, group in groupby(whole, lambda entry: entry.role is Role.USER):
        if is_said_to_us:
            ordered = sorted(group, key=lambda entry: entry.kind is not EntryKind.NOTE)
            text = joined(*(entry.text for entry in ordered), by="\n\n")
            messages.append(PromptMessage(Role.USER, text, images=_images(ordered, shown)))
        else:
            messages.extend(PromptMessage(one.role, one.text, one.tool_calls, one.tool_call_id) for one in group)
    return tuple(messages)


def _images(said: Iterable[Entry], shown: Set[Image]) -> tuple[Image, ...]:
    every = (image for entry in said if is_said(entry) for image in images_in(entry.text))
    return tuple(image for image in every if image in shown)


def _lost(call_id: str, entry: Entry) -> Entry:
    return Entry(Role.TOOL, _LOST_RESULT, seq=entry.seq, tool_call_id=call_id, is_error=True)
