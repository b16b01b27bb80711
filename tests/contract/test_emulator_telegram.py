"""The emulated Bot API, driven by the real python-telegram-bot client and by raw HTTP where a client cannot go."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta

import httpx
import pytest
from telegram import Bot, MessageEntity, ReplyParameters
from telegram.error import BadRequest, ChatMigrated, Forbidden, InvalidToken, NetworkError, RetryAfter

from channels.emulators.stage import EventKind, Person, PlaceKind, SharedFile
from channels.emulators.telegram import TelegramEmulator
from tests.contract.telegram_parts import Raw, client_of, dm_of, group_of
from tests.parts.platforms import ServedTelegram


@pytest.fixture
async def bot(telegram_emulator: ServedTelegram) -> AsyncIterator[Bot]:
    async for client in client_of(telegram_emulator):
        yield client


@pytest.fixture
async def raw(telegram_emulator: ServedTelegram) -> AsyncIterator[Raw]:
    async with httpx.AsyncClient() as http:
        yield Raw(telegram_emulator, http)


@pytest.fixture
def ada(telegram_emulator: ServedTelegram) -> Person:
    return telegram_emulator.emulator.add_person("Ada")


class TestWire:
    async def test_a_client_learns_who_it_is(self, bot: Bot) -> None:
        me = await bot.get_me()
        assert (me.id, me.is_bot, me.username) == (4242001, True, "trivet_demo_bot")
        assert me.can_read_all_group_messages is True

    async def test_an_unknown_token_is_refused_with_401(self, telegram_emulator: ServedTelegram) -> None:
        bot = Bot("1:wrong", base_url=f"{telegram_emulator.api_base}/bot")
        with pytest.raises(InvalidToken):
            await bot.initialize()

    async def test_what_is_no_token_is_not_found(self, raw: Raw) -> None:
        answers = [await raw.http.get(f"{raw.served.api_base}/bot{token}/getMe") for token in ("1:wrong", "wrong")]
        assert [answer.json()["description"] for answer in answers] == ["Unauthorized", "Not Found"]

    async def test_an_unknown_method_is_404(self, raw: Raw) -> None:
        assert await raw.refusal("sendTelepathy") == "Not Found: method not found"

    @pytest.mark.parametrize("method", ["getMe", "GETME", "getme"])
    async def test_method_names_have_no_case(self, raw: Raw, method: str) -> None:
        assert (await raw.result(method))["is_bot"] is True

    async def test_get_and_form_and_multipart_and_json_say_the_same(self, raw: Raw, ada: Person) -> None:
        url = f"{raw.served.api_base}/bot{raw.served.token}/sendMessage"
        given = {"chat_id": ada.id, "text": " a b "}
        answers = [
            await raw.http.get(url, params=given),
            await raw.http.post(url, data=given),
            await raw.http.post(url, data=given, files={"unused": b"x"}),
            await raw.http.post(url, json=given | {"chat_id": int(ada.id)}),
        ]
        assert [answer.json()["result"]["text"] for answer in answers] == ["a b"] * 4

    async def test_a_body_that_is_not_json_is_a_bad_request(self, raw: Raw) -> None:
        url = f"{raw.served.api_base}/bot{raw.served.token}/sendMessage"
        answer = await raw.http.post(url, content=b"{", headers={"Content-Type": "application/json"})
        assert (answer.status_code, answer.json()["ok"]) == (400, False)

    async def test_a_token_without_a_bot_id_is_no_token(self) -> None:
        with pytest.raises(ValueError, match="bot token"):
            TelegramEmulator(token="secret")


class TestSending:
    async def test_a_message_is_seen_by_people_and_not_echoed_to_the_bot(
        self, bot: Bot, telegram_emulator: ServedTelegram, ada: Person
    ) -> None:
        sent = await bot.send_message(int(ada.id), "  hello \n")
        assert (sent.text, sent.chat.id, sent.from_user and sent.from_user.is_bot) == ("hello", int(ada.id), True)
        seen = telegram_emulator.emulator.said(dm_of(telegram_emulator, ada).id)
        assert [(said.text, said.author.is_bot) for said in seen] == [("hello", True)]
        assert await bot.get_updates() == ()

    @pytest.mark.parametrize("text", ["", " \n\t "])
    async def test_an_empty_text_is_refused(self, bot: Bot, ada: Person, text: str) -> None:
        with pytest.raises(BadRequest, match="Message text is empty"):
            await bot.send_message(ada.id, text)

    @pytest.mark.parametrize("mode", ["HTML", "Markdown", "MarkdownV2", "Braille"])
    async def test_parse_modes_are_refused_as_the_server_refuses_one_it_does_not_know(
        self, bot: Bot, ada: Person, mode: str
    ) -> None:
        with pytest.raises(BadRequest, match="Unsupported parse_mode: this emulator takes entities"):
            await bot.send_message(ada.id, "<b>bold</b>", parse_mode=mode)

    async def test_what_is_blank_after_cleaning_is_refused(self, bot: Bot, ada: Person) -> None:
        with pytest.raises(BadRequest, match="Text must be non-empty"):
            await bot.send_message(ada.id, " \x01 ", entities=[MessageEntity("bold", 0, 3)])

    async def test_4096_characters_count_after_cleaning(self, bot: Bot, ada: Person) -> None:
        sent = await bot.send_message(ada.id, f" {'x' * 4096} ", entities=[MessageEntity("bold", 1, 4096)])
        assert sent.text is not None
        assert len(sent.text) == 4096
        with pytest.raises(BadRequest, match="Message is too long"):
            await bot.send_message(ada.id, "x" * 4097)

    async def test_length_may_be_counted_in_utf16_units(
        self, bot: Bot, telegram_emulator: ServedTelegram, ada: Person
    ) -> None:
        telegram_emulator.emulator.faults.other["utf16_length"] = 1
        with pytest.raises(BadRequest, match="Message is too long"):
            await bot.send_message(ada.id, "😀" * 2049)
        telegram_emulator.emulator.faults.other["utf16_length"] = 0
        assert (await bot.send_message(ada.id, "😀" * 2049)).text == "😀" * 2049

    async def test_raw_text_over_32_kib_is_refused_before_it_is_cleaned(self, bot: Bot, ada: Person) -> None:
        with pytest.raises(BadRequest, match="Text is too long"):
            await bot.send_message(ada.id, "x" + " " * 32_768)

    async def test_more_than_a_hundred_entities_are_ignored(self, bot: Bot, ada: Person) -> None:
        entities = [MessageEntity("bold", 2 * number, 1) for number in range(150)]
        sent = await bot.send_message(ada.id, "x " * 150, entities=entities)
        assert len(sent.entities) == 100
        assert sent.text == ("x " * 150).strip()

    async def test_explicit_entities_count_utf16_units(self, bot: Bot, ada: Person) -> None:
        sent = await bot.send_message(ada.id, "😀 bold", entities=[MessageEntity("bold", 3, 4)])
        assert sent.parse_entities() == {MessageEntity("bold", 3, 4): "bold"}

    @pytest.mark.parametrize(
        ("offset", "length", "complaint"),
        [
            (1, 2, "middle of a UTF-16 symbol"),
            (0, 1, "ends in a middle of a UTF-16 symbol"),
            (3, 9, "ends after the end of the text"),
            (90, 1, "begins after the end of the text"),
        ],
    )
    async def test_entities_that_fit_no_text_are_refused(
        self, raw: Raw, ada: Person, offset: int, length: int, complaint: str
    ) -> None:
        entities = [{"type": "bold", "offset": offset, "length": length}]
        assert complaint in await raw.refusal("sendMessage", chat_id=ada.id, text="😀 bold", entities=entities)

    async def test_an_unknown_chat_and_an_absent_one_are_told_apart(self, bot: Bot, raw: Raw) -> None:
        with pytest.raises(BadRequest, match="Chat not found"):
            await bot.send_message(999, "hello")
        assert await raw.refusal("sendMessage", text="hello") == "Bad Request: chat_id is empty"

    async def test_a_reply_needs_its_target_unless_it_may_go_without(self, bot: Bot, ada: Person) -> None:
        first = await bot.send_message(ada.id, "first")
        answer = await bot.send_message(ada.id, "second", reply_parameters=ReplyParameters(first.message_id))
        assert answer.reply_to_message is not None
        assert answer.reply_to_message.text == "first"
        with pytest.raises(BadRequest, match="Message to be replied not found"):
            await bot.send_message(ada.id, "third", reply_parameters=ReplyParameters(1))
        lax = ReplyParameters(1, allow_sending_without_reply=True)
        assert (await bot.send_message(ada.id, "third", reply_parameters=lax)).reply_to_message is None

    async def test_button_data_is_limited_in_bytes(self, raw: Raw, ada: Person) -> None:
        def keyboard(data: str) -> dict[str, object]:
            return {"inline_keyboard": [[{"text": "go", "callback_data": data}]]}

        sent = await raw.result("sendMessage", chat_id=ada.id, text="x", reply_markup=keyboard("é" * 32))
        assert sent["reply_markup"] == keyboard("é" * 32)
        complaint = await raw.refusal("sendMessage", chat_id=ada.id, text="x", reply_markup=keyboard("é" * 33))
        assert complaint == "Bad Request: BUTTON_DATA_INVALID"

    async def test_typing_and_drafts_are_seen_but_are_no_messages(
        self, bot: Bot, telegram_emulator: ServedTelegram, ada: Person
    ) -> None:
        seen = telegram_emulator.emulator.events()
        await bot.send_chat_action(ada.id, "typing")
        await bot.send_message_draft(int(ada.id), 7, "half an ans")
        typing, draft = await anext(seen), await anext(seen)
        assert (typing.kind, typing.status) == (EventKind.TYPING, "typing")
        assert (draft.kind, draft.said.text if draft.said else "") == (EventKind.DRAFT, "half an ans")
        assert telegram_emulator.emulator.said(dm_of(telegram_emulator, ada).id) == []

    async def test_a_draft_needs_a_private_chat_and_an_id(
        self, raw: Raw, telegram_emulator: ServedTelegram, ada: Person
    ) -> None:
        group = group_of(telegram_emulator)
        assert "private" in await raw.refusal("sendMessageDraft", chat_id=group.address, draft_id=1, text="x")
        assert "draft_id" in await raw.refusal("sendMessageDraft", chat_id=ada.id, draft_id=0, text="x")
        too_long = await raw.refusal("sendMessageDraft", chat_id=ada.id, draft_id=1, text="x" * 4097)
        assert too_long == "Bad Request: message is too long"
        assert await raw.result("sendMessageDraft", chat_id=ada.id, draft_id=1) is True
        telegram_emulator.emulator.faults.other["no_drafts"] = 1
        status, _ = await raw.call("sendMessageDraft", chat_id=ada.id, draft_id=1, text="x")
        assert status == 404

    async def test_a_draft_is_seen_until_it_fades_or_the_bot_speaks(
        self, bot: Bot, telegram_emulator: ServedTelegram, ada: Person
    ) -> None:
        emulator, dm = telegram_emulator.emulator, dm_of(telegram_emulator, ada)
        await bot.send_message_draft(int(ada.id), 7, "half", entities=[MessageEntity("bold", 0, 4)])
        draft = emulator.server.draft(dm.id)
        assert draft is not None
        assert (draft.text, draft.html) == ("half", "<strong>half</strong>")
        emulator.faults.other["clock_offset_s"] = 31
        assert emulator.server.draft(dm.id) is None
        await bot.send_message_draft(int(ada.id), 7, "half an")
        await bot.send_message(ada.id, "half an hour")
        assert emulator.server.draft(dm.id) is None


class TestEditingAndDeleting:
    async def test_an_edit_is_seen_once_and_the_same_edit_is_no_edit(
        self, bot: Bot, telegram_emulator: ServedTelegram, ada: Person
    ) -> None:
        sent = await bot.send_message(ada.id, "one")
        edited = await bot.edit_message_text("two", chat_id=ada.id, message_id=sent.message_id)
        assert not isinstance(edited, bool)
        assert (edited.text, edited.edit_date is not None) == ("two", True)
        with pytest.raises(BadRequest, match="Message is not modified"):
            await bot.edit_message_text("two", chat_id=ada.id, message_id=sent.message_id)
        (said,) = telegram_emulator.emulator.said(dm_of(telegram_emulator, ada).id)
        assert (said.text, said.edited) == ("two", True)

    async def test_only_own_messages_that_exist_can_be_edited(
        self, bot: Bot, telegram_emulator: ServedTelegram, ada: Person
    ) -> None:
        with pytest.raises(BadRequest, match="Message to edit not found"):
            await bot.edit_message_text("two", chat_id=ada.id, message_id=1)
        theirs = await telegram_emulator.emulator.say(ada.id, dm_of(telegram_emulator, ada).id, "mine")
        with pytest.raises(BadRequest, match="Message can't be edited"):
            await bot.edit_message_text("two", chat_id=ada.id, message_id=int(theirs.id))

    async def test_a_document_has_no_text_to_edit(self, bot: Bot, ada: Person) -> None:
        sent = await bot.send_document(ada.id, b"x", caption="old", filename="a.txt")
        with pytest.raises(BadRequest, match="There is no text in the message to edit"):
            await bot.edit_message_text("new", chat_id=ada.id, message_id=sent.message_id)

    async def test_a_deleted_message_is_gone(self, bot: Bot, telegram_emulator: ServedTelegram, ada: Person) -> None:
        sent = await bot.send_message(ada.id, "one")
        seen = telegram_emulator.emulator.events()
        assert await bot.delete_message(ada.id, sent.message_id)
        event = await anext(seen)
        assert (event.kind, event.message_id) == (EventKind.DELETED, str(sent.message_id))
        with pytest.raises(BadRequest, match="Message to delete not found"):
            await bot.delete_message(ada.id, sent.message_id)

    async def test_in_a_group_the_bot_deletes_only_its_own(
        self, bot: Bot, telegram_emulator: ServedTelegram, ada: Person
    ) -> None:
        group = group_of(telegram_emulator)
        theirs = await telegram_emulator.emulator.say(ada.id, group.id, "mine")
        with pytest.raises(BadRequest, match="Message can't be deleted"):
            await bot.delete_message(group.address, int(theirs.id))

    async def test_in_a_group_where_it_has_the_right_the_bot_deletes_what_others_wrote(
        self, bot: Bot, telegram_emulator: ServedTelegram, ada: Person
    ) -> None:
        telegram_emulator.emulator.faults.other["can_delete_messages"] = 1
        group = group_of(telegram_emulator)
        theirs = await telegram_emulator.emulator.say(ada.id, group.id, "mine")
        assert await bot.delete_message(group.address, int(theirs.id))


class TestTopicsAndMigration:
    async def test_a_topic_gets_its_own_messages_and_general_is_never_named(
        self, bot: Bot, telegram_emulator: ServedTelegram, ada: Person
    ) -> None:
        emulator = telegram_emulator.emulator
        group = group_of(telegram_emulator)
        topic = emulator.add_place(PlaceKind.THREAD, "Soup", parent_id=group.id)
        chat_id, thread_id = topic.address.split("/")
        sent = await bot.send_message(chat_id, "hot", message_thread_id=int(thread_id))
        assert (sent.is_topic_message, sent.message_thread_id) == (True, int(thread_id))
        assert [said.text for said in emulator.said(topic.id)] == ["hot"]
        assert emulator.said(group.id) == []
        for unknown in (1, 987654):
            with pytest.raises(BadRequest, match="Message thread not found"):
                await bot.send_message(chat_id, "hot", message_thread_id=unknown)
        emulator.faults.other["general_topic_is_1"] = 1
        assert (await bot.send_message(chat_id, "hot", message_thread_id=1)).is_topic_message is None

    async def test_a_reply_into_a_topic_lands_there(
        self, bot: Bot, telegram_emulator: ServedTelegram, ada: Person
    ) -> None:
        emulator = telegram_emulator.emulator
        topic = emulator.add_place(PlaceKind.THREAD, "Soup", parent_id=group_of(telegram_emulator).id)
        said = await emulator.say(ada.id, topic.id, "hot?")
        chat_id, thread_id = topic.address.split("/")
        sent = await bot.send_message(chat_id, "yes", reply_parameters=ReplyParameters(int(said.id)))
        assert sent.message_thread_id == int(thread_id)

    async def test_a_group_that_becomes_a_supergroup_changes_its_id(
        self, bot: Bot, telegram_emulator: ServedTelegram, ada: Person
    ) -> None:
        emulator = telegram_emulator.emulator
        emulator.faults.other["basic_groups"] = 1
        group = group_of(telegram_emulator)
        emulator.faults.other["migrate"] = 1
        with pytest.raises(ChatMigrated) as moved:
            await bot.send_message(group.address, "hello")
        assert str(moved.value.new_chat_id).startswith("-100")
        assert (await bot.send_message(moved.value.new_chat_id, "hello")).chat.type == "supergroup"
        services = [each.message for each in await bot.get_updates() if each.message]
        assert [each.migrate_to_chat_id for each in services if each.migrate_to_chat_id] == [moved.value.new_chat_id]
        assert [each.migrate_from_chat_id for each in services if each.migrate_from_chat_id] == [int(group.address)]
        assert [place.address for place in emulator.places() if place.id == group.id] == [str(moved.value.new_chat_id)]


class TestFiles:
    async def test_a_document_can_be_fetched_again(self, bot: Bot, ada: Person) -> None:
        sent = await bot.send_document(ada.id, b"# notes", filename="notes.md", caption="*the* notes")
        assert sent.document is not None
        assert (sent.document.file_name, sent.caption) == ("notes.md", "*the* notes")
        file = await bot.get_file(sent.document.file_id)
        assert bytes(await file.download_as_bytearray()) == b"# notes"

    async def test_a_file_of_a_person_reaches_the_bot(
        self, bot: Bot, telegram_emulator: ServedTelegram, ada: Person
    ) -> None:
        photo = SharedFile("cat.jpg", "image/jpeg", b"meow")
        await telegram_emulator.emulator.say(ada.id, dm_of(telegram_emulator, ada).id, "look", files=[photo])
        (update,) = await bot.get_updates()
        assert update.message is not None
        assert update.message.caption == "look"
        file = await update.message.photo[-1].get_file()
        assert bytes(await file.download_as_bytearray()) == b"meow"
        assert update.message.photo[0].file_id != update.message.photo[-1].file_id

    async def test_unknown_and_empty_files_are_refused(self, bot: Bot, ada: Person) -> None:
        with pytest.raises(BadRequest, match="Wrong file_id"):
            await bot.get_file("nonsense")
        with pytest.raises(BadRequest, match="File must be non-empty"):
            await bot.send_document(ada.id, b"", filename="a.txt")


class TestFaults:
    async def test_429_tells_when_to_come_back_and_strikes_once(
        self, bot: Bot, telegram_emulator: ServedTelegram, ada: Person, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("PTB_TIMEDELTA", "1")
        telegram_emulator.emulator.faults.rate_limit = 1
        telegram_emulator.emulator.faults.retry_after_s = 7
        await bot.send_chat_action(ada.id, "typing")
        with pytest.raises(RetryAfter) as refused:
            await bot.send_message(ada.id, "hello")
        assert refused.value.retry_after == timedelta(seconds=7)
        assert (await bot.send_message(ada.id, "hello")).text == "hello"

    async def test_a_burst_passes_and_then_the_chat_is_limited(self, raw: Raw, ada: Person) -> None:
        statuses = [(await raw.call("sendMessage", chat_id=ada.id, text=f"{n}"))[0] for n in range(25)]
        assert statuses[:20] == [200] * 20
        assert 429 in statuses
        status, body = await raw.call("sendMessage", chat_id=ada.id, text="more")
        assert (status, body["parameters"]) == (429, {"retry_after": 1})
        raw.served.emulator.faults.other["unlimited"] = 1
        assert await raw.result("sendMessage", chat_id=ada.id, text="more")

    async def test_a_502_has_no_json_and_does_nothing(
        self, bot: Bot, telegram_emulator: ServedTelegram, ada: Person
    ) -> None:
        telegram_emulator.emulator.faults.server_error = 1
        with pytest.raises(NetworkError, match="Bad Gateway"):
            await bot.send_message(ada.id, "hello")
        assert telegram_emulator.emulator.said(dm_of(telegram_emulator, ada).id) == []

    @pytest.mark.parametrize(("fault", "arrived"), [("drop_before", 0), ("drop_after", 1)])
    async def test_a_cut_connection_leaves_the_sender_in_the_dark(
        self, bot: Bot, telegram_emulator: ServedTelegram, ada: Person, fault: str, arrived: int
    ) -> None:
        setattr(telegram_emulator.emulator.faults, fault, 1)
        with pytest.raises(NetworkError):
            await bot.send_message(ada.id, "hello")
        assert len(telegram_emulator.emulator.said(dm_of(telegram_emulator, ada).id)) == arrived
        assert (await bot.send_message(ada.id, "again")).text == "again"

    async def test_refused_format_spares_plain_text(
        self, bot: Bot, telegram_emulator: ServedTelegram, ada: Person
    ) -> None:
        telegram_emulator.emulator.faults.refuse_format = 1
        assert (await bot.send_message(ada.id, "plain")).entities == ()
        with pytest.raises(BadRequest, match="Can't parse entities"):
            await bot.send_message(ada.id, "bold", entities=[MessageEntity("bold", 0, 4)])
        assert len((await bot.send_message(ada.id, "bold", entities=[MessageEntity("bold", 0, 4)])).entities) == 1

    async def test_a_blocked_bot_is_forbidden_to_write(
        self, bot: Bot, telegram_emulator: ServedTelegram, ada: Person
    ) -> None:
        telegram_emulator.emulator.block(dm_of(telegram_emulator, ada).id)
        with pytest.raises(Forbidden, match="bot was blocked by the user"):
            await bot.send_message(ada.id, "hello")
        (update,) = await bot.get_updates()
        assert update.my_chat_member is not None
        assert update.my_chat_member.new_chat_member.status == "kicked"

    async def test_delay_holds_up_calls_but_loses_none(
        self, bot: Bot, telegram_emulator: ServedTelegram, ada: Person
    ) -> None:
        telegram_emulator.emulator.faults.delay_s = 0.05
        sent = await asyncio.gather(*(bot.send_message(ada.id, str(n)) for n in range(3)))
        assert sorted(each.text or "" for each in sent) == ["0", "1", "2"]
