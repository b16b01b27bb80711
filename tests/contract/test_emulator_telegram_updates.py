"""What a bot gets to hear on the emulated Telegram, by long poll and by webhook."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import httpx
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from telegram import Bot, MessageOriginUser, Update
from telegram.error import BadRequest, Conflict, NetworkError

from channels.emulators.serving import listening
from channels.emulators.stage import Person, PlaceKind, SharedFile
from channels.emulators.telegram import TelegramEmulator
from tests.contract.telegram_parts import Raw, client_of, dm_of, group_of
from tests.parts.platforms import ServedTelegram


@pytest.fixture
async def bot(telegram_emulator: ServedTelegram) -> AsyncIterator[Bot]:
    async for client in client_of(telegram_emulator):
        yield client


@pytest.fixture
async def raw(telegram_emulator: ServedTelegram) -> AsyncIterator[Raw]:
    async with httpx.AsyncClient(timeout=30) as http:
        yield Raw(telegram_emulator, http)


@pytest.fixture
def emulator(telegram_emulator: ServedTelegram) -> TelegramEmulator:
    return telegram_emulator.emulator


@pytest.fixture
def ada(emulator: TelegramEmulator) -> Person:
    return emulator.add_person("Ada")


async def say(served: ServedTelegram, person: Person, *texts: str) -> None:
    for text in texts:
        await served.emulator.say(person.id, dm_of(served, person).id, text)


def texts(updates: tuple[Update, ...]) -> list[str]:
    return [update.message.text for update in updates if update.message and update.message.text]


class TestForwards:
    async def test_what_is_passed_on_keeps_its_author_and_leaves_the_rest_behind(
        self, bot: Bot, telegram_emulator: ServedTelegram, emulator: TelegramEmulator, ada: Person
    ) -> None:
        """Twice, even; a caption and a file go along, the buttons, the album and what was answered do not."""
        dm, noor, kitchen = dm_of(telegram_emulator, ada), emulator.add_person("Noor <3"), group_of(telegram_emulator)
        pictures = [SharedFile(f"{number}.png", "image/png", b"\x89PNG") for number in range(2)]
        said = await emulator.say(noor.id, kitchen.id, "two *pictures*", reply_to=None, files=pictures)
        await bot.get_updates(offset=-1)
        once = await emulator.share(ada.id, said.id, kitchen.id, dm.id, "look")
        await emulator.share(ada.id, once.id, dm.id, dm.id)
        words, *passed_on = (update.message for update in (await bot.get_updates())[-3:])
        assert words is not None
        assert (words.text, words.forward_origin) == ("look", None)
        for message in filter(None, passed_on):
            assert isinstance(message.forward_origin, MessageOriginUser)
            assert message.forward_origin.sender_user.first_name == "Noor <3"
            assert (message.from_user and message.from_user.first_name, message.media_group_id) == ("Ada", None)
            assert (message.caption, bool(message.photo)) == ("two *pictures*", True)
        assert once.html.startswith("<small>Forwarded from Noor &lt;3</small>")


class TestOffsets:
    async def test_the_same_offset_gives_the_same_updates_until_they_are_confirmed(
        self, bot: Bot, telegram_emulator: ServedTelegram, ada: Person
    ) -> None:
        await say(telegram_emulator, ada, "one", "two")
        first = await bot.get_updates()
        assert texts(first) == texts(await bot.get_updates()) == ["one", "two"]
        assert [update.update_id for update in first] == [first[0].update_id, first[0].update_id + 1]
        assert texts(await bot.get_updates(offset=first[1].update_id)) == ["two"]
        assert await bot.get_updates(offset=first[1].update_id + 1) == ()

    async def test_limit_cuts_and_a_negative_offset_keeps_only_the_newest(
        self, bot: Bot, telegram_emulator: ServedTelegram, ada: Person
    ) -> None:
        await say(telegram_emulator, ada, "one", "two", "three")
        assert texts(await bot.get_updates(limit=2)) == ["one", "two"]
        assert texts(await bot.get_updates(offset=-1)) == ["three"]
        assert texts(await bot.get_updates()) == ["three"]

    async def test_an_offset_of_another_epoch_starts_at_the_beginning(
        self, bot: Bot, telegram_emulator: ServedTelegram, ada: Person
    ) -> None:
        await say(telegram_emulator, ada, "one")
        (update,) = await bot.get_updates()
        assert texts(await bot.get_updates(offset=update.update_id + 1_000_000)) == ["one"]

    async def test_updates_older_than_a_day_are_gone(
        self, bot: Bot, telegram_emulator: ServedTelegram, ada: Person
    ) -> None:
        await say(telegram_emulator, ada, "old")
        telegram_emulator.emulator.faults.other["clock_offset_s"] = 24 * 3600 + 1
        await say(telegram_emulator, ada, "new")
        assert texts(await bot.get_updates()) == ["new"]


class TestLongPolls:
    async def test_a_poll_waits_for_the_next_message(
        self, bot: Bot, telegram_emulator: ServedTelegram, ada: Person
    ) -> None:
        poll = asyncio.create_task(bot.get_updates(timeout=30))
        await telegram_emulator.emulator.updates.has_poll.wait()
        assert not poll.done()
        await say(telegram_emulator, ada, "hello")
        assert texts(await poll) == ["hello"]

    async def test_a_second_poll_ends_the_older_one(
        self, bot: Bot, raw: Raw, telegram_emulator: ServedTelegram
    ) -> None:
        older = asyncio.create_task(bot.get_updates(timeout=30))
        await telegram_emulator.emulator.updates.has_poll.wait()
        assert await raw.result("getUpdates") == []
        with pytest.raises(Conflict, match="only one bot instance"):
            await older

    async def test_a_poll_that_is_cut_loses_nothing(
        self, bot: Bot, telegram_emulator: ServedTelegram, ada: Person
    ) -> None:
        poll = asyncio.create_task(bot.get_updates(timeout=30))
        await telegram_emulator.emulator.updates.has_poll.wait()
        await telegram_emulator.emulator.cut_connections()
        with pytest.raises(NetworkError):
            await poll
        await say(telegram_emulator, ada, "hello")
        assert texts(await bot.get_updates()) == ["hello"]

    async def test_conflicts_and_bad_gateways_can_be_switched_on(self, bot: Bot, emulator: TelegramEmulator) -> None:
        emulator.faults.other |= {"conflict": 1, "poll_errors": 1}
        with pytest.raises(NetworkError, match="Bad Gateway"):
            await bot.get_updates()
        with pytest.raises(Conflict):
            await bot.get_updates()
        assert await bot.get_updates() == ()

    async def test_which_kinds_are_wanted_sticks(
        self, bot: Bot, telegram_emulator: ServedTelegram, ada: Person
    ) -> None:
        await bot.get_updates(allowed_updates=["edited_message"])
        await bot.get_updates()
        await say(telegram_emulator, ada, "unheard")
        assert await bot.get_updates() == ()
        await bot.get_updates(allowed_updates=[])
        await say(telegram_emulator, ada, "heard")
        assert texts(await bot.get_updates()) == ["heard"]

    async def test_a_redelivered_update_comes_again_after_its_confirmation(
        self, bot: Bot, telegram_emulator: ServedTelegram, ada: Person
    ) -> None:
        telegram_emulator.emulator.faults.duplicate = 1
        await say(telegram_emulator, ada, "twice")
        (update,) = await bot.get_updates()
        (again,) = await bot.get_updates(offset=update.update_id + 1)
        assert again == update
        assert await bot.get_updates(offset=update.update_id + 1) == ()

    async def test_a_poison_update_breaks_the_library_but_not_the_json(
        self, bot: Bot, raw: Raw, telegram_emulator: ServedTelegram, ada: Person
    ) -> None:
        telegram_emulator.emulator.faults.poison = 1
        await say(telegram_emulator, ada, "good")
        with pytest.raises((TypeError, AttributeError, ValueError)):
            await bot.get_updates()
        poison, good = await raw.result("getUpdates")
        assert texts((Update.de_json(good, bot),)) == ["good"]
        assert poison["update_id"] < good["update_id"]


class TestShapes:
    async def test_a_mention_is_an_entity_in_utf16_units(
        self, bot: Bot, telegram_emulator: ServedTelegram, ada: Person
    ) -> None:
        group = group_of(telegram_emulator)
        await telegram_emulator.emulator.say(ada.id, group.id, "😀 @trivet_demo_bot /help@trivet_demo_bot")
        *_, update = await bot.get_updates()
        assert update.message is not None
        assert [(each.type, each.offset) for each in update.message.entities] == [("mention", 3), ("bot_command", 20)]
        assert list(update.message.parse_entities().values()) == ["@trivet_demo_bot", "/help@trivet_demo_bot"]

    async def test_a_mention_by_name_carries_the_user(self, bot: Bot, emulator: TelegramEmulator, ada: Person) -> None:
        group = emulator.add_place(PlaceKind.GROUP, "Kitchen")
        emulator.faults.other["text_mention"] = 1
        await emulator.say(ada.id, group.id, "are you there?", mention_bot=True)
        *_, update = await bot.get_updates()
        assert update.message is not None
        (entity,) = update.message.entities
        assert entity.user is not None
        assert (entity.type, entity.user.id, update.message.parse_entity(entity)) == ("text_mention", bot.id, "Trivet")

    async def test_in_a_topic_everything_looks_like_an_answer_to_its_creation(
        self, bot: Bot, emulator: TelegramEmulator, ada: Person
    ) -> None:
        group = emulator.add_place(PlaceKind.GROUP, "Kitchen")
        topic = emulator.add_place(PlaceKind.THREAD, "Soup", parent_id=group.id)
        await emulator.say(ada.id, topic.id, "hot")
        *_, update = await bot.get_updates()
        message = update.message
        assert message is not None
        assert message.reply_to_message is not None
        assert message.is_topic_message is True
        assert message.chat.is_forum is True
        assert message.message_thread_id == message.reply_to_message.message_id
        assert message.reply_to_message.forum_topic_created is not None

    async def test_a_reply_chain_outside_forums_has_a_thread_id_but_is_no_topic(
        self, bot: Bot, emulator: TelegramEmulator, ada: Person
    ) -> None:
        group = emulator.add_place(PlaceKind.GROUP, "Kitchen")
        first = await emulator.say(ada.id, group.id, "first")
        await emulator.say(ada.id, group.id, "second", reply_to=first.id)
        *_, update = await bot.get_updates()
        assert update.message is not None
        assert (update.message.message_thread_id, update.message.is_topic_message) == (int(first.id), None)

    async def test_an_edit_comes_as_a_full_copy_and_a_deletion_not_at_all(
        self, bot: Bot, telegram_emulator: ServedTelegram, ada: Person
    ) -> None:
        place = dm_of(telegram_emulator, ada)
        said = await telegram_emulator.emulator.say(ada.id, place.id, "one")
        await telegram_emulator.emulator.edit(said.id, place.id, "two")
        await telegram_emulator.emulator.delete(said.id, place.id)
        first, second = await bot.get_updates()
        assert first.message is not None
        assert second.edited_message is not None
        assert (first.message.text, second.edited_message.text) == ("one", "two")
        assert second.edited_message.edit_date is not None

    async def test_other_bots_are_heard_only_in_bot_to_bot_mode(
        self, bot: Bot, emulator: TelegramEmulator, ada: Person
    ) -> None:
        group = emulator.add_place(PlaceKind.GROUP, "Kitchen")
        other = emulator.add_bot("Echo")
        await emulator.say(other.id, group.id, "beep", mention_bot=True)
        emulator.faults.other["bot_to_bot"] = 1
        await emulator.say(other.id, group.id, "boop", mention_bot=True)
        assert texts(await bot.get_updates()) == ["@trivet_demo_bot boop"]

    async def test_privacy_mode_hides_what_is_not_for_the_bot(
        self, bot: Bot, emulator: TelegramEmulator, ada: Person
    ) -> None:
        emulator.faults.other["privacy"] = 1
        assert (await bot.get_me()).can_read_all_group_messages is False
        group = emulator.add_place(PlaceKind.GROUP, "Kitchen")
        sent = await bot.send_message(group.address, "hello")
        await emulator.say(ada.id, group.id, "chatter")
        await emulator.say(ada.id, group.id, "hey", mention_bot=True)
        await emulator.say(ada.id, group.id, "/help@trivet_demo_bot")
        await emulator.say(ada.id, group.id, "thanks", reply_to=str(sent.message_id))
        assert texts(await bot.get_updates()) == ["/help@trivet_demo_bot", "thanks"]

    async def test_long_text_of_a_person_comes_in_several_messages(
        self, bot: Bot, telegram_emulator: ServedTelegram, ada: Person
    ) -> None:
        await say(telegram_emulator, ada, "x" * 5000)
        assert [len(text) for text in texts(await bot.get_updates())] == [4096, 904]

    async def test_a_pressed_button_can_be_answered_once_it_is_known(
        self, bot: Bot, telegram_emulator: ServedTelegram, ada: Person
    ) -> None:
        sent = await bot.send_message(ada.id, "go?")
        place = dm_of(telegram_emulator, ada)
        query_id = telegram_emulator.emulator.press(ada.id, place.id, str(sent.message_id), "yes")
        (update,) = await bot.get_updates()
        assert update.callback_query is not None
        assert (update.callback_query.id, update.callback_query.data) == (query_id, "yes")
        assert await bot.answer_callback_query(query_id)
        with pytest.raises(BadRequest, match="Query is too old"):
            await bot.answer_callback_query("12345")


class Hook:
    """A bot's own web server: counts what it is given and answers what it is told."""

    def __init__(self) -> None:
        self.statuses: list[int] = []
        self.taken: asyncio.Queue[tuple[str, dict[str, object]]] = asyncio.Queue()
        self.app = Starlette(routes=[Route("/hook", self._take, methods=["POST"])])

    async def _take(self, request: Request) -> Response:
        secret = request.headers.get("x-telegram-bot-api-secret-token", "")
        self.taken.put_nowait((secret, await request.json()))
        return Response(status_code=self.statuses.pop(0) if self.statuses else 200)


class TestWebhooks:
    @pytest.fixture
    async def hook(self) -> AsyncIterator[tuple[Hook, str]]:
        hook = Hook()
        async with listening(hook.app) as port:
            yield hook, f"http://127.0.0.1:{port}/hook"

    async def test_updates_are_posted_with_the_secret_and_retried_in_order(
        self, bot: Bot, telegram_emulator: ServedTelegram, ada: Person, hook: tuple[Hook, str]
    ) -> None:
        server, url = hook
        telegram_emulator.emulator.faults.other["webhook_retry_s"] = 0.01
        server.statuses = [500, 503]
        await bot.set_webhook(url, secret_token="s3cret")
        await say(telegram_emulator, ada, "one", "two")
        taken = [await server.taken.get() for _ in range(4)]
        assert {secret for secret, _ in taken} == {"s3cret"}
        heard = [Update.de_json(update, bot) for _, update in taken]
        assert texts(tuple(heard)) == ["one", "one", "one", "two"]
        with pytest.raises(Conflict, match="webhook is active"):
            await bot.get_updates()
        info = await bot.get_webhook_info()
        assert (info.url, info.last_error_message) == (url, "Wrong response from the webhook: 503 Service Unavailable")
        await bot.delete_webhook()
        assert (await bot.get_webhook_info()).url == ""

    async def test_setting_a_webhook_ends_the_poll(
        self, bot: Bot, telegram_emulator: ServedTelegram, hook: tuple[Hook, str]
    ) -> None:
        poll = asyncio.create_task(bot.get_updates(timeout=30))
        await telegram_emulator.emulator.updates.has_poll.wait()
        await bot.set_webhook(hook[1])
        with pytest.raises(Conflict, match="setWebhook"):
            await poll

    async def test_a_webhook_needs_an_address_and_a_clean_secret(self, raw: Raw) -> None:
        assert "bad webhook" in await raw.refusal("setWebhook", url="ftp://example.com")
        assert "secret token" in await raw.refusal("setWebhook", url="https://example.com", secret_token="no spaces")
