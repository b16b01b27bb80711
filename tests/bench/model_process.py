"""A model provider in a process of its own: `python -m tests.bench.model_process` prints where it listens."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys
from collections.abc import AsyncIterator, Collection

from tests.bench.processes import running, said
from tests.bench.product import ROOT
from tests.parts.model_server import serve_model


@contextlib.asynccontextmanager
async def open_model(cores: Collection[int]) -> AsyncIterator[dict[str, str]]:
    """The settings with which an agent asks this model through litellm."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    async with running((sys.executable, "-m", "tests.bench.model_process"), environment, cores=cores) as process:
        url = (await said(process))["url"]
        yield {"TRIVET_AGENT__MODEL": "openai/gpt-4o-mini", "TRIVET_AGENT__API_BASE": url, "TRIVET_AGENT__API_KEY": "x"}


async def serve() -> None:
    """Answer until somebody ends the process or its standard input."""
    async with serve_model() as model:
        sys.stdout.write(json.dumps({"url": model.url}) + "\n")
        sys.stdout.flush()
        await asyncio.to_thread(sys.stdin.buffer.read)


if __name__ == "__main__":
    asyncio.run(serve())
