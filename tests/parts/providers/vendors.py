"""The vendors of the emulated providers: their wires, a model that speaks each, and the address of a server."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Final

from agent.models.catalog import ModelCatalog, ModelEndpoint
from agent.models.litellm import LitellmClient
from tests.parts.providers import anthropic, gemini, openai
from tests.parts.providers.script import Answer, Body, Fault, Wire
from tests.parts.providers.server import Answering, ProviderServer, serving


@dataclass(frozen=True, slots=True)
class Vendor:
    """A wire, a model that speaks it, and what its address ends with."""

    wire: Wire
    model: str
    suffix: str = ""


VENDORS: Final = {
    "openai": Vendor(openai.WIRE, "openai/gpt-4o-mini", "/v1"),
    "anthropic": Vendor(anthropic.WIRE, "anthropic/claude-sonnet-4-5"),
    "gemini": Vendor(gemini.WIRE, "gemini/gemini-2.5-flash"),
}


def always(answer: Answer | Fault) -> Callable[[Body], Answer | Fault]:
    """A provider that gives one answer whatever it is asked."""
    return lambda _body: answer


@asynccontextmanager
async def asked(
    vendor: Vendor,
    answer: Answering,
    *,
    effort: str = "",
    temperature: float | None = None,
    max_tokens: int | None = None,
) -> AsyncIterator[tuple[ProviderServer, LitellmClient]]:
    """A running server and our client of it; its models think with that `effort`, at that temperature, and write that
    many tokens."""
    async with serving(vendor.wire, answer) as server:
        address = partial(
            ModelEndpoint,
            api_base=server.url + vendor.suffix,
            api_key="key-of-the-test",
            reasoning_effort=effort,
            temperature=temperature,
            max_tokens=max_tokens,
        )
        client = LitellmClient(ModelCatalog(), address)
        yield server, client
        await client.close()
