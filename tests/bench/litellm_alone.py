"""litellm by itself, in a process of its own: `python -m tests.bench.litellm_alone URL` prints its CPU per call.

It asks the same provider in the same shape as the product does, so that what is left of the product's CPU is ours.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import tempfile
import time
from collections.abc import Collection
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final

from agent.models.catalog import ModelCatalog, ModelEndpoint
from agent.models.litellm import LitellmClient
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
OWN_TOOLS: Final = tuple(
    ToolSpec(name, "Keeps something.", {"type": "object", "properties": {"text": {"type": "string"}}})
    for name in ("todo_read", "todo_write", "remember", "recall", "load_skill", "schedule", "plan")
)
"""Stand-ins for the tools that need a store."""


async def cpu_ms_per_call(url: str, cores: Collection[int]) -> float:
    """Measured in a new process."""
    command = (sys.executable, "-m", "tests.bench.litellm_alone", url)
    async with running(command, {**os.environ, "PYTHONPATH": str(ROOT)}, cores=cores) as process:
        return float((await said(process, within_s=CALLS_WITHIN_S))["cpu_ms"])


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


async def measure(url: str) -> float:
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
    await client.close()
    return 1000 * spent_s / CALLS


if __name__ == "__main__":
    sys.stdout.write(json.dumps({"cpu_ms": asyncio.run(measure(sys.argv[1]))}) + "\n")
