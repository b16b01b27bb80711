"""llama.cpp servers, one for each way in which the tests want the model to speak; and the client that reaches them."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Final

import pytest

from agent.models.catalog import ModelCatalog, ModelEndpoint
from agent.models.litellm import LitellmClient
from tests.parts.environments import interpreter

HERE: Final = Path(__file__).parent
WINDOW: Final = 2_048
ONE_LINE: Final = 'root ::= " "? [^\\n]{2,80} "\\n"'
"""Something, but not for ever."""


@contextmanager
def llama(window: int, grammar: str = "", *, model: str = "gemma3") -> Iterator[str]:
    """The address of a running server. Skips the test where llama.cpp cannot be installed."""
    try:
        python = interpreter(HERE / "llama.lock")
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"llama.cpp cannot be installed here: {error}")
    command = [str(python), str(HERE / "llama.py"), model, str(window), grammar]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        try:
            assert process.stdout is not None
            address = next((line.strip() for line in process.stdout if line.startswith("http://")), "")
            assert address, "llama.cpp did not start"
            yield address
        finally:
            process.kill()


@pytest.fixture(scope="session")
def brief_server() -> Iterator[str]:
    """A model that says one line."""
    with llama(WINDOW, ONE_LINE) as address:
        yield address


@pytest.fixture(scope="session")
def talkative_server() -> Iterator[str]:
    """A model that talks until its window is full."""
    with llama(WINDOW) as address:
        yield address


@pytest.fixture
async def brief(brief_server: str) -> AsyncIterator[LitellmClient]:
    client = client_of(brief_server)
    yield client
    await client.close()


@pytest.fixture
async def talkative(talkative_server: str) -> AsyncIterator[LitellmClient]:
    client = client_of(talkative_server)
    yield client
    await client.close()


def client_of(address: str) -> LitellmClient:
    """Our client for a private server."""
    return LitellmClient(ModelCatalog(), partial(ModelEndpoint, api_base=f"{address}/v1", api_key="none"))


@pytest.fixture(autouse=True)
async def quiet_loop() -> AsyncIterator[None]:
    """litellm logs in tasks of its own; they end before the loop does."""
    yield
    await asyncio.sleep(0)
