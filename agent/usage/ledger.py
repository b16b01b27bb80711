"""What a model call cost, as a row of the usage ledger. Pure."""

from __future__ import annotations

from agent.model.client import ModelAnswer, ModelRequest, Paid
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


def usage_unanswered(request: ModelRequest, *, now_ms: int) -> Usage | None:
    """What a call has cost by now that nobody has an answer for: its lost tries, and all of it if it was cut off. None:
    nothing."""
    paid = request.bill.unanswered
    if paid == Paid():
        return None
    return Usage(
        key=request.key,
        purpose=request.purpose,
        model=request.model,
        prompt_tokens=paid.prompt_tokens,
        completion_tokens=paid.completion_tokens,
        cost_usd=paid.cost_usd,
        turn_id=request.turn_id,
        created_at_ms=now_ms,
    )
