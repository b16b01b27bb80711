"""The settings of the answer cache."""

from __future__ import annotations

from pydantic import Field

from gateway.config.section import Section


class Cache(Section):
    """Answers that are given again without asking a model."""

    enabled: bool = Field(
        default=False,
        description="Answer a question that the same user asked before, in the same circumstances, from the cache. "
        "Saves money, costs freshness: such an answer may be as old as ttl_s.",
    )
    ttl_s: int = Field(default=3600, ge=1, le=30 * 86_400, description="How long an answer may be given again.")
