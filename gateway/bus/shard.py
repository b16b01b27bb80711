"""Every room of one shard, on connections that lead to whoever serves it. One server is one shard."""

from __future__ import annotations

from dataclasses import dataclass

from gateway.bus.access import Access
from gateway.bus.agents import AgentBus
from gateway.bus.attachments import Attachments
from gateway.bus.caps import Caps
from gateway.bus.deliveries import Deliveries
from gateway.bus.figures import Operator
from gateway.bus.intake import Intake
from gateway.bus.keys import InstallationNames, ShardKeys
from gateway.bus.lanescripts import LaneScripts
from gateway.bus.line import Copies, Line
from gateway.bus.places import Places
from gateway.bus.pool import Pool
from gateway.bus.processes import ProcessName
from gateway.bus.questions import Questions
from gateway.bus.suggestions import Suggestions
from gateway.bus.vault import Vault
from gateway.bus.way import Way


@dataclass(frozen=True, slots=True)
class Ways:
    """How a shard is reached. Two lines: a long list of replies to publish never stands in front of a message."""

    where: str
    intake: Way
    line: Way
    pool: Way


@dataclass(frozen=True, slots=True)
class Terms:
    """What every shard of a bus has in common. `replicas_min`: copies before a message counts as received."""

    caps: Caps
    names: InstallationNames
    process: ProcessName
    replicas_min: int


class Shard:
    """The rooms, each of which keeps a port of `gateway.contracts.ports` for the keys of this shard."""

    def __init__(self, number: int, ways: Ways, terms: Terms) -> None:
        self.keys = keys = ShardKeys(number)
        copies = Copies(terms.replicas_min, keys.meta) if terms.replicas_min else None
        self._intake_line = Line(ways.intake, ways.where, copies=copies)
        self.line = line = Line(ways.line, ways.where)
        self.pool = pool = Pool(ways.pool, ways.where)
        self.intake = Intake(
            self._intake_line,
            keys,
            LaneScripts(self._intake_line, keys, terms.names, user_turns_max=terms.caps.user_turns_max),
            lane_messages_max=terms.caps.lane_messages_max,
            queue_messages_max=terms.caps.queue_messages_max,
        )
        scripts = LaneScripts(line, keys, terms.names, user_turns_max=terms.caps.user_turns_max)
        self.lanes = AgentBus(line, pool, keys, terms.names, scripts, turns_max=terms.caps.turns_max)
        self.access = Access(line, pool, keys)
        self.deliveries = Deliveries(line, pool, keys, terms.names, terms.process)
        self.places = Places(line, keys)
        self.questions = Questions(line, pool, keys)
        self.suggestions = Suggestions(line, pool, keys)
        self.vault = Vault(line, keys)
        self.attachments = Attachments(pool, keys)
        self.operator = Operator(line, keys, scripts)

    async def close(self) -> None:
        """Finish what was sent, hang up."""
        await self._intake_line.close()
        await self.line.close()
        await self.pool.close()
