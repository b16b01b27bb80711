"""Files on the playground in a real browser: picked, dropped, pasted, recorded; looked at and refused."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.async_api import FilePayload, Page, expect

from channels.emulators.stage import PlaceKind
from tests.parts.browsing import DOT, browser, page, window, write
from tests.parts.platforms import Ground

__all__ = ["browser", "page", "window"]

pytestmark = pytest.mark.asyncio(loop_scope="module")

MARKUP = "<img src=x onerror=\"document.title='owned'\">"


async def drop(page: Page, *paths: Path) -> None:
    """Onto the messages, as the browser itself hears it from the desktop."""
    box = await page.locator(".said").bounding_box()
    assert box is not None
    data = {"items": [], "files": [str(path) for path in paths], "dragOperationsMask": 1}
    where = {"x": box["x"] + box["width"] / 2, "y": box["y"] + box["height"] / 2, "data": data}
    session = await page.context.new_cdp_session(page)
    for kind in ("dragEnter", "dragOver", "drop"):
        await session.send("Input.dispatchDragEvent", {"type": kind, **where})
    await session.detach()


async def paste_picture(page: Page) -> None:
    await page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    await page.evaluate(COPY_PICTURE)
    await page.get_by_label("Message", exact=True).focus()
    await page.keyboard.press("Control+V")


async def test_files_go_out_with_words_and_can_be_looked_at(page: Page, ground: Ground) -> None:
    await page.locator(".picker").set_input_files(
        [
            FilePayload(name="dot.png", mimeType="image/png", buffer=DOT),
            FilePayload(name="notes.txt", mimeType="text/plain", buffer=b"<b>red</b> and ripe"),
        ]
    )
    await page.get_by_role("button", name="Do not send dot.png").click()
    await write(page, "my notes")
    message = page.locator(".said li", has_text="my notes")
    await message.get_by_text("Preview").click()
    await expect(message.get_by_label("Beginning of notes.txt")).to_have_text("<b>red</b> and ripe")
    *_, update = await ground.bot.get_updates(timeout=30)
    assert update.message is not None
    assert update.message.document is not None
    assert (update.message.caption, update.message.document.file_name) == ("my notes", "notes.txt")

    await ground.bot.send_document(ground.ada, DOT, caption="a dot", filename="dot.png")
    picture = page.locator(".said li", has_text="a dot").locator("img")
    await expect(picture).to_have_js_property("naturalWidth", 1)


async def test_what_is_dropped_and_pasted_goes_out_as_one_album(page: Page, ground: Ground, tmp_path: Path) -> None:
    pictures = [tmp_path / name for name in ("one.png", "two.png")]
    for picture in pictures:
        picture.write_bytes(DOT)
    attached = page.locator(".attached li")
    await drop(page, *pictures)
    await expect(attached).to_have_text(["one.png×", "two.png×"])
    await paste_picture(page)
    await expect(attached).to_have_count(3)
    await write(page, "my week")
    await expect(page.locator(".said > li img")).to_have_count(3)
    await expect(attached).to_have_count(0)
    updates = await ground.bot.get_updates(timeout=30, allowed_updates=["message"])
    album = [update.message for update in updates if update.message and update.message.photo]
    assert len({message.media_group_id for message in album}) == 1
    assert [message.caption for message in album] == ["my week", None, None]


@pytest.mark.long
async def test_a_recording_is_a_voice_note_and_can_be_played(page: Page, ground: Ground) -> None:
    await page.locator(".picker").set_input_files(FilePayload(name="memo.ogg", mimeType="", buffer=b"OggS"))
    await page.get_by_role("button", name="Send", exact=True).click()
    await expect(page.get_by_label("memo.ogg")).to_have_js_property("tagName", "AUDIO")
    *_, update = await ground.bot.get_updates(timeout=30)
    assert update.message is not None
    assert update.message.voice is not None
    assert update.message.voice.mime_type == "audio/ogg"


@pytest.mark.long
async def test_names_with_markup_are_only_names(page: Page, ground: Ground) -> None:
    """Of a file, a person, a group."""
    ground.telegram.add_person(MARKUP)
    ground.telegram.add_place(PlaceKind.GROUP, MARKUP)
    await page.locator(".picker").set_input_files(FilePayload(name=f"{MARKUP}.txt", mimeType="", buffer=b"x"))
    await expect(page.locator(".attached li span")).to_have_text(f"{MARKUP}.txt")
    await write(page, "")
    await expect(page.locator(".said .files a")).to_have_text(f"{MARKUP}.txt")
    await expect(page.get_by_label("Person to write as").locator("option").last).to_have_text(MARKUP)
    await page.get_by_label("Place to write in").select_option(label=MARKUP)
    await expect(page.locator("[onerror]")).to_have_count(0)
    await expect(page).to_have_title("Trivet playground")


@pytest.mark.long
async def test_what_is_too_large_is_said_and_not_sent(page: Page, ground: Ground) -> None:
    """One file, or all of them together."""
    for megabytes, name in ((46, "film"), (30, "half"), (30, "other half")):
        await page.locator("#pane-telegram").evaluate(DROP_LARGE, [megabytes, name])
        problem = "" if name == "half" else f"{name} does not fit: one message takes 45 MiB of files."
        await expect(page.get_by_role("alert")).to_have_text(problem)
    await expect(page.locator(".attached li")).to_have_text(["half×"])
    await page.get_by_role("button", name="Do not send half").click()
    await expect(page.locator(".attached")).to_be_hidden()


COPY_PICTURE = """async () => {
  const canvas = Object.assign(document.createElement("canvas"), { width: 2, height: 2 });
  const picture = await new Promise(resolve => canvas.toBlob(resolve, "image/png"));
  await navigator.clipboard.write([new ClipboardItem({ "image/png": picture })]);
}"""
DROP_LARGE = """(pane, [megabytes, name]) => {
  const dataTransfer = new DataTransfer();
  dataTransfer.items.add(new File([new Uint8Array(megabytes * 2 ** 20)], name));
  pane.dispatchEvent(new DragEvent("drop", { dataTransfer, bubbles: true, cancelable: true }));
}"""
