"""What a model call cost, as a row of the usage ledger. Pure."""

from __future__ import annotations

from agent.model.client import ModelAnswer
from gateway.contracts.entries import Usage, UsagePurpose
from gateway.contracts.ids import SessionKey


def usage_of(answer: ModelAnswer, key: SessionKey, purpose: UsagePurpose, *, now_ms: int, turn_id: str = "") -> Usage:
    """Every call is charged to the key it was made for: turns, titles and compactions alike."""
    return Usage(
        key=key,
        purpose=purpose,
        model=answer.model,
        prompt_tokens=answer.tokens.prompt,
        completion_tokens=answer.tokens.completion,
        cached_tokens=answer.tokens.cached,
        cost_usd=answer.cost_usd,
        turn_id=turn_id,
        created_at_ms=now_ms,
    )
