"""Documents as text: what is read, what is refused, and that it ends."""

from __future__ import annotations

import asyncio
import io
import json
import subprocess
import sys
import zipfile
from pathlib import Path

import openpyxl
import pptx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from agent.features.attachments.documents import Documents, format_of
from agent.features.attachments.inbox import KeptFile
from agent.features.attachments.reader import unpacked
from agent.limits import DOCUMENT_CHARS_MAX, IMAGE_BYTES_MAX, IMAGE_SIDE_SHOWN, READER_MEMORY_BYTES, UNPACKED_BYTES_MAX
from agent.media import Picture, picture_in, recording_of, text_in
from agent.subagents.confinement import ROOT, Confinement
from agent.tools.exec import restrictions
from agent.tools.files.send_file import media_type
from gateway.contracts.errors import FileRefused
from gateway.contracts.ids import SessionKey
from gateway.contracts.messages import CleanText, literal_text
from tests.parts.pictures import docx, pdf, png

ANN, BEN = (SessionKey("telegram", user) for user in "12")
PATH = literal_text("inbox/1a2b3c4d-file")


def kept(name: str, content: bytes) -> KeptFile:
    return KeptFile(PATH, CleanText(name), media_type(name, content), content)


@pytest.fixture(scope="module")
def documents() -> Documents:
    return Documents(hidden=[Path.home()])


def spreadsheet() -> bytes:
    book, written = openpyxl.Workbook(), io.BytesIO()
    assert book.active is not None
    book.active.append(["tea", 3, None])
    book.active.append([None, None, None])
    book.active.append(["milk, cold", 4.5, True])
    book.save(written)
    return written.getvalue()


def presentation() -> bytes:
    show, written = pptx.Presentation(), io.BytesIO()
    slide = show.slides.add_slide(show.slide_layouts[0])
    assert slide.shapes.title is not None
    slide.shapes.title.text = "Our tea"
    assert slide.notes_slide.notes_text_frame is not None
    slide.notes_slide.notes_text_frame.text = "smile"
    show.save(written)
    return written.getvalue()


CASES = {
    "letter.pdf": (pdf("Dear Anna", "Yours"), "Dear Anna\n\nYours"),
    "letter.docx": (docx("Dear Anna"), "Dear Anna"),
    "stock.xlsx": (spreadsheet(), '## Sheet\ntea,3,\n"milk, cold",4.5,True'),
    "show.pptx": (presentation(), "## Slide 1\nOur tea\nNotes:\nsmile"),
    "page.html": (b"<html><body><h1>Tea</h1><script>x()</script><p>hot</p></body></html>", "# Tea\n\nhot"),
    "list.csv": (b"a,b\n1,2\n", "a,b\n1,2"),
    "named-wrongly.txt": (pdf("Dear Anna"), "Dear Anna"),
}


@pytest.mark.parametrize("name", CASES)
async def test_each_format_gives_its_text(documents: Documents, name: str) -> None:
    """By its content, whatever it is called."""
    content, text = CASES[name]
    assert (await documents.text(kept(name, content), ANN) or "").strip() == text


async def test_what_holds_no_text_has_none(documents: Documents) -> None:
    for content in (bytes(range(256)), b"PK\x03\x04" + bytes(60)):
        assert await documents.text(kept("x.bin", content), ANN) is None


async def test_a_broken_document_is_refused_in_words_for_people(documents: Documents) -> None:
    with pytest.raises(FileRefused, match="it is broken, or not what its name says"):
        await documents.text(kept("x.pdf", b"%PDF-1.4 and then nothing"), ANN)


async def test_a_small_file_that_unpacks_to_gigabytes_is_not_unpacked(documents: Documents) -> None:
    """It says of itself how large it is; one that lies is stopped by the clock."""
    packed = io.BytesIO()
    archive = zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED)
    with archive, archive.open("word/document.xml", "w") as member:
        for _ in range(UNPACKED_BYTES_MAX // 2**20 + 1):
            member.write(bytes(2**20))
    with pytest.raises(ValueError, match="too large"):
        unpacked(packed.getvalue())
    with pytest.raises(FileRefused):
        await documents.text(kept("bomb.docx", packed.getvalue()), ANN)


async def test_a_document_that_takes_too_long_is_given_up(
    documents: Documents, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its reader is killed, with all that it holds."""
    monkeypatch.setattr("agent.limits.DOCUMENT_TIMEOUT_S", 0.05)
    with pytest.raises(FileRefused, match="takes too long"):
        await documents.text(kept("x.pdf", pdf("x")), ANN)


async def test_of_an_endless_text_the_beginning_is_read(documents: Documents) -> None:
    """A hundred megabytes of it; no half of a secret stands at the cut."""
    text = await documents.text(kept("log.txt", b"all work and no play\n" * 5_000_000), ANN)
    assert text is not None
    assert DOCUMENT_CHARS_MAX - 5_000 < len(text) <= DOCUMENT_CHARS_MAX


@pytest.mark.long
async def test_of_a_document_of_many_pages_the_beginning_is_read(documents: Documents) -> None:
    text = await documents.text(kept("book.pdf", pdf(*["a line of a book " * 20] * 3_000)), ANN)
    assert text is not None
    assert len(text) <= DOCUMENT_CHARS_MAX


async def test_one_owners_crowd_holds_up_nobody_elses_document(documents: Documents) -> None:
    long = kept("book.pdf", pdf(*["a line of a book " * 20] * 300))
    crowd = [asyncio.create_task(documents.text(long, ANN)) for _ in range(3)]
    await asyncio.sleep(0)
    assert await documents.text(kept("x.pdf", pdf("Dear Anna")), BEN)
    assert [task.done() for task in crowd][1:] == [False, False]
    for task in crowd:
        task.cancel()
    await asyncio.wait(crowd)


async def test_a_reader_that_nobody_holds_holds_itself() -> None:
    """Where there is no bubblewrap; it still reads."""
    documents = Documents(hidden=[], confinement=Confinement.PLAIN)
    assert (await documents.text(kept("x.pdf", pdf("Dear Anna")), ANN) or "").strip() == "Dear Anna"
    assert (await documents.text(kept("x.xlsx", spreadsheet()), ANN) or "").startswith("## Sheet\ntea")


HOSTILE = """
import json, os, socket, subprocess, sys
from agent.features.attachments import reader
def tried(what):
    try:
        what()
    except Exception as error:
        return type(error).__name__
    return "done"
def pieces(content):
    yield json.dumps({
        "file": tried(lambda: open(FILE).read()),
        "network": tried(socket.socket),
        "program": tried(lambda: subprocess.run(["/bin/true"])),
        "memory": tried(lambda: bytearray(MEMORY)),
        "writing": tried(lambda: os.write(os.open(FILE, os.O_WRONLY), b"x")),
    }).encode()
    while True:
        yield b"x" * 1000
reader.READERS["hostile"] = lambda: pieces
sys.argv[1:1] = ["hostile", "10000"]
sys.exit(reader.main())
"""


@pytest.mark.parametrize("confinement", [Confinement.LANDLOCK, Confinement.PLAIN])
def test_a_parser_that_a_document_has_taken_over_gains_nothing(confinement: Confinement, tmp_path: Path) -> None:
    """No network, no program, no more memory, no more output than it is given; and no file, where the kernel can hold
    files."""
    if confinement is Confinement.LANDLOCK and not restrictions.landlock_version():
        pytest.skip("no Landlock here")
    (tmp_path / "secret").write_text("canary")
    names = f"FILE, MEMORY = {str(tmp_path / 'secret')!r}, {READER_MEMORY_BYTES}\n"
    written = subprocess.run(
        [sys.executable, "-c", names + HOSTILE, confinement], cwd=ROOT, input=b"", stdout=subprocess.PIPE, check=True
    ).stdout
    assert len(written) == 10_000
    assert json.loads(written.rstrip(b"x")) == {
        "file": "PermissionError" if confinement is Confinement.LANDLOCK else "done",
        "network": "PermissionError",
        "program": "PermissionError",
        "memory": "MemoryError",
        "writing": "PermissionError" if confinement is Confinement.LANDLOCK else "OSError",
    }


async def test_a_large_image_is_made_small_enough_to_be_shown(documents: Documents) -> None:
    noise, written = Image.effect_noise((2_600, 2_600), 100), io.BytesIO()
    noise.save(written, "PNG")
    assert len(written.getvalue()) > IMAGE_BYTES_MAX
    small = await documents.smaller(written.getvalue(), ANN)
    assert picture_in(small) == Picture("image/jpeg", IMAGE_SIDE_SHOWN, IMAGE_SIDE_SHOWN)


async def test_an_image_that_unpacks_to_gigabytes_is_refused(documents: Documents) -> None:
    with pytest.raises(FileRefused):
        await documents.smaller(png(claims=40_000), ANN)


# --- what is what, by its first bytes


@pytest.mark.parametrize("form", ["PNG", "GIF", "JPEG", "WEBP"])
def test_an_image_is_known_by_its_content(form: str) -> None:
    written = io.BytesIO()
    Image.new("RGB", (31, 17)).save(written, form)
    assert picture_in(written.getvalue()) == Picture(f"image/{form.lower()}", 31, 17)


@given(st.sampled_from([png(), b"GIF89a", b"\xff\xd8\xff\xe0", b"RIFF....WEBPVP8X", b"%PDF-"]), st.binary(max_size=64))
def test_no_bytes_upset_whoever_looks(start: bytes, rest: bytes) -> None:
    """Anything may stand behind a beginning that looks right."""
    for content in (start + rest, start[: len(rest)], rest):
        assert isinstance(picture_in(content), Picture | None)
        assert isinstance(text_in(content), str | None)
        assert isinstance(format_of(kept("x", content)), str | None)
        assert recording_of(content, "voice", "x/y").name


@given(
    st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=200),
    st.sampled_from(["utf-8", "utf-8-sig", "utf-16", "utf-32"]),
)
def test_text_is_read_in_the_encodings_that_say_so(text: str, encoding: str) -> None:
    text = f"Tea: {text}"
    assert text_in(text.encode(encoding)) == text.lstrip("\ufeff")


@given(st.text("abc xyz", min_size=2, max_size=200), st.sampled_from(["utf-16-le", "utf-16-be"]))
def test_latin_text_in_an_encoding_that_does_not_say_so_is_known_by_its_looks(text: str, encoding: str) -> None:
    assert text_in(text.encode(encoding)) == text


def test_what_is_no_text_of_any_encoding_we_know_keeps_its_readable_letters() -> None:
    assert text_in("café".encode("latin-1")) == "caf\ufffd"


@pytest.mark.parametrize(
    ("start", "name", "kind"),
    [
        (b"OggS", "recording.ogg", "audio/ogg"),
        (b"ID3\x04", "recording.mp3", "audio/mpeg"),
        (b"\x00\x00\x00 ftypM4A ", "recording.m4a", "audio/mp4"),
        (b"RIFF\x00\x00\x00\x00WAVE", "recording.wav", "audio/wav"),
        (b"?", "voice.xyz", "audio/xyz"),
    ],
)
def test_a_recording_is_named_so_that_a_provider_knows_it(start: bytes, name: str, kind: str) -> None:
    found = recording_of(start + bytes(20), "voice.xyz", "audio/xyz")
    assert (found.name, found.media_type) == (name, kind)
