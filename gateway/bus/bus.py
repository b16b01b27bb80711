"""The bus of one role: open it once, hand its rooms to whoever needs them."""

from __future__ import annotations

from collections.abc import Callable

from redis.asyncio import Redis
from redis.exceptions import RedisError

from gateway.bus.access import Access
from gateway.bus.agents import AgentBus
from gateway.bus.connection import Server, check_server, close_client, translated
from gateway.bus.deliveries import Deliveries
from gateway.bus.figures import Operator
from gateway.bus.heartbeat import Heartbeat
from gateway.bus.intake import Intake
from gateway.bus.keys import SHARDS, ShardKeys
from gateway.bus.lanescripts import LaneScripts
from gateway.bus.line import Line
from gateway.bus.pool import Pool
from gateway.bus.processes import ProcessName
from gateway.contracts.ports import Cancel
from gateway.limits import DELIVERY_TAKEOVER_S, LANE_MESSAGES_MAX, QUEUE_MESSAGES_MAX, TURNS_MAX, USER_TURNS_MAX


async def open_bus(
    url: str,
    *,
    lane_messages_max: int = LANE_MESSAGES_MAX,
    queue_messages_max: int = QUEUE_MESSAGES_MAX,
    user_turns_max: int = USER_TURNS_MAX,
    turns_max: int = TURNS_MAX,
    takeover_s: float = DELIVERY_TAKEOVER_S,
    process: ProcessName | None = None,
) -> RedisBus:
    """Connect to the Redis at `url` and see that it can serve us.

    Raises `ConfigError` for a wrong URL, password, server version or layout, `BusUnavailable` when nobody
    answers. `user_turns_max` is how many lanes of one user run or are next, the others are parked;
    `turns_max` how many turns run at a time over all processes, 0 for any number. `takeover_s` is how long
    a channel's consumer on another machine may be away before its replies are somebody else's; `process`
    is whose name the leases carry, by default this one.
    """
    server = Server.at(url)
    client = server.pool_client()
    try:
        await check_server(client, server.where, shards=SHARDS)
    except (RedisError, OSError) as error:
        await close_client(client)
        raise translated(error, server.where) from None
    except BaseException:
        await close_client(client)
        raise
    return RedisBus(
        server,
        client,
        process or ProcessName.of_this_process(),
        lane_messages_max=lane_messages_max,
        queue_messages_max=queue_messages_max,
        user_turns_max=user_turns_max,
        turns_max=turns_max,
        takeover_s=takeover_s,
    )


class RedisBus:
    """The rooms of the bus, one per port: `intake`, `access`, `lanes`, `deliveries`, `operator`."""

    def __init__(
        self,
        server: Server,
        client: Redis,
        process: ProcessName,
        *,
        lane_messages_max: int,
        queue_messages_max: int,
        user_turns_max: int,
        turns_max: int,
        takeover_s: float,
    ) -> None:
        keys, where = ShardKeys(0), server.where
        self._url = server.url
        self._pool = pool = Pool(client, where)
        # Two lines: a long list of replies to publish never stands in front of a message.
        self._intake_line = Line(server.line_client(), where)
        self._line = Line(server.line_client(), where)
        self.intake = Intake(
            self._intake_line,
            keys,
            LaneScripts(self._intake_line, keys, user_turns_max=user_turns_max),
            lane_messages_max=lane_messages_max,
            queue_messages_max=queue_messages_max,
        )
        self.access = Access(self._line, pool, keys)
        scripts = LaneScripts(self._line, keys, user_turns_max=user_turns_max)
        self.lanes = AgentBus(self._line, pool, keys, scripts, turns_max=turns_max)
        self.deliveries = Deliveries(self._line, pool, keys, process, takeover_s=takeover_s)
        self.operator = Operator(self._line, keys, scripts)

    def heartbeat(
        self,
        worker: str,
        *,
        on_cancel: Callable[[Cancel], None],
        on_lost: Callable[[], None],
    ) -> Heartbeat:
        """The pulse of a registered worker, for `async with`."""
        return Heartbeat(self._url, self.lanes.leases, worker, on_cancel=on_cancel, on_lost=on_lost)

    async def close(self) -> None:
        """Leave the channels, finish what was sent, hang up."""
        await self.deliveries.close()
        await self._intake_line.close()
        await self._line.close()
        await self._pool.close()
