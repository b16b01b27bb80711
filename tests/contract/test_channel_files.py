"""Files behind an answer, on the three emulated platforms, with the real SDKs and a real bus."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from channels.core.adapter import MARK, AnyChunk, ChannelAdapter
from channels.emulators.slack import SlackEmulator
from channels.emulators.stage import Place, Said, SharedFile
from channels.emulators.telegram import TelegramEmulator
from gateway.bus.bus import RedisBus, open_bus
from gateway.contracts.ids import ReplyAddress
from gateway.contracts.messages import ReplyFile, literal_text
from tests.parts.answering import EchoAgent
from tests.parts.postmen import RECORDING
from tests.parts.towns import Town, town
from tests.parts.waiting import until

__all__ = ["town"]

REPORT = b"name,value\nsun,1\n"
CSV = (ReplyFile(literal_text("report.csv"), "text/csv", len(REPORT), literal_text("the *numbers* of <today>")), REPORT)
VOICE = (ReplyFile(literal_text("answer.ogg"), "audio/ogg", len(RECORDING), literal_text("")), RECORDING)
PIXELS = b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 8
PNG = (ReplyFile(literal_text("größe 世界.png"), "image/png", len(PIXELS), literal_text("")), PIXELS)


@pytest.fixture
async def agent(bus: RedisBus) -> AsyncIterator[EchoAgent]:
    """Somebody who answers with two files."""
    echo = EchoAgent(bus)
    echo.files = (CSV, PNG)
    async with echo.at_work():
        yield echo


def shown(town: Town, place: Place | None = None) -> list[tuple[Said, SharedFile]]:
    """The files our bot has sent, oldest first."""
    return [
        (said, town.stage.file(said.id, said.place_id, number))
        for said in town.answers(place)
        for number in range(len(said.files))
    ]


def caption(said: Said) -> str:
    """As people read it: without what keeps Discord and Slack from formatting, and without the mark."""
    return said.text.replace("\\", "").replace("\u200b", "").removeprefix(MARK).strip()


async def until_shown(town: Town, count: int, place: Place | None = None) -> list[tuple[Said, SharedFile]]:
    await until(lambda: len(shown(town, place)) >= count)
    return shown(town, place)


class TestArriving:
    async def test_behind_the_words_in_their_order(self, town: Town, bus: RedisBus, agent: EchoAgent) -> None:
        """Byte for byte, with their captions, each once."""
        dm = town.dm(town.ann)
        async with town.line(bus):
            await town.stage.say(town.ann.id, dm.id, "the report, please")
            files = await until_shown(town, 2, dm)
            await town.stays_silent(3)
        assert town.texts(dm)[0] == "echo: the report, please"
        assert [file.content for _, file in files] == [REPORT, PIXELS]
        assert files[0][1].name == "report.csv"
        assert caption(files[0][0]) == "the *numbers* of <today>"

    async def test_in_the_thread_of_the_question(self, town: Town, bus: RedisBus, agent: EchoAgent) -> None:
        async with town.line(bus):
            await town.stage.say(town.ann.id, town.thread.id, "the report, please", mention_bot=True)
            files = await until_shown(town, 2, town.thread)
        assert [file.content for _, file in files] == [REPORT, PIXELS]

    async def test_the_next_answer_comes_behind_them(self, town: Town, bus: RedisBus, agent: EchoAgent) -> None:
        """A file is a step of its reply: order holds over it."""
        dm = town.dm(town.ann)
        agent.files = (CSV,)
        async with town.line(bus):
            await town.stage.say(town.ann.id, dm.id, "one")
            await town.stage.say(town.ann.id, dm.id, "two")
            await until_shown(town, 2, dm)
        kinds = ["file" if said.files else said.text for said in town.answers(dm)]
        assert kinds == ["echo: one", "file", "echo: two", "file"]


class TestRefusals:
    async def test_a_file_nobody_keeps_is_stood_in_for_by_a_sentence(
        self, town: Town, bus: RedisBus, agent: EchoAgent
    ) -> None:
        """The text is there; whoever reads it learns what is missing."""
        dm = town.dm(town.ann)
        agent.files = ((CSV[0], b""), PNG)
        async with town.line(bus):
            await town.stage.say(town.ann.id, dm.id, "the report, please")
            await until_shown(town, 1, dm)
        assert "could not be sent" in town.texts(dm)[1]
        assert "report.csv" in town.texts(dm)[1]

    async def test_an_app_without_the_right_to_write_files_still_writes_words(
        self, town: Town, bus: RedisBus, agent: EchoAgent
    ) -> None:
        """Slack: an app installed before it asked for `files:write`. It must not end the account."""
        if not isinstance(town.stage, SlackEmulator):
            pytest.skip("only Slack gives rights one by one")
        town.stage.switches.scopes -= {"files:write"}
        dm = town.dm(town.ann)
        async with town.line(bus):
            await town.stage.say(town.ann.id, dm.id, "the report, please")
            await town.until_answers(3, dm)
            await town.stage.say(town.ann.id, dm.id, "still there?")
            await until(lambda: "echo: still there?" in town.texts(dm))
        assert shown(town) == []


@pytest.mark.parametrize("takes_voices", [True, False])
async def test_a_spoken_answer_is_a_voice_message_where_there_are_such(
    town: Town, bus: RedisBus, agent: EchoAgent, takes_voices: bool
) -> None:
    """On Telegram, and there for people who take them; elsewhere, and for the others, it is a file with sound."""
    agent.files, dm = (VOICE,), town.dm(town.ann)
    town.stage.faults.other["no_voices"] = 0.0 if takes_voices else 1.0
    async with town.line(bus):
        await town.stage.say(town.ann.id, dm.id, "say it")
        [(said, file)] = await until_shown(town, 1, dm)
    assert file.content == VOICE[1]
    if isinstance(town.stage, TelegramEmulator):
        assert (said.files == ("voice.oga",)) is takes_voices


class TestLostAcknowledgements:
    @pytest.mark.parametrize(
        "fault",
        [
            "drop_after",
            pytest.param("server_error", marks=pytest.mark.long),
            pytest.param("drop_before", marks=pytest.mark.long),
        ],
    )
    async def test_a_file_is_not_shown_twice(self, town: Town, bus: RedisBus, agent: EchoAgent, fault: str) -> None:
        """Whether the platform had it or not: found by nonce, by its name in the ledger, by an edit. Where nothing
        proves that it is not there, it comes again under the mark."""
        dm = town.dm(town.ann)
        agent.files = (CSV,)
        async with town.watched(), town.line(bus):
            await town.stage.say(town.ann.id, dm.id, "first")
            await until_shown(town, 1, dm)
            agent.answer = lambda text: ""  # nothing but the file, so the fault meets the file
            setattr(town.stage.faults, fault, 1)
            await town.stage.say(town.ann.id, dm.id, "second")
            files = await until_shown(town, 2, dm)
            await town.stays_silent(3)
        assert [caption(said) for said, _ in files] == ["the *numbers* of <today>"] * 2

    async def test_a_kill_between_the_send_and_the_receipt(self, town: Town, valkey_url: str) -> None:
        """The next process finds out first whether the file arrived."""
        first, second = await open_bus(valkey_url), await open_bus(valkey_url)
        dm = town.dm(town.ann)
        sent = asyncio.Event()
        mute = deaf_to_files(town.adapter(first), sent)
        agent = EchoAgent(second)
        agent.files = (CSV,)
        try:
            async with agent.at_work():
                async with town.line(first, adapter=mute):
                    await town.stage.say(town.ann.id, dm.id, "hello")
                    await sent.wait()
                await first.close()
                async with town.line(second):
                    await town.stage.say(town.ann.id, dm.id, "next")
                    await until_shown(town, 2, dm)
            kinds = ["file" if said.files else said.text for said in town.answers(dm)]
            assert kinds == ["echo: hello", "file", "echo: next", "file"]
        finally:
            await second.close()


def deaf_to_files(adapter: ChannelAdapter, sent: asyncio.Event) -> ChannelAdapter:
    """An adapter whose files arrive but never come back: what a kill at the worst moment looks like."""
    send = adapter.send

    async def mute(address: ReplyAddress, chunk: AnyChunk, *, send_id: str, plain: bool) -> tuple[str, ...]:
        ids = await send(address, chunk, send_id=send_id, plain=plain)
        if not send_id.endswith(":0"):
            sent.set()
            await asyncio.Event().wait()
        return ids

    setattr(adapter, "send", mute)  # noqa: B010 - the SDKs' adapters keep several protocols, and all of them stay
    return adapter
