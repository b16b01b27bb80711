"""`trivet chat`: the terminal as a channel. One user, one lane, `cli:default`."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from typing import Final, TextIO

from rich.console import Console
from rich.markdown import Markdown

from channels.adapter import CONNECTED, Budget, Door
from channels.normalized import Addressing, Incoming
from gateway.bus.lanes import Lanes
from gateway.bus.operator import Operator
from gateway.contracts.access import TERMINAL
from gateway.contracts.commands import find_command
from gateway.contracts.errors import BusUnavailable
from gateway.contracts.ids import ReplyAddress
from gateway.contracts.messages import CleanText
from gateway.contracts.ports import Clock

KEY: Final = TERMINAL
ADDRESS: Final = ReplyAddress(KEY.channel, KEY.user, "{}")
PROMPT: Final = "you> "
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
        self.state = CONNECTED
        self.finished = asyncio.Event()
        """Set when the input has ended and every answer has been shown."""

    async def run(self, door: Door) -> None:
        """Hand in what is typed until the input ends; then wait for the answers that are due."""
        talk = self._clock.new_id()
        number = 0
        lines = self._lines()
        self._prompt()
        while (line := await lines.get()) is not None:
            if line.strip():
                number += 1
                await self._hand_in(door, self._incoming(f"cli:{talk}:default:{number}", line.rstrip("\n")))
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

    def budgets(self, address: ReplyAddress) -> Sequence[Budget]:
        return ()

    async def send(self, address: ReplyAddress, chunk: str, *, send_id: str, plain: bool) -> tuple[str, ...]:
        if self._console.is_terminal and not plain:
            self._console.print(Markdown(chunk))
        else:
            self._console.file.write(f"{chunk}\n")
            self._console.file.flush()
        self._prompt()
        return (send_id,)

    async def _hand_in(self, door: Door, incoming: Incoming) -> None:
        while True:
            try:
                await door.accept(incoming)
                return
            except BusUnavailable as error:
                self._console.print(f"(waiting: {error})", markup=False)
                await asyncio.sleep(BUS_RETRY_S)

    async def _is_settled(self) -> bool:
        """True when the lane is empty, no turn runs, and no reply is on its way."""
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
        """The input, line by line, then None. A thread reads it, which may block and dies with the process."""
        lines: asyncio.Queue[str | None] = asyncio.Queue()
        loop = asyncio.get_running_loop()

        def read() -> None:
            for line in self._stdin:
                loop.call_soon_threadsafe(lines.put_nowait, line)
            loop.call_soon_threadsafe(lines.put_nowait, None)

        threading.Thread(target=read, name="terminal-input", daemon=True).start()
        return lines
