"""Two machines with all roles, a PostgreSQL and a Valkey Cluster, on a network that fails: one machine is lost, the two
are cut apart, one is cut off from everything. Each message is answered once, in order.

The machines are network namespaces. The third, where PostgreSQL and the platforms are, is this one. Each shard of the
Cluster has a server on each of the three, and "received" means that a second one has it (`redis.wait_replicas`).
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import AsyncIterator, Callable, Sequence

import pytest
import pytest_asyncio

from channels.emulators.__main__ import PARTS
from channels.emulators.serving import serve
from gateway.store.migrations import migrate
from tests.parts.fleet import ROLES, ROOT, Fleet, Host, RoleProcess
from tests.parts.ledger import Ledger
from tests.parts.namespaces import Machine, Network, machines, may_make_namespaces
from tests.parts.postgres_server import postgres_of_its_own
from tests.parts.product import clean_environment
from tests.parts.redis_sets import ClusterSet, ValkeyProcess
from tests.parts.wires import wire_to

pytestmark = [
    pytest.mark.long,
    pytest.mark.timeout(400),
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.skipif(not may_make_namespaces(), reason="only root may make network namespaces, where it may at all"),
]
ANSWERED_WITHIN_S = 120.0
NODE_TIMEOUT_MS = 3_000
CUT_S = 10.0  # longer than leases and what the Cluster takes for an outage


class World:
    """Both machines, the network between them, and who talks."""

    def __init__(self, network: Network, made: Sequence[Machine], cluster: ClusterSet, fleet: Fleet) -> None:
        self.network = network
        self.one, self.other = made
        self._cluster = cluster
        self.fleet = fleet
        self.ledger = Ledger([fleet.chat(platform, name) for platform in fleet.stages for name in ("Ann", "Ben")])

    def servers_on(self, machine: Machine) -> list[ValkeyProcess]:
        """The servers of the Cluster that are there."""
        return [server for server in self._cluster.servers if server.host == machine.address]

    async def lose(self, machine: Machine) -> None:
        """Switch it off: what it had begun to say is never heard."""
        machine.unplug()
        for server in self.servers_on(machine):
            server.kill()
        for role in self.fleet.hosts[machine.name].roles:
            await role.stop(signal.SIGKILL)

    async def bring_back(self, machine: Machine) -> None:
        """Switch it on again, and wait until the Cluster is whole and all roles are at work."""
        machine.plug()
        for server in self.servers_on(machine):
            await asyncio.to_thread(server.start)
        for role in self.fleet.hosts[machine.name].roles:
            await role.start()

    async def whole(self) -> None:
        """Wait until everything is connected."""
        await asyncio.to_thread(self._cluster.await_whole)
        await self.fleet.until_connected()

    async def answered(self) -> None:
        """Wait until all that was said is answered; each message once, in order."""
        within_s = ANSWERED_WITHIN_S
        assert await self.ledger.until_answered(within_s=within_s), (
            f"{self.ledger.open_words()}\n{self.fleet.log[-8000:]}"
        )
        await self.fleet.until_settled()
        assert self.ledger.verdict().is_clean, f"{self.ledger.verdict()}\n{self.fleet.log[-8000:]}"

    async def talk_during(self, fault: Callable[[], None], *, for_s: float = CUT_S) -> None:
        """Everybody speaks once a second, before the fault and while it lasts."""
        await self.ledger.say_everywhere()
        await self.fleet.until_figures(lambda figures: figures.running >= 2)
        fault()
        for _ in range(int(for_s)):
            await self.ledger.say_everywhere()
            await asyncio.sleep(1.0)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def world(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[World]:
    """Everything, connected and at work."""
    folder = tmp_path_factory.mktemp("hosts")
    async with contextlib.AsyncExitStack() as stack:
        network, made = stack.enter_context(machines("h1", "h2"))
        database = await stack.enter_async_context(postgres_of_its_own())
        await migrate(f"postgresql+asyncpg://postgres@/postgres?host={database.socket_dir}")
        places = [*((machine.address, machine.enter) for machine in made), (network.address, lambda: None)]
        cluster = ClusterSet(folder, replicas=2, node_timeout_ms=NODE_TIMEOUT_MS, machines=places)
        stack.callback(cluster.stop)
        await asyncio.to_thread(cluster.start)
        parts = {name: part(is_limited=False) for name, part in PARTS.items()}
        stages = {name: part.emulator for name, part in parts.items()}
        served = await stack.enter_async_context(serve(stages))
        ends = {name: ("127.0.0.1", served.ports[name]) for name in stages} | {"database": database.socket}
        wires = {
            name: await stack.enter_async_context(wire_to(end, host=network.address)) for name, end in ends.items()
        }
        settings = {
            f"TRIVET_CHANNELS__{name}__{key}".upper(): value
            for name, part in parts.items()
            for key, value in part.access(f"http://{network.address}:{wires[name].port}").items()
        } | {
            "PYTHONPATH": str(ROOT),
            "TRIVET_REDIS__URL": cluster.url,
            "TRIVET_REDIS__WAIT_REPLICAS": "1",
            "TRIVET_DATABASE__URL": f"postgresql+asyncpg://postgres@{network.address}:{wires['database'].port}/postgres",
            "TRIVET_ACCESS__DEFAULT": "open",
            "TRIVET_LIMITS__MESSAGES_PER_MINUTE": "0",
            "TRIVET_LIMITS__GUEST__TURNS": "0",
            "TRIVET_LIMITS__GUEST__TOKENS": "0",
            "TRIVET_SCRUB__PLACEHOLDER_KEY": "k" * 64,
            "TRIVET_AGENT__MODEL": "demo/scripted@800ms",
        }
        hosts = {
            machine.name: Host(
                machine.name,
                {},
                [
                    RoleProcess(
                        machine.name,
                        role,
                        clean_environment() | settings | {"TRIVET_DATA_DIR": str(folder / f"data-{machine.name}")},
                        folder,
                        inside=machine.command,
                    )
                    for role in ROLES
                ],
            )
            for machine in made
        }
        fleet = Fleet(stages, hosts, cluster.url, database, folder)
        for role in fleet.roles:
            await role.start()
            stack.push_async_callback(role.stop, signal.SIGKILL)
        world = World(network, made, cluster, fleet)
        await world.whole()
        await world.ledger.say_everywhere()
        await world.answered()
        yield world


async def test_a_lost_machine_is_stood_in_for_and_comes_back(world: World) -> None:
    """All is answered while it is away: the other one listens, answers, and its servers serve."""
    await world.ledger.say_everywhere()
    await world.fleet.until_figures(lambda figures: figures.running >= 2)
    await world.lose(world.one)
    for _ in range(5):
        await world.ledger.say_everywhere()
        await asyncio.sleep(1.0)
    await world.answered()
    await world.bring_back(world.one)
    await world.ledger.say_everywhere()
    await world.whole()
    await world.ledger.say_everywhere()
    await world.answered()


async def test_two_machines_that_are_cut_apart(world: World) -> None:
    """Both reach the platforms, the database and a third of the Cluster: neither is lost, and neither is alone."""
    await world.talk_during(world.network.part)
    world.network.join()
    await world.ledger.say_everywhere()
    await world.answered()
    await world.whole()


async def test_a_machine_that_is_cut_off_and_goes_on(world: World) -> None:
    """It takes itself for the one that listens and answers; when it is back, nothing that it did counts. People go on
    talking long after the other one has taken over: Slack still sends half of that to the one that is gone."""
    await world.talk_during(world.other.unplug, for_s=1.5 * CUT_S)
    await world.answered()
    world.other.plug()
    await world.ledger.say_everywhere()
    await world.answered()
    await world.whole()
