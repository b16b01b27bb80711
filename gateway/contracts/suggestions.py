"""What could stand behind a command, asked by a channel while a person types, said by an agent process.

A question and its answer are worth nothing a moment later: they are no envelopes, and no release has to understand
those of another. What cannot be read counts as not said.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from gateway.contracts.commands import Suggests
from gateway.contracts.errors import BadEnvelope, BadSessionKey
from gateway.contracts.ids import SessionKey
from gateway.contracts.messages import CleanText


@dataclass(frozen=True, slots=True)
class Wanted:
    """`owner` (a user's key) types on the lane `key`, and has come as far as `typed`. `language` is what the platform
    says of him (an IETF tag), empty for nothing."""

    key: SessionKey
    owner: SessionKey
    kind: Suggests
    typed: CleanText
    language: str = ""


@dataclass(frozen=True, slots=True)
class Suggestion:
    """What is shown, and what is said when it is chosen: both at most SUGGESTION_CHARS_MAX characters."""

    label: CleanText
    value: CleanText


def encode_wanted(wanted: Wanted) -> bytes:
    """Equal for equal questions."""
    fields = [str(wanted.key), str(wanted.owner), wanted.kind, wanted.typed, wanted.language]
    return json.dumps(fields, ensure_ascii=False).encode(errors="replace")


def decode_wanted(entry: bytes) -> Wanted:
    """The inverse. Raises `BadEnvelope`."""
    try:
        key, owner, kind, typed, language = json.loads(entry)
        return Wanted(SessionKey.parse(key), SessionKey.parse(owner), Suggests(kind), CleanText(typed), language)
    except (ValueError, TypeError, AttributeError, BadSessionKey) as error:
        raise BadEnvelope(f"not a question for suggestions: {type(error).__name__}") from error


def encode_suggestions(suggestions: Sequence[Suggestion]) -> bytes:
    fields = [[suggestion.label, suggestion.value] for suggestion in suggestions]
    return json.dumps(fields, ensure_ascii=False).encode(errors="replace")


def decode_suggestions(entry: bytes) -> tuple[Suggestion, ...]:
    """The inverse. Raises `BadEnvelope`."""
    try:
        return tuple(Suggestion(CleanText(label), CleanText(value)) for label, value in json.loads(entry))
    except (ValueError, TypeError) as error:
        raise BadEnvelope(f"not suggestions: {type(error).__name__}") from error
