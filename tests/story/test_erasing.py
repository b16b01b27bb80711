"""Who is erased while something runs for him: it ends, and nothing of him comes back."""

from __future__ import annotations

from pathlib import Path

from gateway.bus.bus import RedisBus
from gateway.store import Store
from tests.parts.agents import running_agent
from tests.parts.minds import Mind
from tests.parts.operator_api import app_of, client_of
from tests.parts.subtasks import ANN, idle, lined_up


async def test_a_turn_that_runs_and_what_waits_behind_it_end_first(bus: RedisBus, store: Store, tmp_path: Path) -> None:
    """Else it would be taken again on an empty lane, and write down anew what had just been erased."""
    mind = Mind()
    may_go_on = mind.hold()
    async with running_agent(bus, store, mind, tmp_path) as agent, client_of(app_of(store, bus)) as operator:
        await agent.say("think for ever")
        await mind.until_asked(1)
        await agent.say("and of this, too")
        await lined_up(agent, 1)
        assert (await operator.delete(f"/api/v1/users/{ANN}")).json()["rows"]["turns"] == 1
        may_go_on.set()
        await idle(agent)
        assert await store.people.erase(ANN) == {}
    assert len(mind.asked) == 1
