"""Runs the tools of one round: validated, in parallel, results in call order, scrubbed and bounded."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

import json_repair
import structlog
from jsonschema import Draft202012Validator

from agent.limits import TOOL_ARGUMENTS_CHARS_MAX, TOOL_RESULT_CHARS_MAX, TOOLS_PARALLEL_MAX
from agent.model.client import RequestedCall, ToolSpec
from agent.tools.tool import Tool, ToolContext, ToolResult
from gateway.contracts.errors import ToolError
from gateway.contracts.ports import Clock, Scrubber

_log = structlog.get_logger(__name__)
_ESCAPED: Final = re.compile(r"\\u([0-9a-fA-F]{4})")
_CUT: Final = "\n[… {count} characters left out …]\n"


class ToolRegistry:
    """All tools of an agent process, by name. Refuses two tools of one name and a broken schema."""

    def __init__(self, tools: Sequence[Tool], scrubber: Scrubber, clock: Clock) -> None:
        self._tools = {tool.spec.name: tool for tool in tools}
        if len(self._tools) != len(tools):
            raise ValueError("two tools share a name")
        for tool in tools:
            Draft202012Validator.check_schema(tool.spec.schema)
        self._validators = {name: Draft202012Validator(tool.spec.schema) for name, tool in self._tools.items()}
        self._scrubber = scrubber
        self._clock = clock

    @property
    def specs(self) -> tuple[ToolSpec, ...]:
        """As the model sees them, in a fixed order: the prompt's prefix must not change."""
        return tuple(tool.spec for _, tool in sorted(self._tools.items()))

    @property
    def overview(self) -> Mapping[str, tuple[str, ...]]:
        """Tool names by category, for the system prompt."""
        categories: dict[str, list[str]] = {}
        for name, tool in sorted(self._tools.items()):
            categories.setdefault(tool.category, []).append(name)
        return {category: tuple(names) for category, names in sorted(categories.items())}

    async def run_round(self, context: ToolContext, calls: Sequence[RequestedCall]) -> tuple[ToolResult, ...]:
        """Every call gets a result, in call order. Cancelling cancels every tool."""
        slots = asyncio.Semaphore(TOOLS_PARALLEL_MAX)
        async with asyncio.TaskGroup() as group:
            running = [group.create_task(self._run_one(context, call, slots)) for call in calls]
        return tuple(task.result() for task in running)

    async def _run_one(self, context: ToolContext, call: RequestedCall, slots: asyncio.Semaphore) -> ToolResult:
        async with slots:
            await context.permit()
            began_s = self._clock.monotonic_s()
            is_error = False
            try:
                raw = await self._attempt(context, call)
            except ToolError as error:
                raw, is_error = str(error), True
            except Exception as error:  # noqa: BLE001 - the tool boundary: the model gets an error result, the log the rest
                _log.exception("tool.crashed", tool=call.name)
                raw, is_error = f"{call.name} failed: {type(error).__name__}", True
            duration_ms = int((self._clock.monotonic_s() - began_s) * 1000)
        # Cut only after scrubbing: a cut through a secret would hide it from the scrubber.
        clean = self._scrubber.scrub(raw)
        shown, is_truncated = _bounded(clean)
        _log.info("tool.ran", tool=call.name, ok=not is_error, duration_ms=duration_ms)
        return ToolResult(call.id, call.name, self._scrubber.scrub(shown), is_error, is_truncated, duration_ms)

    async def _attempt(self, context: ToolContext, call: RequestedCall) -> str:
        tool = self._tools.get(call.name)
        if tool is None:
            raise ToolError(f"there is no tool {call.name!r}; there are: {', '.join(sorted(self._tools))}")
        arguments = parse_arguments(call.arguments)
        problems = sorted(self._validators[call.name].iter_errors(arguments), key=lambda problem: list(problem.path))
        if problems:
            raise ToolError("; ".join(f"{problem.json_path}: {problem.message[:200]}" for problem in problems[:5]))
        try:
            async with asyncio.timeout(tool.timeout_s):
                return await tool.run(context, arguments)
        except TimeoutError as error:
            raise ToolError(f"{call.name} did not finish within {tool.timeout_s:g} s") from error


def parse_arguments(text: str) -> Mapping[str, Any]:
    """The arguments as an object; broken JSON is repaired where that is possible. Raises `ToolError`."""
    if len(text) > TOOL_ARGUMENTS_CHARS_MAX:
        raise ToolError(f"the arguments are longer than {TOOL_ARGUMENTS_CHARS_MAX} characters")
    try:
        value = json.loads(text or "{}")
    except ValueError:
        value = json_repair.loads(text)
    if not isinstance(value, dict):
        raise ToolError("the arguments are no JSON object")
    return value


def written_out(text: str) -> str:
    """The same arguments with every character as itself: a word in `\\u` escapes is hidden from the scrubber."""
    try:
        written = json.dumps(json.loads(text or "{}"), ensure_ascii=False)
    except (ValueError, RecursionError):
        written = _ESCAPED.sub(lambda escaped: chr(int(escaped[1], 16)), text)
    return written.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _bounded(text: str) -> tuple[str, bool]:
    """Head and tail of a text that is too long for the model."""
    if len(text) <= TOOL_RESULT_CHARS_MAX:
        return text, False
    half = TOOL_RESULT_CHARS_MAX // 2
    return text[:half] + _CUT.format(count=len(text) - 2 * half) + text[-half:], True
