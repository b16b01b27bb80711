"""What the agent asks of a model that hears, and what comes back."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from agent.model.client import Permit, TokenCount, always
from gateway.contracts.ids import SessionKey


@dataclass(frozen=True, slots=True)
class TranscriptionRequest:
    """One recording, charged to the owner of `key`. `name` has the ending by which providers know the format;
    `language` is an IETF tag, empty where nobody knows it."""

    model: str
    key: SessionKey
    name: str
    media_type: str
    content: bytes = field(repr=False)
    language: str = ""
    timeout_s: float = 120.0
    turn_id: str = ""
    permit: Permit = field(default=always, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class TranscriptionAnswer:
    """What was said, raw. A provider counts tokens, or none."""

    text: str
    tokens: TokenCount
    cost_usd: float


class TranscriptionModel(Protocol):
    """A way to a model that hears."""

    async def transcribe(self, request: TranscriptionRequest) -> TranscriptionAnswer:
        """Raises the `ModelError` tree."""
        ...
