"""A secret that a person sent, as it is kept for tools: sealed, named by its placeholder, for a while."""

from __future__ import annotations

from dataclasses import dataclass

from gateway.contracts.ids import SessionKey


@dataclass(frozen=True, slots=True)
class SecretName:
    """Which secret is meant: the one that `sent_by` sent on the lane `key`, and that `placeholder` stands for."""

    key: SessionKey
    sent_by: SessionKey
    placeholder: str


@dataclass(frozen=True, slots=True)
class SealedSecret:
    """A secret that only the holder of the vault's key can read, and only under this name and this time."""

    name: SecretName
    expires_at_ms: int
    sealed: bytes


@dataclass(frozen=True, slots=True)
class Loan:
    """A tool was given a secret: when, whose, which tool, in which turn. What the secret was nobody can tell."""

    name: SecretName
    tool: str
    turn_id: str
    at_ms: int
