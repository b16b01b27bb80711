"""Dice for the agent: one tool that only reads, and one that keeps something, about which an admin is asked."""

from __future__ import annotations

import random
from typing import Annotated

from pydantic import Field

from gateway.plugins import Caller, ToolError, tool

TRIVET_PLUGIN_API = 1

_kept: dict[str, int] = {}


@tool(risk="read", category="games", is_foreign=False)
def roll_dice(
    sides: Annotated[int, Field(ge=2, le=1000, description="How many sides each of them has.")] = 6,
    dice: Annotated[int, Field(ge=1, le=100)] = 1,
) -> str:
    """Roll dice and add up what they show."""
    rolled = [random.randint(1, sides) for _ in range(dice)]
    return f"{' + '.join(map(str, rolled))} = {sum(rolled)}"


@tool(risk="write", category="games")
async def keep_roll(points: int, caller: Caller) -> dict[str, int]:
    """Keep a person's best roll."""
    if points < 1:
        raise ToolError("points must be at least 1: roll first")
    best = _kept[str(caller.person)] = max(points, _kept.get(str(caller.person), 0))
    return {"best": best}
