"""kill -9 behind each `await` of /link and /unlink: two accounts are one person once, both are told once."""

from __future__ import annotations

import re
import signal
from pathlib import Path

import pytest

from tests.parts.crashing import points_of
from tests.parts.fleet import running_fleet

HOSTS = {"h1": ("channels",), "h2": ("agent",)}
LINKING = points_of("agent.features.accounts")


def test_the_steps_of_linking_are_crash_points() -> None:
    sources = " ".join(point.source for point in LINKING)
    assert all(step in sources for step in ("offer", "enter", "join", "changed", "tell", "part"))


@pytest.mark.long
@pytest.mark.timeout(900)
async def test_a_crash_at_any_point_of_linking_and_parting_costs_nothing(tmp_path: Path) -> None:
    """The code that counts is the last one said: a turn that gives one out again replaces it."""
    async with running_fleet(tmp_path, hosts=HOSTS, settings={}) as fleet:
        victim = fleet.role("h2", "agent")
        reached = 0
        for number, point in enumerate(LINKING):
            one, other = fleet.chat("telegram", f"Ann {number}"), fleet.chat("slack", f"Sue {number}")
            lives = len(victim.endings)
            await victim.arm(point.name)
            code = re.search(r"/link ([A-Z0-9]{8})\b", await one.ask("/link", "Do not show the code"))
            assert code is not None, f"{point}: {one.answers}"
            await other.ask(f"/link {code[1]}", "Nothing is joined yet")
            await other.say(f"/link join telegram:{one.person.id}")
            await one.until_answered("used your code")
            await other.until_answered("Done:")
            assert str(one.person.id) in await other.ask("/unlink", "one person with")
            await other.ask("/unlink all", "linked")
            await fleet.until_settled()
            told = [len(one.answers), len(other.answers)]
            assert told == [2, 4], f"{point}: {one.answers} {other.answers}"
            reached += -signal.SIGKILL in victim.endings[lives:]
            await victim.arm("nowhere")
        print(f"\n{reached} of {len(LINKING)} points lived through")
        assert reached >= 6
