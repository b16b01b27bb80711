"""What stands in the place of an old tool output. Pure, and light: it is loaded in sub-agents, too."""

from __future__ import annotations

from agent.tokens import estimate_tokens


def stand_in(output: str) -> str:
    """Words of ours, with nothing of the output in them but its size."""
    return f"<output pruned, ~{estimate_tokens(output)} tokens>"
