"""Model calls by themselves, in a process of their own: `python -m tests.bench.litellm_alone URL` prints the CPU of one
and the memory of the process; with `acompletion` behind the address, of the same calls as litellm itself makes them.

It asks the same provider in the same shape as the product does, so that what is left of the product's CPU is ours.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from collections.abc import Collection
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Final

import psutil
import uvloop

from agent.models.catalog import ModelCatalog, ModelEndpoint
from agent.models.litellm import LitellmClient
from agent.models.provider_calls import ProviderCalls
from agent.models.requests import ModelRequest, PromptMessage, ToolSpec, ask
from agent.prompts.library import PROMPTS
from agent.tools.files.workspace import Workspaces
from agent.tools.policy import Visibility
from agent.tools.tool import ToolContext
from agent.tools.toolbox import open_toolbox
from gateway.clock import SystemClock
from gateway.config.tools import ToolSettings
from gateway.contracts.ids import WORKSPACES, SessionKey
from gateway.contracts.messages import CleanText
from gateway.contracts.sessions import Role, UsagePurpose
from gateway.scrub import Scrubber
from gateway.store.foreign import ForeignDatabases
from tests.bench.chats import QUESTION
from tests.bench.processes import running, said
from tests.bench.product import ROOT

CALLS: Final = 200
CALLS_WITHIN_S: Final = 120.0
WARM_UP: Final = 5
LITELLMS_OWN: Final = "acompletion"
OWN_TOOLS: Final = tuple(
    ToolSpec(name, "Keeps something.", {"type": "object", "properties": {"text": {"type": "string"}}})
    for name in ("todo_read", "todo_write", "remember", "recall", "load_skill", "schedule", "plan")
)
"""Stand-ins for the tools that need a store."""


@dataclass(frozen=True, slots=True)
class Spent:
    """The CPU of one call, and what the process held after all of them."""

    cpu_ms: float
    pss_mb: float


async def spent_on_calls(url: str, cores: Collection[int], *way: str) -> Spent:
    """Measured in a new process."""
    command = (sys.executable, "-m", "tests.bench.litellm_alone", url, *way)
    async with running(command, {**os.environ, "PYTHONPATH": str(ROOT)}, cores=cores) as process:
        return Spent(**await said(process, within_s=CALLS_WITHIN_S))


KEY = SessionKey("telegram", "1")


async def offered() -> tuple[ToolSpec, ...]:
    """What a guest's model is offered in a direct message."""
    with tempfile.TemporaryDirectory() as folder:
        toolbox = open_toolbox(
            ToolSettings(),
            workspaces=Workspaces(Path(folder) / WORKSPACES),
            own=(),
            databases=ForeignDatabases({}),
            scrubber=Scrubber(),
            clock=SystemClock(),
        )
        async with toolbox as tools:
            return (*tools.specs_for(ToolContext(KEY, "", place=Visibility.DM)), *OWN_TOOLS)


async def measure(url: str, *way: str) -> Spent:
    if way == (LITELLMS_OWN,):
        setattr(ProviderCalls, "prepare", lambda *_: None)  # noqa: B010  # a method
    client = LitellmClient(ModelCatalog(), partial(ModelEndpoint, api_base=url, api_key="x"))
    question = PromptMessage(Role.USER, CleanText(QUESTION.format(number=1)))
    request = ModelRequest("openai/gpt-4o-mini", UsagePurpose.TURN, KEY, PROMPTS.system, (question,), timeout_s=30.0)
    request = replace(request, tools=await offered())
    for _ in range(WARM_UP):
        await ask(client, request)
    before_s = time.process_time()
    for _ in range(CALLS):
        await ask(client, request)
    spent_s = time.process_time() - before_s
    held = psutil.Process().memory_full_info()
    await client.close()
    return Spent(1000 * spent_s / CALLS, held.pss / 1e6)


if __name__ == "__main__":
    sys.stdout.write(json.dumps(asdict(uvloop.run(measure(*sys.argv[1:])))) + "\n")
