"""The settings of memory."""

from __future__ import annotations

from pydantic import Field

from gateway.config.section import Section


class Memory(Section):
    """What the agent keeps of a person beyond one conversation."""

    enabled: bool = Field(
        default=True,
        description="Whether facts are kept and put before the model, with pieces of earlier conversations. Off: "
        "nothing new is kept or used; /memory, /forget and /export still work.",
    )
    auto_consolidate: bool | None = Field(
        default=None,
        description="Whether a cheap model looks for lasting facts in what a compaction condensed and in a "
        "conversation that /new closed. Empty: yes, unless the model is the demo model.",
    )
