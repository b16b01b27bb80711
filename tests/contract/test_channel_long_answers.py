"""Answers too long to be read as messages: a beginning and a file with all of it, on the three emulated platforms."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from channels.core.adapter import AnyChunk, ChannelAdapter, OutgoingFile
from channels.core.content import LONG_ANSWER_CHUNKS
from channels.emulators.stage import Place
from gateway.bus.bus import RedisBus, open_bus
from gateway.contracts.errors import FormatRefused
from gateway.contracts.ids import ReplyAddress
from gateway.scrub import Scrubber
from tests.parts.answering import EchoAgent, until_delivered
from tests.parts.growing import growing, show_at_once
from tests.parts.towns import TOWNS, Town, town
from tests.parts.waiting import until

__all__ = ["town"]

PARAGRAPH = "Once upon a time there was a very long answer that nobody wanted to read in messages. " * 20


@pytest.fixture
async def quick_town(request: pytest.FixtureRequest) -> AsyncIterator[Town]:
    """The two that connect within a moment."""
    async with TOWNS[request.param]() as built:
        yield built


quick = pytest.mark.parametrize("quick_town", ["telegram", "slack"], indirect=True)


def story(town: Town, messages: int) -> str:
    """A text of so many messages on this platform, at least."""
    count = messages * town.letters_max // len(PARAGRAPH) + 1
    return "\n\n".join(f"## Chapter {number}\n\n{PARAGRAPH}" for number in range(count))


@pytest.fixture
async def agent(bus: RedisBus) -> AsyncIterator[EchoAgent]:
    echo = EchoAgent(bus)
    async with echo.at_work():
        yield echo


def kinds(town: Town, place: Place) -> list[str]:
    return ["file" if said.files else "text" for said in town.answers(place)]


async def test_it_goes_out_as_a_beginning_and_a_file(town: Town, bus: RedisBus, agent: EchoAgent) -> None:
    """The file holds every letter of it, as it was written; what is said next comes behind it."""
    dm = town.dm(town.ann)
    whole = story(town, LONG_ANSWER_CHUNKS + 1)
    agent.answer = lambda text: whole if text == "tell me" else f"echo: {text}"
    async with town.line(bus):
        await town.stage.say(town.ann.id, dm.id, "tell me")
        await town.stage.say(town.ann.id, dm.id, "thank you")
        await until(lambda: "echo: thank you" in town.texts(dm))
    assert kinds(town, dm) == ["text", "file", "text"]
    beginning, filed, _ = town.answers(dm)
    assert beginning.text.lstrip("#* ").startswith("Chapter 0")
    file = town.stage.file(filed.id, filed.place_id, 0)
    assert (file.name, file.content.decode()) == ("answer.md", whole)


@pytest.mark.parametrize("quick_town", ["slack", pytest.param("telegram", marks=pytest.mark.long)], indirect=True)
async def test_where_files_are_refused_the_messages_follow(
    quick_town: Town, bus: RedisBus, agent: EchoAgent, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All of them, in order, each once."""
    dm = quick_town.dm(quick_town.ann)
    agent.answer = lambda text: story(quick_town, LONG_ANSWER_CHUNKS)
    adapter = quick_town.adapter(bus)

    def refusing(file: OutgoingFile) -> AnyChunk:
        raise FormatRefused("no files here")

    monkeypatch.setattr(adapter, "file_chunk", refusing)
    expected = len(adapter.chunks(Scrubber().scrub(story(quick_town, LONG_ANSWER_CHUNKS))))
    assert expected > LONG_ANSWER_CHUNKS
    async with quick_town.line(bus, adapter=adapter):
        await quick_town.stage.say(quick_town.ann.id, dm.id, "tell me")
        await quick_town.until_answers(expected, dm)
        await quick_town.stays_silent(expected)
    assert kinds(quick_town, dm) == ["text"] * expected
    told = "\n".join(quick_town.texts(dm))
    numbers = [int(line.removeprefix("Chapter ")) for line in told.splitlines() if line.startswith("Chapter ")]
    assert numbers == sorted(set(numbers))


@quick
async def test_a_lost_acknowledgement_shows_it_once(quick_town: Town, bus: RedisBus, agent: EchoAgent) -> None:
    """The file arrived and nobody heard so: it is found, and no message follows it."""
    dm = quick_town.dm(quick_town.ann)
    agent.answer = lambda text: story(quick_town, LONG_ANSWER_CHUNKS + 1)
    async with quick_town.line(bus, adapter=losing(quick_town.adapter(bus), quick_town)):
        await quick_town.stage.say(quick_town.ann.id, dm.id, "tell me")
        await until(lambda: "file" in kinds(quick_town, dm))
        await quick_town.stays_silent(2)
    assert kinds(quick_town, dm) == ["text", "file"]


def losing(adapter: ChannelAdapter, town: Town) -> ChannelAdapter:
    """An adapter whose second message is cut off behind the send."""
    send = adapter.send

    async def cut(address: ReplyAddress, chunk: AnyChunk, *, send_id: str, plain: bool) -> tuple[str, ...]:
        if send_id.endswith(":whole") and not getattr(town, "is_cut", False):
            setattr(town, "is_cut", True)  # noqa: B010
            town.stage.faults.drop_after = 1
        return await send(address, chunk, send_id=send_id, plain=plain)

    setattr(adapter, "send", cut)  # noqa: B010 - the SDKs' adapters keep several protocols, and all of them stay
    return adapter


@pytest.mark.long
@quick
async def test_a_kill_behind_the_file_repeats_nothing(quick_town: Town, valkey_url: str) -> None:
    """The next process finds the file and goes on behind it."""
    first, second = await open_bus(valkey_url), await open_bus(valkey_url)
    dm = quick_town.dm(quick_town.ann)
    agent = EchoAgent(second, lambda text: story(quick_town, LONG_ANSWER_CHUNKS + 1) if text == "tell me" else text)
    sent = asyncio.Event()
    try:
        async with agent.at_work():
            async with quick_town.line(first, adapter=mute(quick_town.adapter(first), sent)):
                await quick_town.stage.say(quick_town.ann.id, dm.id, "tell me")
                await sent.wait()
            await first.close()
            async with quick_town.line(second):
                await quick_town.stage.say(quick_town.ann.id, dm.id, "next")
                await until(lambda: "next" in quick_town.texts(dm))
        assert kinds(quick_town, dm) == ["text", "file", "text"]
    finally:
        await second.close()


def mute(adapter: ChannelAdapter, sent: asyncio.Event) -> ChannelAdapter:
    """An adapter that never comes back from sending the file."""
    send = adapter.send

    async def stuck(address: ReplyAddress, chunk: AnyChunk, *, send_id: str, plain: bool) -> tuple[str, ...]:
        ids = await send(address, chunk, send_id=send_id, plain=plain)
        if send_id.endswith(":whole"):
            sent.set()
            await asyncio.Event().wait()
        return ids

    setattr(adapter, "send", stuck)  # noqa: B010 - as above
    return adapter


async def test_who_has_read_it_in_messages_keeps_them(bus: RedisBus, monkeypatch: pytest.MonkeyPatch) -> None:
    """An answer that grew beyond its first message before everybody's eyes does not vanish into a file."""
    show_at_once(monkeypatch)
    async with TOWNS["telegram"]() as town, town.line(bus):
        town.stage.faults.other["unlimited"] = 1
        whole = story(town, LONG_ANSWER_CHUNKS)
        async with growing(town, bus, town.group.id, mention_bot=True) as turn:
            await turn.says(whole[: 3 * town.letters_max])
            await until(lambda: len(town.answers(town.group)) >= 3)
            turn.answers(whole)
            await until_delivered(bus, town.platform)
        shown = kinds(town, town.group)
    assert len(shown) > LONG_ANSWER_CHUNKS
    assert "file" not in shown
