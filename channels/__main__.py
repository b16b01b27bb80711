"""The composition root of the channels role: `python -m channels [NAME…]`.

Each channel has one runtime. A platform that rejects its credentials ends only its own runtime; when no runtime is
left, the role ends with the sentences that say what to change."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import logging
import socket
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from functools import partial
from typing import Final, Protocol, cast

from channels.core.adapter import CONNECTED, AdapterDeps, ChannelAdapter, SupportsWebhooks
from channels.core.attempt import SendRules
from channels.core.intake import FreeDisk, IntakeDeps
from channels.core.runtime import HOOK_POINTS, REPORT_EVERY_S, ChannelConfig, ChannelRuntime, connect_bus
from channels.core.secrets import open_secret_capture
from gateway import config
from gateway.bus.bus import RedisBus
from gateway.clock import SystemClock
from gateway.config.channels import PlaceholderUse
from gateway.config.derived import check_installed
from gateway.contracts.errors import BusError, ConfigError, CredentialsRejected, PluginBroken, TrivetError
from gateway.contracts.ids import EVENTS
from gateway.limits import BUS_WAIT_S
from gateway.packages import PluginKind, enabled_parts
from gateway.plugins import load_hooks, load_part
from gateway.process import end_loading, guard_streams, report_ready, run_to_exit, stop_event
from gateway.scrub import Scrubber
from gateway.scrub.vault import scrubber_of, vault_keys
from gateway.tasks import RetryPolicy, retry_until_available
from gateway.telemetry.logs import configure_logs, send_lines
from gateway.telemetry.metrics import HOOK_FAILURES, Tally

try:
    from uvloop import new_event_loop
except ImportError:  # not on Windows
    from asyncio import new_event_loop  # type: ignore[assignment]

log = logging.getLogger("trivet.channels")


class AdapterModule(Protocol):
    """The content of a module that the table names; that of a plug-in is given its own account only."""

    def open_adapter(self, name: str, settings: config.Settings, parts: AdapterDeps) -> ChannelAdapter:
        """Build the adapter that the settings of channel `name` ask for. Raises `ConfigError` when they cannot work."""


# A row names a module rather than holding a function: importing all three SDKs costs seconds and a hundred megabytes,
# and most operators use one.
MODULES: Final[Mapping[str, str]] = {
    "telegram": "channels.telegram.adapter",
    "discord": "channels.discord.adapter",
    "slack": "channels.slack.adapter",
    "api": "channels.api.server",
    EVENTS: "channels.api.adapter",
}
"""By platform, in the order in which they are started: the quickest to load first."""

_LOOK_EVERY_S: Final = 0.05  # who starts Trivet waits for it
STOP_GRACE_S = 8.0  # less than the supervisor gives: a send in flight has time to come back


def main() -> None:
    """Run the channels until SIGTERM or SIGINT."""
    loaded = config.load()
    scrubber = scrubber_of(loaded, *vault_keys(loaded.settings))
    configure_logs(scrubber, level=loaded.settings.log.level.value, as_json=loaded.settings.log.as_json)
    guard_streams()
    names = chosen(loaded.settings, tuple(sys.argv[1:]))
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        runner.run(_serve_until_signalled(loaded.settings, names, scrubber))


async def _serve_until_signalled(settings: config.Settings, names: tuple[str, ...], scrubber: Scrubber) -> None:
    await serve(settings, names, scrubber, stop_event())


async def serve(settings: config.Settings, names: tuple[str, ...], scrubber: Scrubber, stopping: asyncio.Event) -> None:
    """Run these channels until `stopping`. Raises `ConfigError` when no platform accepts us."""
    # While an agent brings the database up to date: until then the bus is nobody's, and there is nothing else to do.
    loading = asyncio.create_task(asyncio.to_thread(_load_platforms, names))
    bus = await retry_until_available(lambda: connect_bus(settings), RetryPolicy(for_s=BUS_WAIT_S))
    sending = asyncio.create_task(send_lines(bus.operator))
    try:
        await ChannelSupervisor(settings, names, scrubber, bus, stopping).run()
    finally:
        sending.cancel()
        await asyncio.gather(sending, loading, return_exceptions=True)
        await bus.close()


def _load_platforms(names: Sequence[str]) -> None:
    """Load the modules of these channels. What is wrong with one of them is for `open_channel` to say."""
    for name in names:
        if module := MODULES.get(name.partition(".")[0]):
            importlib.import_module(module)


async def open_channel(name: str, settings: config.Settings, parts: AdapterDeps) -> ChannelAdapter:
    """Load the module of channel `name` and make its adapter; others may work meanwhile. Raises `ConfigError`, for the
    channel of a plug-in `PluginBroken` whatever is wrong with it."""
    if (account := settings.channels.of_plugins().get(name)) is not None:
        return await _open_plugin(name, account, settings.plugins.enabled, parts)
    platform = name.partition(".")[0]
    module = cast(AdapterModule, await asyncio.to_thread(importlib.import_module, MODULES[platform]))
    return module.open_adapter(name, settings, parts)


async def _open_plugin(
    name: str, account: config.PluginAccount, packages: Sequence[str], parts: AdapterDeps
) -> ChannelAdapter:
    part = next(part for part in enabled_parts(packages, PluginKind.CHANNELS) if part.name == name)
    try:
        module = await asyncio.to_thread(load_part, part)
        adapter: ChannelAdapter = module.open_adapter(
            name, account.read_as(module.Account, config.table_of(name)), parts
        )
    except (Exception, SystemExit) as error:  # named boundary, a plug-in: the other channels go on
        said = str(error) if isinstance(error, TrivetError) else f"{type(error).__name__}: {error}"
        raise PluginBroken(f"channel {name} of {part.package} {part.version} is left out: {said}") from error
    log.info("channel %s is that of %s %s", name, part.package, part.version)
    return adapter


def chosen(settings: config.Settings, asked: tuple[str, ...]) -> tuple[str, ...]:
    """Choose the channels to start: those asked for, otherwise all that are enabled. Raises `ConfigError`."""
    known = settings.channels.each()
    for name in asked:
        if name not in known:
            raise ConfigError(f"there is no channel {name!r}: choose from {', '.join(known)}")
    wanted = [name for name in known if name in (asked or settings.channels.enabled_names)]
    if not wanted:
        raise ConfigError("no channel is enabled: set a token, such as channels.telegram.token, in trivet.toml")
    for name in wanted:
        if missing := known[name].missing:
            keys = " and ".join(f"{config.table_of(name)}.{key}" for key in missing)
            raise ConfigError(f"channel {name} cannot start without {keys}: set it or disable the channel")
        check_installed(name.partition(".")[0], config.table_of(name))
    return tuple(wanted)


class ChannelSupervisor:
    """All channels of this process, from start to end."""

    def __init__(
        self,
        settings: config.Settings,
        names: tuple[str, ...],
        scrubber: Scrubber,
        bus: RedisBus,
        stopping: asyncio.Event,
    ) -> None:
        clock, self._tally = SystemClock(), Tally()
        hooks = load_hooks(settings.plugins.enabled, HOOK_POINTS, partial(self._tally.add, HOOK_FAILURES))
        self._bus = bus
        self._settings = settings
        self._names = names
        self._stopping = stopping
        capture = open_secret_capture(settings, bus.vault, scrubber, clock)
        self._deps = IntakeDeps.of(bus, scrubber, clock, capture, hooks)
        self._parts = AdapterDeps(
            bus.intake,
            bus.deliveries,
            bus.places,
            bus.answers,
            bus.access,
            clock,
            bus.names.named(socket.gethostname()),
        )
        self._rejections: list[str] = []

    async def run(self) -> None:
        """Run the channels until told to stop. Raises `ConfigError` when no platform accepts us."""
        runtimes: list[ChannelRuntime] = []
        tasks: list[asyncio.Task[None]] = []
        hooks: dict[str, SupportsWebhooks] = {}
        # Events for webhooks need a process of this role, whichever channels it has.
        for name in (*self._names, *((EVENTS,) if self._settings.webhooks else ())):
            try:
                adapter = await open_channel(name, self._settings, self._parts)
            except PluginBroken as error:
                self._reject(error)
                continue
            if isinstance(adapter, SupportsWebhooks) and adapter.is_called:
                hooks[config.hook_path(name)] = adapter
            runtimes.append(
                ChannelRuntime(
                    adapter, self._bus, self._deps, channel_config(self._settings, name), consumer=self._parts.holder
                )
            )
            tasks.append(asyncio.create_task(self._keep(runtimes[-1]), name=f"line-{name}"))
        end_loading()
        async with self._called(hooks):
            loops = (asyncio.create_task(_report_when_connected(runtimes)), asyncio.create_task(self._report_counts()))
            await self._stopping.wait()
            for each in loops:
                each.cancel()
            await asyncio.gather(*(runtime.stop(grace_s=STOP_GRACE_S) for runtime in runtimes))
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if len(self._rejections) == len(self._names):
            raise ConfigError("; ".join(self._rejections))

    @contextlib.asynccontextmanager
    async def _called(self, hooks: Mapping[str, SupportsWebhooks]) -> AsyncIterator[None]:
        """Let platforms call us inside the context; if none does, nothing listens."""
        if not hooks:
            yield
            return
        from channels.core.webhooks import Webhooks  # noqa: PLC0415 - start-up: most channels call the platform

        webhooks = Webhooks(hooks, hosts=config.own_hosts(self._settings))
        async with webhooks.served(config.webhook_host(self._settings), self._settings.http.webhook_port):
            yield

    async def _keep(self, runtime: ChannelRuntime) -> None:
        try:
            await runtime.run()
        except CredentialsRejected as error:
            self._reject(error)
            await runtime.report()

    def _reject(self, error: TrivetError) -> None:
        """Go on without a channel; without the last one, end."""
        log.error("%s", error)
        self._rejections.append(str(error))
        if len(self._rejections) == len(self._names):
            self._stopping.set()

    async def _report_counts(self) -> None:
        """Tell the bus what hooks have failed, every few seconds, until cancelled."""
        while True:
            await asyncio.sleep(REPORT_EVERY_S)
            with contextlib.suppress(BusError):  # the next time
                await self._tally.hand_over(self._bus.operator.add_counts)


async def _report_when_connected(runtimes: Sequence[ChannelRuntime]) -> None:
    """Tell the supervisor once that every channel is connected."""
    while not all(runtime.state == CONNECTED for runtime in runtimes):  # noqa: ASYNC110 - adapters tell, nobody asks
        await asyncio.sleep(_LOOK_EVERY_S)
    report_ready()


def channel_config(settings: config.Settings, channel: str) -> ChannelConfig:
    """Return what the configuration says about access, lanes and sends of a channel."""
    if channel == EVENTS:
        return ChannelConfig(settings.access.policy, settings.session.scope)
    chosen = settings.channels.each()[channel]
    is_ours = not settings.redis.url or config.database_url(settings).startswith("sqlite")
    floor = settings.limits.disk.free_mb * 1024**2 if is_ours else 0
    placeholder = chosen.placeholder if isinstance(chosen, config.TelegramAccount) else PlaceholderUse.NEVER
    return ChannelConfig(
        settings.access.policy,
        settings.session.scope,
        settle_ms=settings.queue.settle_ms,
        lane_messages_max=settings.queue.lane_messages_max,
        interrupts=settings.queue.mode is config.QueueMode.INTERRUPT,
        language=config.house_language(settings),
        rate_of=settings.limits.rate_of,
        command_rate_of=settings.limits.command_rate_of,
        has_disk=FreeDisk(settings.data_dir, floor),
        sends=SendRules(chosen.unknown_sends, placeholder),
        deletes_inbound=settings.scrub.delete_inbound,
        streams=chosen.streaming == "auto",
        hears_bots=bool(chosen.bots),
    )


if __name__ == "__main__":
    run_to_exit(main)
