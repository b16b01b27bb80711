"""`make eval`, or `python -m tests.eval [KIND …]`: what a model does with the cases of `cases.toml`, as a table.

The model is the configured one (`trivet.toml`, the environment), or SmolLM2 on a llama.cpp server of its own.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from typing import Final

import uvloop
from rich.console import Console
from rich.table import Table

from agent.model_clients import model_clients
from agent.models.requests import ModelProvider
from gateway.config import load_settings
from gateway.contracts.errors import ConfigError
from tests.eval.asking import given_by, prompted
from tests.eval.judging import Case, Given, faults_of, load_cases
from tests.llm.conftest import client_of, llama
from tests.llm.tool_calls import calling_tools

SHOWN_CHARS_MAX: Final = 90
SMOLLM2: Final = "openai/smollm2-135m-instruct"
SMOLLM2_WINDOW: Final = 8_192


def main() -> int:
    cases = load_cases()
    kinds = list(dict.fromkeys(case.kind for case in cases))
    parser = argparse.ArgumentParser(prog="python -m tests.eval", description="What a model makes of our prompts.")
    parser.add_argument("kinds", nargs="*", metavar="KIND", help=f"only these of: {', '.join(kinds)}")
    parser.add_argument("--smollm2", action="store_true", help="ask SmolLM2-135M-Instruct, not the configured model")
    parser.add_argument("--at-once", type=int, default=4, metavar="N", help="calls at the same time (4)")
    options = parser.parse_args()
    if unknown := set(options.kinds) - set(kinds):
        parser.error(f"there is no {unknown.pop()}; there are {', '.join(kinds)}")
    chosen = [case for case in cases if not options.kinds or case.kind in options.kinds]
    try:
        judged = uvloop.run(_judge_all(chosen, is_small=options.smollm2, at_once=options.at_once))
    except ConfigError as error:
        parser.error(str(error))
    _print(judged, Console(width=160) if not sys.stdout.isatty() else Console())
    return 0


async def _judge_all(cases: Sequence[Case], *, is_small: bool, at_once: int) -> list[tuple[Case, Given, list[str]]]:
    here, turns = await prompted(), asyncio.Semaphore(1 if is_small else at_once)
    offered = {tool.name for tool in here.tools}
    possible = [case for case in cases if not case.calls or offered & set(case.calls)]

    async def judged(provider: ModelProvider, model: str, case: Case) -> tuple[Case, Given, list[str]]:
        async with turns:
            given = await given_by(provider, model, case, here)
        return case, given, faults_of(case, given)

    async with _smollm2() if is_small else _configured() as (provider, model):
        sys.stderr.write(f"{model}: {len(possible)} cases, {len(here.tools)} tools offered\n")
        if len(possible) < len(cases):
            sys.stderr.write(f"left out, since no tool for them is there: {len(cases) - len(possible)}\n")
        return await asyncio.gather(*(judged(provider, model, case) for case in possible))


@asynccontextmanager
async def _configured() -> AsyncIterator[tuple[ModelProvider, str]]:
    settings = load_settings(None, os.environ).settings
    provider = model_clients(settings).client
    yield provider, settings.agent.model
    await provider.close()


@asynccontextmanager
async def _smollm2() -> AsyncIterator[tuple[ModelProvider, str]]:
    """The model behind the endpoint that makes it call a tool wherever there are tools: see `tests.llm.tool_calls`."""
    with llama(SMOLLM2_WINDOW, model="smollm2") as server:
        async with calling_tools(server) as address:
            provider = client_of(address)
            yield provider, SMOLLM2
            await provider.close()


def _print(judged: Iterable[tuple[Case, Given, list[str]]], console: Console) -> None:
    rows = list(judged)
    total, passed = Counter(case.kind for case, _, _ in rows), Counter(case.kind for case, _, bad in rows if not bad)
    failures = Table("kind", "said", "what is wrong", "the answer", title="failures", title_justify="left")
    for case, given, faults in rows:
        if faults:
            said = case.said or case.history[0][1]
            answer = " ".join((*(f"→{name}" for name in given.calls), *given.text.split()))
            failures.add_row(case.kind, _short(said), "; ".join(faults), _short(answer))
    console.print(failures)
    table = Table("kind", "passed", "of")
    for kind, number in total.items():
        table.add_row(kind, str(passed[kind]), str(number))
    table.add_row("all", str(passed.total()), str(total.total()))
    console.print(table)


def _short(text: str) -> str:
    return text if len(text) <= SHOWN_CHARS_MAX else text[: SHOWN_CHARS_MAX - 1] + "…"


if __name__ == "__main__":
    sys.exit(main())
