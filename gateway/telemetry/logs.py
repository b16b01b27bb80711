"""Logs: structured, one line per event, scrubbed as the very last step.

Scrubbing is done by the formatter, on the finished line: whatever a message, its arguments, its extra
fields, a bound context variable or a traceback brought along, and whichever library logged it, has to pass
there. Before that each text is scrubbed as it is, for a line has only its escapes; only plain words under names of ours
are the same in both. Bind what belongs to one turn
with `structlog.contextvars.bound_contextvars(turn_id=…)`."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import re
import sys
from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, TextIO

import structlog
from structlog.typing import EventDict, Processor

from gateway import process
from gateway.contracts.errors import BusError
from gateway.contracts.messages import each_text
from gateway.contracts.ports import LogLine
from gateway.limits import LOG_LINES_EVERY_S, LOG_LINES_PENDING_MAX
from gateway.scrub import Scrubber

if TYPE_CHECKING:
    from gateway.bus.operator import Operator

QUIET: Final = (
    "httpx",
    "httpx2",
    "httpcore",
    "mcp",
    "aiohttp.access",
    "hpack",
    "slack_sdk.web.async_client",
    "uvicorn.access",
    "alembic",
)
"""Loggers that tell every request at INFO, its address with the token in it included, or each of their parts."""

_OWN_HANDLERS: Final = ("uvicorn", "uvicorn.error", "uvicorn.access", "discord", "slack_bolt", "slack_sdk", "aiohttp")
"""Libraries that bring handlers of their own; their records have to come to ours."""

_OURS: Final = ("trivet", "gateway", "channels", "agent")
"""Ours may be as talkative as the operator wants. What libraries tell below INFO is content, cut into pieces or
escaped, in which no scrubber can recognise anything."""

_OUR_FIELDS: Final = frozenset(
    {
        *("event", "level", "logger", "timestamp"),
        *("turn_id", "lane", "session_id", "task_id", "message_id", "reply_id", "letter_id"),
        *("code", "reference", "state", "verdict"),
    }
)
"""Fields that hold constants and ids of ours. Any other may hold what somebody else said."""

_PLAIN: Final = re.compile(r"[A-Za-z0-9_.:/~+-]{0,160}")
"""A text that has the same form in a line: the scrubber sees all of it there."""

UNPRINTABLE: Final = "a log record could not be printed"


class ScrubbingFormatter(logging.Formatter):
    """Formats with `inner`, then scrubs. A record that cannot be formatted becomes one plain sentence."""

    def __init__(self, scrubber: Scrubber, inner: logging.Formatter) -> None:
        super().__init__()
        self._scrubber = scrubber
        self._inner = inner

    def format(self, record: logging.LogRecord) -> str:
        """Format `record` as a finished line, free of secrets."""
        try:
            line = self._inner.format(record)
        except Exception as error:  # noqa: BLE001 - logging must not fail, nor fall back to a raw record
            line = f"{UNPRINTABLE} (logger={record.name}, error={type(error).__name__})"
        return self._scrubber.scrub(line)


class KeptLines(logging.StreamHandler[TextIO]):
    """Writes lines to a stream, and keeps the newest until they are sent to where the operator's page finds them."""

    def __init__(self, output: TextIO) -> None:
        super().__init__(output)
        self._lines: deque[LogLine] = deque(maxlen=LOG_LINES_PENDING_MAX)

    def format(self, record: logging.LogRecord) -> str:
        """Format `record` as a finished line, and keep that."""
        line = super().format(record)
        self._lines.append(LogLine(int(record.created * 1000), record.levelname.lower(), line))
        return line

    def take(self) -> Sequence[LogLine]:
        """Hand over what has gathered, oldest first."""
        return [self._lines.popleft() for _ in range(len(self._lines))]


async def send_lines(bus: Operator) -> None:
    """Send what this process logs to the bus every two seconds, until cancelled. What is logged while the bus is away
    for long is on standard error alone."""
    while True:
        await asyncio.sleep(LOG_LINES_EVERY_S)
        for handler in logging.getLogger().handlers:
            if isinstance(handler, KeptLines) and (lines := handler.take()):
                with contextlib.suppress(BusError):
                    await bus.add_lines(lines)


def configure_logs(
    scrubber: Scrubber, *, level: str = "INFO", as_json: bool = True, output: TextIO | None = None
) -> logging.Handler:
    """Send structlog and every standard library logger through one scrubbing handler on the root.

    `level` is a standard name in any case; `as_json` chooses JSON lines over text for a console; `output`
    defaults to standard error. Calling it again replaces the handler. Returns the handler.

    What the process says past its logs, when it crashes, is scrubbed with the same scrubber from now on."""
    process.use_scrubber(scrubber)
    shared: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_logger_name,
        structlog.stdlib.add_log_level,
        structlog.stdlib.ExtraAdder(),
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.StackInfoRenderer(),
        structlog.processors.format_exc_info,
    ]
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            structlog.stdlib.PositionalArgumentsFormatter(),
            *shared,
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        wrapper_class=structlog.stdlib.BoundLogger,
        logger_factory=structlog.stdlib.LoggerFactory(),
        cache_logger_on_first_use=False,
    )
    inner = structlog.stdlib.ProcessorFormatter(
        foreign_pre_chain=shared,
        processors=[
            structlog.stdlib.ProcessorFormatter.remove_processors_meta,
            _cleaner(scrubber),
            _renderer(as_json=as_json),
        ],
    )
    handler = KeptLines(output or sys.stderr)
    handler.setFormatter(ScrubbingFormatter(scrubber, inner))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    for name in _OURS:
        logging.getLogger(name).setLevel(root.level)
    root.setLevel(max(root.level, logging.INFO))
    for name in _OWN_HANDLERS:
        library = logging.getLogger(name)
        library.handlers.clear()
        library.propagate = True
    for name in QUIET:
        logging.getLogger(name).setLevel(max(logging.WARNING, root.level))
    logging.captureWarnings(capture=True)
    logging.raiseExceptions = False  # or a line that cannot be written is printed raw, with its arguments
    return handler


def _cleaner(scrubber: Scrubber) -> Processor:
    def clean(_logger: Any, _method: str, event: EventDict) -> EventDict:
        return {
            name: value if _is_plain(name, value) else each_text(value, scrubber.scrub) for name, value in event.items()
        }

    return clean


def _is_plain(name: str, value: Any) -> bool:
    return name in _OUR_FIELDS and isinstance(value, str) and _PLAIN.fullmatch(value) is not None


def _renderer(*, as_json: bool) -> Processor:
    if as_json:
        return structlog.processors.JSONRenderer(ensure_ascii=False, default=str)
    return structlog.dev.ConsoleRenderer(colors=False)
