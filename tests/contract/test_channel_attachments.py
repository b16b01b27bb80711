"""Files that people send, on the three emulated platforms, with the real SDKs and a real bus: from the message that
names them to the bytes in the hand of whoever asks."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import replace
from typing import Any, Literal

import pytest

from channels.core import downloads
from channels.core.downloads import ELSEWHERE, GONE, LONG_TEXT, AttachmentServer
from channels.emulators.discord import DiscordEmulator
from channels.emulators.slack import SlackEmulator
from channels.emulators.slack import shapes as slack_shapes
from channels.emulators.stage import SharedFile
from channels.emulators.telegram import TelegramEmulator
from channels.slack.adapter import NO_SCOPE
from channels.telegram.limits import DOWNLOAD_BYTES_MAX
from gateway.bus.bus import RedisBus
from gateway.contracts.errors import FileRefused, SendFailed
from gateway.contracts.messages import Attachment, AttachmentKind, InboundMessage
from gateway.contracts.ports import FetchedFile, WantedAttachment
from gateway.limits import SCRUBBED_FILE_BYTES_MAX
from gateway.scrub import Scrubber
from tests.parts.answering import EchoAgent
from tests.parts.bus_samples import ANNA
from tests.parts.emulated_discord import TOKEN as DISCORD_TOKEN
from tests.parts.emulated_slack import BOT_TOKEN as SLACK_BOT_TOKEN
from tests.parts.platforms import TELEGRAM_TOKEN
from tests.parts.towns import TOWNS, Town, discord_town, telegram_town, town
from tests.parts.waiting import until

__all__ = ["town"]

PIXELS = b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 8
PHOTO = SharedFile("cat.png", "image/png", PIXELS)
VOICE = SharedFile("audio_message.ogg", "audio/ogg", b"OggS\x00\x02" + bytes(range(256)))
NOTES = SharedFile("notes.txt", "text/plain", b"remember the milk")
ROOM = 1_000_000


@pytest.fixture
async def agent(bus: RedisBus) -> AsyncIterator[EchoAgent]:
    echo = EchoAgent(bus)
    async with echo.at_work():
        yield echo


@pytest.fixture(autouse=True)
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """What fails is tried again at once."""
    monkeypatch.setattr(downloads, "_RETRY_FIRST_S", 0.01)


def wish(message: InboundMessage, attachment: Attachment, bytes_max: int = ROOM) -> WantedAttachment:
    reference = attachment.reference
    return WantedAttachment(f"t-{hash(reference)}", message.address.channel, message.key, reference, bytes_max)


async def fetched(bus: RedisBus, wanted: WantedAttachment) -> FetchedFile:
    found = await bus.files.fetch_attachment(wanted)
    assert found is not None
    return found


async def refused(bus: RedisBus, wanted: WantedAttachment) -> str:
    with pytest.raises(FileRefused) as caught:
        await bus.files.fetch_attachment(wanted)
    return str(caught.value)


async def heard(town: Town, agent: EchoAgent, *files: SharedFile, text: str = "look") -> list[InboundMessage]:
    """What the agent got of a direct message with these files, in as many messages as it came in."""
    before = len(agent.heard)
    await town.stage.say(town.ann.id, town.dm(town.ann).id, text, files=files)
    await until(lambda: sum(len(message.attachments) for message in agent.heard[before:]) == len(files))
    return agent.heard[before:]


async def test_what_is_sent_comes_byte_for_byte(town: Town, bus: RedisBus, agent: EchoAgent) -> None:
    """By the platform's ids alone: no address, no token, no signature is on the bus."""
    async with town.line(bus):
        for file, kind in (
            (PHOTO, AttachmentKind.IMAGE),
            (VOICE, AttachmentKind.VOICE),
            (NOTES, AttachmentKind.DOCUMENT),
        ):
            (message,) = await heard(town, agent, file, text="" if file is VOICE else "look")
            (attachment,) = message.attachments
            assert attachment.kind is kind
            assert "://" not in attachment.reference
            assert (await fetched(bus, wish(message, attachment))).content == file.content


class TestFetching:
    @pytest.fixture(params=["telegram", "slack", pytest.param("discord", marks=pytest.mark.long)])
    async def town(self, request: pytest.FixtureRequest) -> AsyncIterator[Town]:
        """All three; Discord's client takes more than a second to connect, so this is tried there with the long
        tests."""
        async with TOWNS[request.param]() as built:
            yield built

    async def test_ten_of_them_are_ten_and_come_as_one(self, town: Town, bus: RedisBus, agent: EchoAgent) -> None:
        """An album, or one message with ten files; also in a group, where only its words name the bot."""
        pictures = [replace(PHOTO, name=f"{number}.png", content=PIXELS + bytes([number])) for number in range(10)]
        async with town.line(bus):
            await town.stage.say(town.ann.id, town.group.id, "compare", mention_bot=True, files=pictures)
            await until(lambda: sum(len(message.attachments) for message in agent.heard) == 10)
            found = [
                (await fetched(bus, wish(message, attachment))).content
                for message in agent.heard
                for attachment in message.attachments
            ]
        assert found == [picture.content for picture in pictures]
        assert len({str(message.key) for message in agent.heard}) == 1
        assert [message.text for message in agent.heard if message.text] == ["compare"]

    async def test_secrets_in_texts_go_no_further(self, town: Town, bus: RedisBus, agent: EchoAgent) -> None:
        """The channels process has read them; the bus has not."""
        token = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
        async with town.line(bus):
            (message,) = await heard(town, agent, replace(NOTES, content=f"key: {token}\nmilk\n".encode()))
            found = await fetched(bus, wish(message, message.attachments[0]))
        assert token.encode() not in found.content
        assert found.content.endswith(b"milk\n")

    async def test_what_is_too_large_is_refused_in_words(self, town: Town, bus: RedisBus, agent: EchoAgent) -> None:
        long = replace(NOTES, content=b"word " * (SCRUBBED_FILE_BYTES_MAX // 5 + 1))
        async with town.line(bus):
            (message,) = await heard(town, agent, PHOTO)
            assert await refused(bus, wish(message, message.attachments[0], 100)) == "it is larger than 1 MB"
            (message,) = await heard(town, agent, long)
            assert await refused(bus, wish(message, message.attachments[0], 10_000_000)) == LONG_TEXT

    async def test_what_is_gone_is_gone(self, town: Town, bus: RedisBus, agent: EchoAgent) -> None:
        async with town.line(bus):
            (message,) = await heard(town, agent, PHOTO)
            (attachment,) = message.attachments
            forget(town)
            assert await refused(bus, wish(message, attachment)) in (GONE, downloads.NOT_NOW)  # Telegram says either

    async def test_a_platform_that_stumbles_is_asked_again(self, town: Town, bus: RedisBus, agent: EchoAgent) -> None:
        async with town.line(bus):
            (message,) = await heard(town, agent, PHOTO)
            town.stage.faults.other["any_request" if town.platform != "telegram" else "faults_everywhere"] = 1
            town.stage.faults.drop_before = 2
            assert (await fetched(bus, wish(message, message.attachments[0]))).content == PIXELS

    async def test_no_token_is_in_a_log(
        self, town: Town, bus: RedisBus, agent: EchoAgent, caplog: pytest.LogCaptureFixture
    ) -> None:
        """Whatever becomes of it, at whatever level."""
        async with town.line(bus):
            (message,) = await heard(town, agent, PHOTO)
            caplog.set_level(logging.DEBUG)
            wanted = wish(message, message.attachments[0])
            await fetched(bus, wanted)
            await refused(bus, replace(wanted, ticket="small", bytes_max=1))
            forget(town)
            await refused(bus, replace(wanted, ticket="gone"))
        own = [record for record in caplog.records if not record.name.startswith(("uvicorn", "asyncio"))]
        told = " ".join(f"{record.getMessage()} {record.__dict__}" for record in own)
        for token in (TELEGRAM_TOKEN, DISCORD_TOKEN, SLACK_BOT_TOKEN, "hm="):
            assert token not in told

    async def test_who_was_killed_with_a_wish_in_hand_is_followed_by_another(
        self, town: Town, bus: RedisBus, agent: EchoAgent, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("gateway.limits.ATTACHMENT_SILENCE_S", 0.1)
        async with town.line(bus):
            (message,) = await heard(town, agent, PHOTO)
        wanted = wish(message, message.attachments[0])
        asking = asyncio.create_task(bus.files.fetch_attachment(wanted))
        assert await bus.files.wanted_attachment(town.platform, wait_s=5) == wanted
        assert await asking is None
        monkeypatch.undo()
        async with town.line(bus):
            assert (await fetched(bus, replace(wanted, ticket="again"))).content == PIXELS


def forget(town: Town) -> None:
    """The platform does not have it any more."""
    match town.stage:
        case TelegramEmulator():
            town.stage._world.files.clear()
        case DiscordEmulator():
            for channel in town.stage.world.channels.values():
                channel.messages.clear()
        case SlackEmulator():
            town.stage.world.files.clear()


class Broken:
    """An adapter whose SDK fails in unforeseen ways."""

    name = "telegram"

    def __init__(self, *outcomes: Exception | FetchedFile) -> None:
        self._outcomes: Iterator[Exception | FetchedFile] = iter(outcomes)

    async def until_ready(self) -> None: ...

    async def fetch(self, reference: str, *, bytes_max: int) -> FetchedFile:
        outcome = next(self._outcomes)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome


async def test_whatever_an_sdk_throws_ends_in_a_sentence(bus: RedisBus, caplog: pytest.LogCaptureFixture) -> None:
    """And its text, in which an address may be, is told to nobody."""
    adapter: Any = Broken(
        *[RuntimeError("https://api/bot123:SECRET")] * 4, SendFailed("x"), FetchedFile("a", "b", b"c")
    )
    wanted = WantedAttachment("t", "telegram", ANNA, "r", ROOM)
    serving = AttachmentServer(adapter, bus.files, Scrubber(), delay_scale=0)
    async with asyncio.TaskGroup() as group:
        refusal = group.create_task(refused(bus, wanted))
        await serving.serve(wait_s=5)
    assert refusal.result() == downloads.NOT_NOW
    async with asyncio.TaskGroup() as group:
        file = group.create_task(fetched(bus, wanted))
        await serving.serve(wait_s=5)
    assert file.result().content == b"c"
    assert "SECRET" not in caplog.text


class TestTelegram:
    async def test_the_servers_own_limit_is_said_in_words(self, bus: RedisBus, agent: EchoAgent) -> None:
        async with telegram_town() as town, town.line(bus):
            large = SharedFile("film.bin", "application/octet-stream", b"\x00" * (DOWNLOAD_BYTES_MAX + 1))
            (message,) = await heard(town, agent, large)
            wanted = wish(message, message.attachments[0], 2 * DOWNLOAD_BYTES_MAX)
            assert await refused(bus, wanted) == "it is larger than 20 MB"

    async def test_the_largest_size_of_a_photo_is_what_is_fetched(self, bus: RedisBus, agent: EchoAgent) -> None:
        async with telegram_town() as town, town.line(bus):
            (message,) = await heard(town, agent, PHOTO)
            assert message.attachments[0].size_bytes == len(PIXELS)

    async def test_a_path_on_the_servers_disk_is_read_nowhere_else(self, bus: RedisBus, agent: EchoAgent) -> None:
        """A server that runs with --local names paths; without a folder of its own, none of them is for us."""
        async with telegram_town() as town, town.line(bus):
            (message,) = await heard(town, agent, PHOTO)
            files = town.stage._world.files  # type: ignore[attr-defined]
            reference = message.attachments[0].reference
            files[reference] = replace(files[reference], path="/etc/passwd")
            assert await refused(bus, wish(message, message.attachments[0])) == ELSEWHERE


class TestDiscord:
    async def test_a_link_that_has_expired_is_made_anew(
        self, bus: RedisBus, agent: EchoAgent, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The one in the message is dead after a day; the message is not. A link to another host is not followed."""
        async with discord_town() as town, town.line(bus):
            (message,) = await heard(town, agent, PHOTO)
            wanted = wish(message, message.attachments[0])
            stage: Any = town.stage
            clock = stage.world._clock_s
            for days in (0, 3):  # the second time it has just been read, and is read again
                stage.world._clock_s = lambda days=days: clock() + days * 24 * 3600
                assert (await fetched(bus, replace(wanted, ticket=f"t{days}"))).content == PIXELS
            monkeypatch.setattr("channels.emulators.discord.shapes.attachment", elsewhere)
            monkeypatch.setattr("channels.discord.limits.READ_AGAIN_AFTER_S", 0)
            assert await refused(bus, wanted) == ELSEWHERE


def elsewhere(world: Any, channel_id: int, file: Any, *, is_voice: bool = False) -> dict[str, Any]:
    shape = {"id": str(file.id), "filename": file.name, "size": 1, "content_type": file.content_type}
    return shape | {"url": "https://cdn.example.org/x", "proxy_url": "https://cdn.example.org/x"}


class TestSlack:
    @pytest.mark.parametrize("town", ["slack"], indirect=True)
    async def test_a_page_to_log_in_at_is_no_file(self, town: Town, bus: RedisBus, agent: EchoAgent) -> None:
        """Without `files:read`, files.info may still answer, and the download says 200."""
        async with town.line(bus):
            (message,) = await heard(town, agent, PHOTO)
            stage: Any = town.stage
            stage.switches.scopes = stage.switches.scopes - {"files:read"}
            assert await refused(bus, wish(message, message.attachments[0])) == NO_SCOPE

    @pytest.mark.parametrize("town", ["slack"], indirect=True)
    @pytest.mark.parametrize("hides", ["page", "redirect"])
    async def test_a_file_that_is_kept_from_us_is_no_page_either(
        self,
        town: Town,
        bus: RedisBus,
        agent: EchoAgent,
        monkeypatch: pytest.MonkeyPatch,
        hides: Literal["page", "redirect"],
    ) -> None:
        """Whether Slack said what it would be, or nothing at all of it."""
        stage: Any = town.stage
        async with town.line(bus):
            (message,) = await heard(town, agent, PHOTO)
            stage.switches.hides_files = hides
            for change in ({}, {"mimetype": None, "size": None}, {"mimetype": ""}):
                with changed_files(monkeypatch, change):
                    assert await refused(bus, wish(message, message.attachments[0])) == NO_SCOPE

    @pytest.mark.parametrize("town", ["slack"], indirect=True)
    async def test_a_page_that_somebody_sent_is_one(self, town: Town, bus: RedisBus, agent: EchoAgent) -> None:
        page = SharedFile("index.html", "text/html", b"<p>hello</p>")
        async with town.line(bus):
            (message,) = await heard(town, agent, page)
            assert (await fetched(bus, wish(message, message.attachments[0]))).content == page.content

    @pytest.mark.parametrize("town", ["slack"], indirect=True)
    @pytest.mark.parametrize(
        ("change", "reason"),
        [
            ({"mode": "external", "is_external": True, "url_private": "https://drive.example.org/x"}, ELSEWHERE),
            ({"url_private_download": "https://evil.example.org/x"}, ELSEWHERE),
            ({"mode": "tombstone"}, GONE),
            ({"mode": "hidden_by_limit"}, GONE),
        ],
    )
    async def test_what_slack_does_not_keep_itself_is_not_fetched(
        self,
        town: Town,
        bus: RedisBus,
        agent: EchoAgent,
        monkeypatch: pytest.MonkeyPatch,
        change: dict[str, Any],
        reason: str,
    ) -> None:
        """Nor does the token go there."""
        async with town.line(bus):
            (message,) = await heard(town, agent, PHOTO)
            with changed_files(monkeypatch, change):
                assert await refused(bus, wish(message, message.attachments[0])) == reason


@contextlib.contextmanager
def changed_files(monkeypatch: pytest.MonkeyPatch, change: dict[str, Any]) -> Iterator[None]:
    shape: Callable[..., dict[str, Any]] = slack_shapes.file
    with monkeypatch.context() as patching:
        patching.setattr(slack_shapes, "file", lambda world, item: shape(world, item) | change)
        yield
