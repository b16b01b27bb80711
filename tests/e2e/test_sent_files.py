"""The demo model writes a file and sends it: through the whole product, on every platform, also in a thread."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence

import pytest
import pytest_asyncio

from channels.emulators.stage import PlaceKind, SharedFile
from tests.parts.pictures import pdf, png
from tests.parts.product import PLATFORMS, Chat, Product, running_product
from tests.parts.waiting import until

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(240)]
SETTINGS = {"TRIVET_TOOLS__POLICY": '["allow write"]'}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def product(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Product]:
    """One Trivet on three platforms for all tests here; everybody may write files."""
    async with running_product(tmp_path_factory.mktemp("files"), settings=SETTINGS) as running:
        yield running


def received(chat: Chat) -> Sequence[SharedFile]:
    """The files that the bot sent into the place, oldest first."""
    return [
        chat.stage.file(said.id, said.place_id, number)
        for said in chat.stage.said(chat.place.id)
        if said.author.is_bot
        for number in range(len(said.files))
    ]


async def send_file(chat: Chat, name: str, content: str) -> None:
    """Have the model write a file and send it."""
    await chat.ask(f"tool file_write {json.dumps({'path': name, 'content': content})}", "Wrote")
    await chat.ask(f"tool send_file {json.dumps({'path': name, 'caption': 'as you wished'})}", "goes out with")


@pytest.mark.parametrize("platform", PLATFORMS)
async def test_a_file_arrives_behind_its_answer(product: Product, platform: str) -> None:
    chat = product.chat(platform, "Ada")
    await send_file(chat, "notes/list.csv", "fruit,price\napple,3\n")
    await until(lambda: bool(received(chat)), lambda: product.log[-3000:])
    (file,) = received(chat)
    assert (file.name, file.content) == ("list.csv", b"fruit,price\napple,3\n")
    assert chat.answers[-1].endswith("as you wished")
    await product.until_settled()
    assert len(received(chat)) == 1


@pytest.mark.parametrize("platform", PLATFORMS)
async def test_a_file_arrives_in_the_thread_it_was_asked_for_in(product: Product, platform: str) -> None:
    stage = product.stages[platform]
    person = stage.add_person("Noor")
    group = stage.add_place(PlaceKind.GROUP, "Kitchen")
    thread = Chat(platform, stage, person, stage.add_place(PlaceKind.THREAD, "Recipes", parent_id=group.id))
    await send_file(thread, "soup.md", "# Soup\n")
    await until(lambda: bool(received(thread)), lambda: product.log[-3000:])
    assert [file.content for file in received(thread)] == [b"# Soup\n"]
    assert received(Chat(platform, stage, person, group)) == []


@pytest.mark.parametrize("platform", PLATFORMS)
async def test_what_people_send_is_looked_at(product: Product, platform: str) -> None:
    """An image and a document, fetched from the platform's own servers; at Telegram they are two messages."""
    chat = product.chat(platform, "Ida")
    files = [
        SharedFile("cat.png", "image/png", png(8)),
        SharedFile(
            "letter.pdf", "application/pdf", pdf("Dear Ida", "the key is ghp_16C7e42F292c6912E7710c838347Ae178B4a")
        ),
    ]
    await chat.ask("what came?", "I got an image (PNG, ", files=files)
    await until(lambda: "It begins: Dear Ida" in chat.heard, lambda: chat.heard)
    await product.until_settled()
    assert chat.heard.count("I got ") == len(files)


async def test_the_bytes_are_kept_no_longer_than_needed(product: Product) -> None:
    """Once it has arrived, neither SQL nor the bus has it."""
    chat = product.chat(PLATFORMS[0], "Eve")
    await send_file(chat, "a.txt", "a")
    await until(lambda: bool(received(chat)))
    await product.until_settled()
    assert product.database().execute("SELECT count(*) FROM reply_files").fetchall() == [(0,)]
