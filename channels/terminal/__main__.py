"""Run `trivet chat`: the terminal as a channel, with one user and one lane, until the input ends."""

from __future__ import annotations

import asyncio
import signal
import socket
import sys
import threading
from collections.abc import Sequence
from typing import Final, TextIO

from rich.console import Console
from rich.live import Live
from rich.markdown import Markdown

from channels.core.adapter import CONNECTED, InboundHandler, SendBudget, StreamCadence
from channels.core.intake import IntakeDeps
from channels.core.message import Addressing, Incoming
from channels.core.runtime import HOOK_POINTS, ChannelConfig, ChannelRuntime, connect_bus
from channels.core.secrets import open_secret_capture
from gateway.bus.lanes import Lanes
from gateway.bus.operator import Operator
from gateway.clock import SystemClock
from gateway.config import Settings, house_language, load
from gateway.contracts.access import TERMINAL, AccessPolicy, StrangerRule
from gateway.contracts.commands import find_command
from gateway.contracts.errors import BusUnavailable
from gateway.contracts.ids import ReplyAddress
from gateway.contracts.messages import Choice, CleanText
from gateway.contracts.ports import Clock
from gateway.plugins import load_hooks
from gateway.process import run_to_exit
from gateway.scrub import Scrubber
from gateway.scrub.vault import scrubber_of, vault_keys
from gateway.telemetry.logs import configure_logs

# `trivet chat`: the terminal as a channel. One user, one lane, `cli:default`.

KEY: Final = TERMINAL
ADDRESS: Final = ReplyAddress(KEY.channel, KEY.user, "{}")
PROMPT: Final = "you> "
CADENCE: Final = StreamCadence(first_after_s=0.0, every_s=0.1, chars_min=1)
MARGIN_LINES: Final = 4  # above what grows, so that the question stays on the screen
SETTLED_POLL_S: Final = 0.1
BUS_RETRY_S: Final = 0.5


class TerminalAdapter:
    """`ChannelAdapter` on two text streams. Markdown is drawn for people, left alone for pipes."""

    name = "cli"
    account = "cli:local"

    def __init__(self, stdin: TextIO, stdout: TextIO, operator: Operator, lanes: Lanes, clock: Clock) -> None:
        self._stdin = stdin
        self._console = Console(file=stdout, highlight=False)
        self._operator = operator
        self._lanes = lanes
        self._clock = clock
        self._live: Live | None = None
        self.state = CONNECTED
        self.finished = asyncio.Event()
        """Set when the input has ended and every answer has been shown."""

    async def run(self, handler: InboundHandler) -> None:
        """Hand in what is typed until the input ends; then wait for the answers that are due."""
        talk = self._clock.new_id()
        number = 0
        lines = self._lines()
        self._prompt()
        while (line := await lines.get()) is not None:
            if line.strip():
                number += 1
                await self._hand_in(handler, self._incoming(f"cli:{talk}:default:{number}", line.rstrip("\n")))
        while not await self._is_settled():  # noqa: ASYNC110 - the answer is in Redis, where nothing can be awaited
            await asyncio.sleep(SETTLED_POLL_S)
        self.finished.set()
        await asyncio.Event().wait()

    async def until_ready(self) -> None:
        return

    def chunks(self, text: CleanText) -> Sequence[str]:
        return (text,)

    def marked(self, chunk: str, mark: CleanText) -> str:
        return f"{mark}\n\n{chunk}"

    def budgets(self, address: ReplyAddress) -> Sequence[SendBudget]:
        return ()

    async def send(self, address: ReplyAddress, chunk: str, *, send_id: str, plain: bool) -> tuple[str, ...]:
        self._hide()
        if self._console.is_terminal and not plain:
            self._console.print(Markdown(chunk))
        else:
            self._console.file.write(f"{chunk}\n")
            self._console.file.flush()
        self._prompt()
        return (send_id,)

    # --- an answer while it grows: drawn over and over below the prompt, and gone when the whole one is printed

    def cadence(self, address: ReplyAddress) -> StreamCadence | None:
        return CADENCE if self._console.is_terminal and not self._console.is_dumb_terminal else None

    def is_draft(self, address: ReplyAddress) -> bool:
        return True

    async def begin_stream(self, address: ReplyAddress, chunk: str, *, send_id: str) -> str:
        self._live = Live(console=self._console, auto_refresh=False, transient=True, vertical_overflow="crop")
        self._live.start()
        self._console.show_cursor()  # a process that is ended now leaves a cursor
        await self.go_on(address, chunk, message_id="", send_id=send_id)
        return ""

    async def go_on(self, address: ReplyAddress, chunk: str, *, message_id: str, send_id: str) -> bool:
        if self._live is not None:
            end = chunk.splitlines()[-max(1, self._console.height - MARGIN_LINES) :]
            self._live.update(Markdown("\n".join(end)), refresh=True)
        return True

    async def end_stream(self, address: ReplyAddress, *, message_id: str) -> None:
        self._hide()

    def offering(self, chunk: str, choices: Sequence[Choice]) -> str:
        return chunk  # nothing can be pressed: the text names the command

    async def amend(self, address: ReplyAddress, chunk: str, *, message_id: str, plain: bool) -> bool:
        return True  # what was printed stays

    def _hide(self) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None

    async def _hand_in(self, handler: InboundHandler, incoming: Incoming) -> None:
        while True:
            try:
                await handler.accept(incoming)
                return
            except BusUnavailable as error:
                self._console.print(f"(waiting: {error})", markup=False)
                await asyncio.sleep(BUS_RETRY_S)

    async def _is_settled(self) -> bool:
        """Tell whether the lane is empty, no turn runs, and no reply is on its way."""
        waiting, is_running = await self._lanes.depth(KEY)
        if waiting or is_running:
            return False
        return not (await self._operator.figures()).outbound_pending.get(self.name)

    def _incoming(self, message_id: str, text: str) -> Incoming:
        return Incoming(
            id=message_id,
            channel=KEY.channel,
            account="local",
            user_id=KEY.user,
            author_name="",
            place=(),
            is_private=True,
            addressing=Addressing.PRIVATE,
            text=text,
            address=ADDRESS,
            sent_at_ms=self._clock.now_ms(),
            command=find_command(text),
        )

    def _prompt(self) -> None:
        if self._console.is_terminal:
            self._console.print(PROMPT, end="")

    def _lines(self) -> asyncio.Queue[str | None]:
        """Read the input, line by line, then None. A thread reads it, which may block and dies with the process."""
        lines: asyncio.Queue[str | None] = asyncio.Queue()
        loop = asyncio.get_running_loop()

        def read() -> None:
            for line in self._stdin:
                loop.call_soon_threadsafe(lines.put_nowait, line)
            loop.call_soon_threadsafe(lines.put_nowait, None)

        threading.Thread(target=read, name="terminal-input", daemon=True).start()
        return lines


STOP_GRACE_S = 2.0
PATIENT = "--patient"  # an agent was started together with this terminal
ALONE_AFTER_S = 30.0  # a busy machine needs more than ten to start one


def main() -> None:
    """Talk until the end of the input."""
    loaded = load()
    scrubber = scrubber_of(loaded, *vault_keys(loaded.settings))
    configure_logs(scrubber, level="warning", as_json=loaded.settings.log.as_json)
    asyncio.run(_chat(loaded.settings, scrubber))


async def _chat(settings: Settings, scrubber: Scrubber) -> None:
    bus = await connect_bus(settings)
    try:
        clock = SystemClock()
        adapter = TerminalAdapter(sys.stdin, sys.stdout, bus.operator, bus.lanes, clock)
        secret_capture = open_secret_capture(settings, bus.vault, scrubber, clock)
        hooks = load_hooks(settings.plugins.enabled, HOOK_POINTS, lambda _hook: None)
        deps = IntakeDeps.of(bus, scrubber, clock, secret_capture, hooks)
        policy = AccessPolicy(StrangerRule.CLOSED, frozenset({KEY}))
        config = ChannelConfig(policy, settings.session.scope, language=house_language(settings))
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, adapter.finished.set)
        warning = asyncio.create_task(_warn_when_alone(bus.operator))
        try:
            runtime = ChannelRuntime(adapter, bus, deps, config, consumer=bus.names.named(socket.gethostname()))
            working = asyncio.create_task(runtime.run())
            finished = asyncio.create_task(adapter.finished.wait())
            try:
                await asyncio.wait((working, finished), return_when=asyncio.FIRST_COMPLETED)
                if working.done():
                    working.result()
                await runtime.stop(grace_s=STOP_GRACE_S)
            finally:
                for task in (working, finished):
                    task.cancel()
                await asyncio.gather(working, finished, return_exceptions=True)
        finally:
            warning.cancel()
    finally:
        await bus.close()


async def _warn_when_alone(operator: Operator) -> None:
    """Warn on stderr if no agent runs; an agent that was started with the talk gets a moment first."""
    await asyncio.sleep(ALONE_AFTER_S if PATIENT in sys.argv else 0)
    if not (await operator.figures()).workers_alive:
        sys.stderr.write("trivet: no agent is running, so nobody answers yet: start `trivet up` or `trivet agent`\n")


if __name__ == "__main__":
    run_to_exit(main)
