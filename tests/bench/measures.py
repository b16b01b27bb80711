"""The experiments. Each starts what it needs, measures, and stops it again."""

from __future__ import annotations

import asyncio
import contextlib
import statistics
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Final

from tests.bench.chats import CHAT_LENGTH, QUESTION, Load, all_together, one_after_another
from tests.bench.figures import Figure, Findings, RoleMemory, memory_grid, percentile
from tests.bench.litellm_alone import LITELLMS_OWN, spent_on_calls
from tests.bench.model_process import open_model
from tests.bench.processes import split_cores
from tests.bench.product import Product, open_product
from tests.bench.sizes import Size
from tests.bench.starts import Start, first_poll
from tests.bench.town import Chat, Town, open_town

PLATFORMS: Final = ("telegram", "discord", "slack")
WARM_UP: Final = 5
"""Messages that nobody counts: the first ones load what is loaded at first use."""
IDLE_AFTER_S: Final = 3.0
SLOW_MODEL: Final = "demo/scripted@500ms"
VERY_SLOW_MODEL: Final = "demo/scripted@10000ms"
HALF_WAY_S: Final = 8.0
"""When all of its turns have begun and none has ended."""


async def latency(size: Size) -> Findings:
    """What the product adds to a model that answers at once, one message at a time, on each platform."""
    figures = []
    async with _everything({}) as (town, product):
        for platform in PLATFORMS:
            other, *chats = await town.chats(platform, 1 + size.sequential // CHAT_LENGTH)
            await one_after_another(town, other, WARM_UP)
            before = product.cpu_s()
            waits_ms = await _waits_ms(town, chats)
            after = product.cpu_s()
            cpu_ms = 1000 * (sum(after.values()) - sum(before.values())) / size.sequential
            own_ms = 1000 * statistics.median([await town.echo_s(other, "Hello") for _ in range(WARM_UP)])
            figures += [
                Figure(
                    f"latency p50, {platform}",
                    percentile(waits_ms, 50),
                    "ms",
                    aim="latency",
                    note=f"of which the clock itself {own_ms:.1f}",
                ),
                Figure(
                    f"latency p95, {platform}",
                    percentile(waits_ms, 95),
                    "ms",
                    aim="latency-p95",
                    note=f"CPU {cpu_ms:.1f} ms/message",
                ),
            ]
    return Findings(tuple(figures))


async def throughput(size: Size) -> Findings:
    """Many chats at once on one core, with a model that answers at once."""
    figures: list[Figure] = []
    async with _everything({}, is_pinned=True) as (town, product):
        figures += _load_figures("scripted model, telegram", await _telegram_load(town, product, size))
        count = max(size.chats // len(PLATFORMS), 1)
        chats = [chat for platform in PLATFORMS for chat in await town.chats(platform, count)]
        load = await all_together(town, product, chats, size.messages)
        figures += _load_figures("scripted model, three platforms", load)
    return Findings(tuple(figures))


async def litellm(size: Size) -> Findings:
    """The same through litellm, with a provider that answers at once; and what litellm holds in memory."""
    _, rest = split_cores()
    async with open_model(rest) as model:
        url = model["TRIVET_AGENT__API_BASE"]
        alone, own = await spent_on_calls(url, rest), await spent_on_calls(url, rest, LITELLMS_OWN)
        async with _everything(model, is_pinned=True) as (town, product):
            (stranger,) = await town.chats("telegram", 1)
            after_start_s = await town.ask(stranger, QUESTION.format(number=0))
            load = await _telegram_load(town, product, size)
            waits_ms = await _waits_ms(town, await town.chats("telegram", size.sequential // CHAT_LENGTH))
            firsts_ms, firsts_cpu_ms = await _first_messages(town, product, size.sequential // 2)
            held = product.memory()
    calls = 1 + 1 / size.messages  # the first message of a chat is also asked for a title
    return Findings(
        (
            Figure("first message after a start, litellm", after_start_s, "s", aim="after-start"),
            Figure("agent, litellm in use", _of("agent", held), "MB", aim="agent-litellm"),
            *_load_figures("litellm, telegram", load, cpu_aim="cpu-litellm"),
            Figure("first message of a chat p50, litellm", percentile(firsts_ms, 50), "ms", aim="first-of-chat"),
            Figure(
                "first message of a chat p95, litellm",
                percentile(firsts_ms, 95),
                "ms",
                aim="first-of-chat-p95",
                note=f"CPU {firsts_cpu_ms:.1f} ms/message, its title too (goal 20)",
            ),
            Figure("CPU per call, alone", alone.cpu_ms, "ms", note=f"{calls:.1f} calls per message above"),
            Figure("the same by acompletion", own.cpu_ms, "ms", note=f"{own.pss_mb:.0f} MB, {alone.pss_mb:.0f} above"),
            Figure("model calls' share of a message", 100 * alone.cpu_ms * calls / load.cpu_ms, "%"),
            Figure("CPU per message, outside of model calls", load.cpu_ms - alone.cpu_ms * calls, "ms"),
            Figure("latency p50, telegram, litellm", percentile(waits_ms, 50), "ms", note="one core"),
            Figure("latency p95, telegram, litellm", percentile(waits_ms, 95), "ms"),
        ),
        (memory_grid("after litellm's calls", held),),
    )


async def slow_model(size: Size) -> Findings:
    """Many chats, two messages each, with a model that thinks for half a second."""
    extra = {"TRIVET_AGENT__MODEL": SLOW_MODEL, "TRIVET_AGENT__CONCURRENCY": str(size.chats)}
    async with _everything(extra) as (town, product):
        load = await _telegram_load(town, product, replace(size, messages=2))
    what = f"{size.chats} chats x 2, model 500 ms"
    note = f"CPU {load.cpu_ms:.1f} ms/message; one agent process with a turn for each chat"
    return Findings((Figure(what, load.elapsed_s, "s", aim="slow-model", note=note),))


async def waiting(size: Size) -> Findings:
    """Many chats at once in one agent process, with a model that thinks for ten seconds."""
    async with _everything({"TRIVET_AGENT__MODEL": VERY_SLOW_MODEL}) as (town, product):
        chats = await town.chats("telegram", size.waiting + 1)
        await one_after_another(town, chats.pop(), 1)
        (before,) = [each for each in product.memory() if each.role == "agent"]
        asking = asyncio.create_task(all_together(town, product, chats, 1))
        await asyncio.sleep(HALF_WAY_S)
        (halfway,) = [each for each in product.memory() if each.role == "agent"]
        load = await asking
    a_turn_kb = 1000 * (halfway.uss_mb - before.uss_mb) / size.waiting
    note = f"{a_turn_kb:.0f} kB for each turn that waits"
    what = f"{size.waiting} chats, model 10 s, all answered after"
    return Findings((Figure(what, load.elapsed_s, "s", aim="waiting", note=note),))


async def start(size: Size) -> Findings:
    """From the start of a process to its first use."""
    async with open_town(()) as town:
        others = {name: keys for name, keys in town.access.items() if name != "telegram"}
        alone = [await first_poll({}) for _ in range(size.starts)]
        together = [await first_poll(others) for _ in range(size.starts)]
        whole = []
        for _ in range(size.starts):
            async with open_product(town.access, {}, is_paced=True) as product:
                whole.append(Start(product.start_s, sum(product.cpu_s().values())))
    return Findings(
        (
            _start_figure("channels -> first poll, telegram alone", alone),
            replace(_start_figure("channels -> first poll, three platforms", together), aim="first-poll"),
            replace(_start_figure("trivet up -> ready, new directory", whole), aim="up"),
        )
    )


async def memory(size: Size) -> Findings:
    """What an idle Trivet holds, connected to all platforms and to Telegram alone."""
    async with open_town(()) as town:
        all_three = await _idle_memory(town.access)
        alone = {"telegram": town.access["telegram"]}
        telegram, single = await _idle_memory(alone), await _idle_memory(alone, is_single=True)
    figures = (
        Figure("idle tree, three platforms", _total(all_three), "MB", aim="tree", note="proportional set size"),
        Figure("idle channels, three platforms", _of("channels", all_three), "MB", aim="channels"),
        Figure("idle tree, telegram alone", _total(telegram), "MB", aim="tree-telegram"),
        Figure("idle channels, telegram alone", _of("channels", telegram), "MB"),
        Figure("idle, all roles in one process, telegram", _total(single), "MB", aim="single"),
    )
    grids = (memory_grid("idle, three platforms", all_three), memory_grid("idle, telegram alone", telegram))
    return Findings(figures, grids)


@contextlib.asynccontextmanager
async def _everything(extra: Mapping[str, str], *, is_pinned: bool = False) -> AsyncIterator[tuple[Town, Product]]:
    """Emulators and product; pinned, the product has one core for itself, and everybody else the others."""
    own, rest = split_cores() if is_pinned else _anywhere()
    async with open_town(rest) as town, open_product(town.access, extra, cores=own) as product:
        yield town, product


def _anywhere() -> tuple[Collection[int], Collection[int]]:
    return (), ()


async def _waits_ms(town: Town, chats: Sequence[Chat]) -> list[float]:
    """Chat after chat, message after message."""
    return [1000 * wait_s for chat in chats for wait_s in await one_after_another(town, chat, CHAT_LENGTH)]


async def _first_messages(town: Town, product: Product, count: int) -> tuple[list[float], float]:
    """The waits for the first answer of so many new chats, one after another, and the CPU of each in ms."""
    chats = await town.chats("telegram", count)
    before = sum(product.cpu_s().values())
    waits_ms = [1000 * await town.ask(chat, QUESTION.format(number=1)) for chat in chats]
    return waits_ms, 1000 * (sum(product.cpu_s().values()) - before) / count


async def _telegram_load(town: Town, product: Product, size: Size) -> Load:
    chats = await town.chats("telegram", size.chats + 1)
    await one_after_another(town, chats.pop(), WARM_UP)
    return await all_together(town, product, chats, size.messages)


def _load_figures(what: str, load: Load, *, cpu_aim: str = "cpu") -> tuple[Figure, ...]:
    return (
        Figure(
            f"messages per second, {what}", load.per_s, "/s", aim="rate", note=f"{load.messages} messages, one core"
        ),
        Figure(f"CPU per message, {what}", load.cpu_ms, "ms", aim=cpu_aim, note=load.shares),
    )


def _start_figure(what: str, starts: Sequence[Start]) -> Figure:
    elapsed_s = [each.elapsed_s for each in starts]
    cpu_s = statistics.median(each.cpu_s for each in starts)
    note = f"median of {len(starts)}, worst {max(elapsed_s):.2f}; CPU {cpu_s:.2f} s"
    return Figure(what, statistics.median(elapsed_s), "s", note=note)


async def _idle_memory(access: Mapping[str, Mapping[str, str]], *, is_single: bool = False) -> tuple[RoleMemory, ...]:
    async with open_product(access, {}, is_paced=True, is_single=is_single) as product:
        await asyncio.sleep(IDLE_AFTER_S)
        return product.memory()


def _total(found: Collection[RoleMemory]) -> float:
    return sum(role.pss_mb for role in found)


def _of(name: str, found: Collection[RoleMemory]) -> float:
    return sum(role.pss_mb for role in found if role.role == name)
