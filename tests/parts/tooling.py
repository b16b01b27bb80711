"""Tools and contexts for the tests of the registry and of each tool family."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from jsonschema import Draft202012Validator

from agent.limits import FILE_THREADS_MAX, FILE_THREADS_OWNER_MAX
from agent.models.requests import RequestedCall, ToolSpec
from agent.tools.approvals import ApprovalOutcome, ApprovalRequest
from agent.tools.policy import Permission, Policy, PolicyLine, Risk, Visibility
from agent.tools.registry import ToolRegistry
from agent.tools.tool import Tool, ToolContext, ToolResult
from gateway.clock import SystemClock
from gateway.contracts.ids import SessionKey
from gateway.contracts.sessions import GrantRole
from gateway.scrub import Scrubber
from gateway.tasks import SharedThreads

OPEN = Policy(tuple(PolicyLine(risk.value, Permission.ALLOW) for risk in Risk))
"""Everybody may do everything: for tests whose subject is not the policy."""


def context(
    key: str = "telegram:1", role: GrantRole = GrantRole.ADMIN, place: Visibility = Visibility.DM
) -> ToolContext:
    """A turn of an admin in a direct message, unless told otherwise."""
    session_key = SessionKey.parse(key)
    return ToolContext(session_key, "turn-1", role, place)


def call(name: str, *, call_id: str = "c1", **arguments: object) -> RequestedCall:
    """A call as a model makes it."""
    return RequestedCall(call_id, name, json.dumps(arguments))


def file_threads() -> SharedThreads:
    """As the toolbox has them."""
    return SharedThreads("files", FILE_THREADS_MAX, FILE_THREADS_OWNER_MAX)


Answer = Callable[[Mapping[str, Any]], str]


def tool(
    name: str,
    answer: Answer = lambda _arguments: "done",
    *,
    risk: Risk = Risk.READ,
    properties: Mapping[str, Any] | None = None,
    foreign: bool = False,
    locks: Callable[[Mapping[str, Any]], tuple[str, ...]] = lambda _arguments: (),
    until: asyncio.Event | None = None,
    timeout_s: float = 5.0,
    quotes: bool = False,
) -> Tool:
    """A tool that answers, after `until` if given."""

    async def run(_context: ToolContext, arguments: Mapping[str, Any]) -> str:
        if until is not None:
            await until.wait()
        return answer(arguments)

    schema = {"type": "object", "properties": properties or {}, "required": list(properties or {})}
    spec = ToolSpec(name, name, schema)
    return Tool(spec, "test", risk, run, timeout_s=timeout_s, foreign=foreign, locks=locks, quotes=quotes)


def registry(*tools: Tool, policy: Policy = OPEN, **options: Any) -> ToolRegistry:
    """A registry with a real scrubber and a real clock, of tools with valid schemas."""
    for tool in tools:
        check_schema(json.dumps(tool.checked))
    return ToolRegistry(tools, Scrubber(), SystemClock(), policy=policy, **options)


@cache
def check_schema(schema: str) -> None:
    """Raise for one that is not valid. Once for each text: all of ours take 0.2 s."""
    Draft202012Validator.check_schema(json.loads(schema))


async def run(tools: ToolRegistry, name: str, *, key: str = "telegram:1", **arguments: object) -> ToolResult:
    """One call of an admin, by itself."""
    (result,) = await tools.run_round(context(key), [RequestedCall("c1", name, json.dumps(arguments))])
    return result


@dataclass
class People:
    """`Approvals` that answer from a list and remember what they were asked."""

    verdicts: Sequence[ApprovalOutcome] = (ApprovalOutcome.APPROVED,)
    asked: list[ApprovalRequest] = field(default_factory=list)

    async def ask(self, question: ApprovalRequest) -> ApprovalOutcome:
        self.asked.append(question)
        return self.verdicts[min(len(self.asked), len(self.verdicts)) - 1]
