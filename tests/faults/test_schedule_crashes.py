"""kill -9 behind each `await` of the loop that fires schedules: the reminder arrives, and arrives once."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from tests.parts.crashing import points_of
from tests.parts.fleet import running_fleet
from tests.parts.waiting import until

HOSTS = {"h1": ("channels",), "h2": ("agent",)}
FIRING = [
    point
    for point in points_of("agent.features.schedules.service")
    if ":Scheduler._fire" in point.name or "fire_due" in point.name
]


def test_the_steps_of_a_firing_are_crash_points() -> None:
    sources = " ".join(point.source for point in FIRING)
    assert all(step in sources for step in ("claim_due", "enqueue", "move"))


@pytest.mark.long
@pytest.mark.timeout(900)
async def test_a_crash_at_any_point_of_a_firing_costs_nothing(tmp_path: Path) -> None:
    """What leads only to full queues is not reached, and printed."""
    async with running_fleet(tmp_path, hosts=HOSTS, settings={}) as fleet:
        chat = fleet.chat(next(iter(fleet.stages)), "Ann")
        victim = fleet.role("h2", "agent")
        reached = 0
        for number, point in enumerate(FIRING):
            word = f"word{number}z"
            lives = len(victim.endings)
            await victim.arm(point.name)
            await chat.say(f"/remind in 1 second {word}")
            await until(lambda: f"Reminder: {word}" in chat.heard.replace("*", ""), lambda: f"{point}: {chat.answers}")  # noqa: B023
            await fleet.until_settled()
            told = chat.heard.replace("*", "").count(f"Reminder: {word}")
            assert told == 1, f"{point}: told {told} times"
            reached += -signal.SIGKILL in victim.endings[lives:]
            await victim.arm("nowhere")
        print(f"\n{reached} of {len(FIRING)} points lived through")
        assert reached >= 4
