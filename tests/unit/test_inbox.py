"""Files of a message, kept in the workspace of its conversation: once, under a safe name, for what they are."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from agent.features.attachments.inbox import Inbox, KeptFile, RefusedFile, not_read
from agent.limits import ATTACHMENT_ASKED_MAX
from agent.tools.files.quota import DiskUsage
from agent.tools.files.workspace import Workspaces
from gateway.bus.files import Files
from gateway.clock import SystemClock
from gateway.config.features import AttachmentSettings
from gateway.contracts.errors import FileRefused
from gateway.contracts.ids import SessionKey
from gateway.contracts.messages import Attachment, AttachmentKind, InboundMessage, Quote, QuoteKind, literal_text
from gateway.contracts.ports import FetchedFile, WantedAttachment
from gateway.scrub import Scrubber
from tests.parts.bus_samples import message

SCRUBBER = Scrubber(placeholder_key=b"inbox")
KEY = SessionKey.parse("telegram:1")
PNG = b"\x89PNG\r\n\x1a\n" + bytes(range(256))
PHOTO = Attachment(AttachmentKind.IMAGE, "file-1", literal_text("photo.jpg"), literal_text("image/jpeg"))


class Platform(Files):
    """What the bus leads to: files by reference; each call is noted. None in `answers`: nobody is there."""

    def __init__(self, **files: bytes | Exception | None) -> None:
        self.files = files
        self.asked: list[WantedAttachment] = []
        self.absent = 0

    async def fetch_attachment(self, wanted: WantedAttachment) -> FetchedFile | None:
        self.asked.append(wanted)
        if self.absent > 0:
            self.absent -= 1
            return None
        found = self.files[wanted.reference.replace("-", "_")]
        if isinstance(found, Exception):
            raise found
        return None if found is None else FetchedFile("whatever", "text/html", found)


@pytest.fixture
def workspaces(tmp_path: Path) -> Workspaces:
    return Workspaces(tmp_path / "workspaces")


def inbox(platform: Platform, workspaces: Workspaces, settings: AttachmentSettings | None = None) -> Inbox:
    return Inbox(platform, workspaces, settings or AttachmentSettings(), SCRUBBER, SystemClock())


def sent(*attachments: Attachment, quotes: tuple[Quote, ...] = ()) -> InboundMessage:
    return replace(message(1, KEY), attachments=attachments, quotes=quotes)


async def kept(of: Inbox, said: InboundMessage, attachment: Attachment) -> KeptFile:
    found = await of.take(said, attachment)
    assert isinstance(found, KeptFile), found
    return found


async def refused(of: Inbox, said: InboundMessage, attachment: Attachment) -> str:
    found = await of.take(said, attachment)
    assert isinstance(found, RefusedFile), found
    return not_read(found.name, found.reason)


async def test_a_file_is_kept_where_the_tools_find_it(workspaces: Workspaces) -> None:
    """For what its bytes are, whatever its name and the platform say."""
    found = await kept(inbox(Platform(file_1=PNG), workspaces), sent(PHOTO), PHOTO)
    assert (found.content, found.media_type, found.name) == (PNG, "image/png", "photo.jpg")
    assert found.path.startswith("inbox/")
    assert found.path.endswith("-photo.jpg")
    assert workspaces.of(KEY).read(found.path) == PNG


async def test_a_turn_that_is_run_again_asks_for_nothing(workspaces: Workspaces) -> None:
    platform = Platform(file_1=PNG)
    first = await kept(inbox(platform, workspaces), sent(PHOTO), PHOTO)
    again = await kept(inbox(platform, workspaces), sent(PHOTO), PHOTO)
    assert first == again
    assert len(platform.asked) == 1
    assert len(workspaces.of(KEY).entries("inbox")) == 1


async def test_another_message_with_a_file_of_that_name_has_its_own(workspaces: Workspaces) -> None:
    of = inbox(Platform(file_1=PNG, file_2=b"two"), workspaces)
    first = await kept(of, sent(PHOTO), PHOTO)
    other = replace(PHOTO, reference="file-2")
    second = await kept(of, sent(other), other)
    third = await kept(of, replace(sent(PHOTO), id="telegram:9:1:2"), PHOTO)
    assert len({first.path, second.path, third.path}) == 3


@pytest.mark.parametrize(
    "name", ["../../etc/passwd", "a/b\\c.txt", "\u202egpj.exe", "CON\x00.txt", "", "..", "x" * 300]
)
async def test_no_name_leads_out_of_the_inbox(workspaces: Workspaces, name: str) -> None:
    odd = replace(PHOTO, name=SCRUBBER.scrub(name))
    found = await kept(inbox(Platform(file_1=b"text"), workspaces), sent(odd), odd)
    assert found.path.count("/") == 1
    assert [entry.path for entry in workspaces.of(KEY).entries("inbox")] == [found.path]


async def test_nobody_is_there_for_a_while(workspaces: Workspaces) -> None:
    """A channels process that was killed is followed by another."""
    platform = Platform(file_1=PNG)
    platform.absent = ATTACHMENT_ASKED_MAX - 1
    await kept(inbox(platform, workspaces), sent(PHOTO), PHOTO)
    assert len({wanted.ticket for wanted in platform.asked}) == ATTACHMENT_ASKED_MAX


async def test_what_cannot_be_had_is_a_sentence_that_names_it(workspaces: Workspaces) -> None:
    platform = Platform(file_1=FileRefused("it is no longer there"), file_2=None, file_3=b"")
    of = inbox(platform, workspaces)
    gone, absent, empty = PHOTO, replace(PHOTO, reference="file-2"), replace(PHOTO, reference="file-3")
    said = sent(gone, absent, empty)
    assert await refused(of, said, gone) == "I could not read `photo.jpg`: it is no longer there."
    assert "at the moment" in await refused(of, said, absent)
    assert "empty" in await refused(of, said, empty)
    assert len(platform.asked) == 2 + ATTACHMENT_ASKED_MAX


async def test_each_kind_has_its_own_limit(workspaces: Workspaces) -> None:
    """What says that it is too large is not even asked for; what lies about it is not kept."""
    settings = AttachmentSettings(image_bytes_max=100, audio_bytes_max=2 * 1024 * 1024, file_bytes_max=50)
    platform = Platform(file_1=PNG, file_2=b"x" * 80)
    of = inbox(platform, workspaces, settings)
    assert "larger than 1 KB" in await refused(of, sent(PHOTO), PHOTO)
    assert platform.asked[0].bytes_max == 100
    voice = replace(PHOTO, kind=AttachmentKind.VOICE, size_bytes=3_000_000)
    assert "larger than 2 MB" in await refused(of, sent(voice), voice)
    document = replace(PHOTO, kind=AttachmentKind.DOCUMENT, reference="file-2")
    await refused(of, sent(document), document)
    assert len(platform.asked) == 2
    assert not any(entry.path for entry in workspaces.of(KEY).entries(".") if not entry.is_folder)


async def test_only_so_many_of_one_message_are_fetched(workspaces: Workspaces) -> None:
    """Those of what it quotes are counted with them."""
    many = tuple(replace(PHOTO, reference=f"file-{number}") for number in range(3))
    quoted = Quote(QuoteKind.REPLY, literal_text("Anna"), literal_text(""), attachments=many[2:])
    said = sent(*many[:2], quotes=(quoted,))
    of = inbox(Platform(file_0=b"0", file_1=b"1", file_2=b"2"), workspaces, AttachmentSettings(per_message_max=2))
    assert [isinstance(await of.take(said, attachment), KeptFile) for attachment in many] == [True, True, False]


async def test_a_full_workspace_takes_nothing_more(tmp_path: Path) -> None:
    workspaces = Workspaces(tmp_path, quota=DiskUsage(size_bytes=64, files=10))
    assert "full" in await refused(inbox(Platform(file_1=PNG), workspaces), sent(PHOTO), PHOTO)


async def test_what_stands_in_its_place_is_not_followed(workspaces: Workspaces) -> None:
    """A tool may have left anything there."""
    of = inbox(Platform(file_1=PNG), workspaces)
    found = await kept(of, sent(PHOTO), PHOTO)
    workspaces.of(KEY).delete(found.path)
    (workspaces.of(KEY).files / found.path).symlink_to("/etc/passwd")
    assert isinstance(await of.take(sent(PHOTO), PHOTO), RefusedFile)


async def test_a_secret_in_a_name_is_in_no_path_and_no_sentence(workspaces: Workspaces) -> None:
    token = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
    named = replace(PHOTO, name=SCRUBBER.scrub(f"{token}.txt"))
    found = await kept(inbox(Platform(file_1=b"text"), workspaces), sent(named), named)
    assert token not in found.path + found.name
