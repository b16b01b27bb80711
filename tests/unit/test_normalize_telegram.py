"""How a Telegram update is read. Each test says one rule of the Bot API or of ours."""

from __future__ import annotations

from typing import Any

import pytest

from channels.core.message import OWN_QUOTE_CHARS_MAX, Addressing, Ignored, IgnoreReason, Incoming, Migrated, RawQuote
from channels.telegram.normalize import TelegramIdentity, TelegramTarget, make_target, normalize, parse_target
from gateway.contracts.commands import Command
from gateway.contracts.errors import BadEnvelope
from gateway.contracts.ids import SessionScope
from gateway.contracts.messages import AttachmentKind, ControlKind, QuoteKind

ME = TelegramIdentity(bot_id=42, username="TrivetBot")
ADA = {"id": 123, "is_bot": False, "first_name": "Ada", "last_name": "Lovelace", "username": "ada"}
DM = {"id": 123, "type": "private", "first_name": "Ada"}
GROUP = {"id": -100456, "type": "supergroup", "title": "Engines"}


def message(text: str | None = "hello", *, sender: dict[str, Any] | None = ADA, **fields: Any) -> dict[str, Any]:
    """A message by Ada to the bot; `None` leaves a field out."""
    whole = {"message_id": 7, "date": 1_700_000_000, "chat": DM, "from": sender, "text": text, **fields}
    return {"update_id": 1, "message": {name: value for name, value in whole.items() if value is not None}}


def read(update: dict[str, Any]) -> Incoming:
    incoming = normalize(update, ME)
    assert isinstance(incoming, Incoming), incoming
    return incoming


def reason(update: dict[str, Any]) -> IgnoreReason:
    ignored = normalize(update, ME)
    assert isinstance(ignored, Ignored), ignored
    return ignored.reason


def entity(kind: str, text: str, part: str, **fields: Any) -> dict[str, Any]:
    start = len(text[: text.index(part)].encode("utf-16-le")) // 2
    return {"type": kind, "offset": start, "length": len(part.encode("utf-16-le")) // 2, **fields}


def test_a_direct_message_has_the_bare_user_key() -> None:
    incoming = read(message())
    assert str(incoming.key(SessionScope.PLACE)) == "telegram:123"
    assert incoming.id == "telegram:42:123:7"
    assert (incoming.is_private, incoming.addressing) == (True, Addressing.PRIVATE)
    assert (incoming.author_name, incoming.text, incoming.sent_at_ms) == ("Ada Lovelace", "hello", 1_700_000_000_000)
    assert incoming.address.lane == "123"
    assert parse_target(incoming.address.target) == TelegramTarget(chat_id=123, answered_message_id=7)


def test_a_group_message_has_its_place_and_quotes_what_it_answers() -> None:
    incoming = read(message(chat=GROUP))
    assert str(incoming.key(SessionScope.PLACE)) == "telegram:123/-100456"
    assert str(incoming.key(SessionScope.SHARED)) == "telegram:/-100456"
    assert not incoming.is_addressed
    assert parse_target(incoming.address.target) == TelegramTarget(
        chat_id=-100456, reply_to_message_id=7, answered_message_id=7
    )


def test_a_topic_is_a_place_of_its_own() -> None:
    incoming = read(message(chat=GROUP, message_thread_id=9, is_topic_message=True))
    assert incoming.place == ("-100456", "9")
    assert incoming.address.lane == "-100456/9"
    assert parse_target(incoming.address.target).message_thread_id == 9


def test_a_thread_id_without_a_topic_is_only_a_chain_of_replies() -> None:
    incoming = read(message(chat=GROUP, message_thread_id=9))
    assert incoming.place == ("-100456",)
    assert parse_target(incoming.address.target).message_thread_id is None


def test_topics_alone_have_names_to_give() -> None:
    places = (message(), message(chat=GROUP), message(chat=GROUP, message_thread_id=9, is_topic_message=True))
    assert [read(said).is_nameable for said in places] == [False, False, True]


def test_the_general_topic_is_the_group_itself() -> None:
    incoming = read(message(chat=GROUP, message_thread_id=1, is_topic_message=True))
    assert incoming.place == ("-100456",)
    assert "message_thread_id" not in incoming.address.target


def test_a_topic_in_a_private_chat_is_another_conversation() -> None:
    incoming = read(message(message_thread_id=5, is_topic_message=True))
    assert (incoming.place, incoming.is_private) == (("123", "5"), True)


@pytest.mark.parametrize("written", ["@TrivetBot", "@trivetbot"])
def test_a_mention_addresses_the_bot_and_is_taken_out(written: str) -> None:
    """Offsets count UTF-16 units, so an emoji before the mention must not shift it."""
    text = f"👩‍👩‍👧 hey {written}, what now?"
    incoming = read(message(text, chat=GROUP, entities=[entity("mention", text, written)]))
    assert incoming.addressing is Addressing.MENTION
    assert incoming.text == "👩‍👩‍👧 hey, what now?"


def test_a_longer_name_or_code_is_no_mention() -> None:
    text = "@TrivetBot_test and @TrivetBot"
    assert not read(message(text, chat=GROUP, entities=[entity("mention", text, "@TrivetBot_test")])).is_addressed
    assert not read(message(text, chat=GROUP, entities=[entity("code", text, text)])).is_addressed


def test_a_text_mention_counts_by_id() -> None:
    text = "Trivet what now"
    mention = entity("text_mention", text, "Trivet", user={"id": 42})
    assert read(message(text, chat=GROUP, entities=[mention])).text == "what now"


def test_a_caption_is_read_with_its_own_entities() -> None:
    caption = "@TrivetBot what is this?"
    photo = [{"file_id": "small", "file_size": 1}, {"file_id": "large", "file_size": 9}]
    incoming = read(
        message(None, chat=GROUP, photo=photo, caption=caption, media_group_id="g1",
                caption_entities=[entity("mention", caption, "@TrivetBot")])
    )  # fmt: skip
    assert (incoming.text, incoming.addressing) == ("what is this?", Addressing.MENTION)
    (picture,) = incoming.attachments
    assert (picture.kind, picture.reference, picture.size_bytes) == (AttachmentKind.IMAGE, "large", 9)
    assert incoming.album_id == "g1"


def test_a_bare_mention_stays_readable() -> None:
    assert read(message("@TrivetBot", chat=GROUP, entities=[entity("mention", "@TrivetBot", "@TrivetBot")])).text == (
        "@TrivetBot"
    )


def test_a_reply_to_the_bot_addresses_it() -> None:
    assert read(message(chat=GROUP, reply_to_message={"message_id": 3, "from": {"id": 42}})).addressing is (
        Addressing.REPLY
    )


def test_the_reply_that_a_topic_fills_in_does_not_count() -> None:
    created = {"message_id": 9, "from": {"id": 42}, "forum_topic_created": {"name": "x"}}
    topic = message(chat=GROUP, message_thread_id=9, is_topic_message=True, reply_to_message=created)
    assert not read(topic).is_addressed


def test_a_command_addresses_the_bot_and_loses_its_suffix() -> None:
    text = "/stop@TrivetBot now"
    incoming = read(message(text, chat=GROUP, entities=[entity("bot_command", text, "/stop@TrivetBot")]))
    assert (incoming.addressing, incoming.text) == (Addressing.COMMAND, "/stop now")
    assert incoming.command == Command("stop", "now")
    assert incoming.command.control is ControlKind.STOP
    plain = read(message("/help", chat=GROUP, entities=[entity("bot_command", "/help", "/help")]))
    assert plain.addressing is Addressing.COMMAND
    assert plain.command == Command("help")
    assert plain.command.control is None


def test_a_command_for_another_bot_is_not_ours() -> None:
    text = "/stop@OtherBot"
    assert reason(message(text, chat=GROUP, entities=[entity("bot_command", text, text)])) is IgnoreReason.OTHER_BOT


def test_a_path_in_the_middle_is_no_command() -> None:
    text = "see /etc"
    assert not read(message(text, chat=GROUP, entities=[entity("bot_command", text, "/etc")])).is_addressed
    assert read(message("/etc/hosts is broken")).command is None


def test_bots_and_the_bot_itself_are_ignored() -> None:
    assert reason(message(sender={"id": 5, "is_bot": True, "first_name": "B"})) is IgnoreReason.BOT
    assert reason(message(sender={"id": 42, "is_bot": True, "first_name": "T"})) is IgnoreReason.OWN


def test_an_anonymous_admin_is_known_by_the_chat_not_by_the_stand_in() -> None:
    anonymous = {"id": 1087968824, "is_bot": True, "first_name": "Group", "username": "GroupAnonymousBot"}
    incoming = read(message(chat=GROUP, sender_chat=GROUP, sender=anonymous))
    assert (incoming.user_id, incoming.author_name) == ("-100456", "Engines")


def test_a_person_writing_as_a_channel_is_that_channel() -> None:
    stand_in = {"id": 136817688, "is_bot": True, "first_name": "Channel"}
    channel = {"id": -100999, "type": "channel", "title": "News"}
    assert read(message(chat=GROUP, sender_chat=channel, sender=stand_in)).user_id == "-100999"


def test_an_automatic_forward_of_a_linked_channel_is_ignored() -> None:
    forward = message(chat=GROUP, is_automatic_forward=True, sender_chat={"id": -1009}, sender={"id": 777000})
    assert reason(forward) is IgnoreReason.AUTOMATIC_FORWARD


def test_a_channel_post_has_the_channel_as_its_author() -> None:
    text = "@TrivetBot hi"
    post = message(text, chat={"id": -1001, "type": "channel", "title": "News"}, entities=[
        entity("mention", text, "@TrivetBot")], sender=None)["message"]  # fmt: skip
    incoming = read({"update_id": 1, "channel_post": post})
    assert (incoming.user_id, incoming.author_name, incoming.is_addressed) == ("-1001", "News", True)


def test_an_edit_keeps_the_id_and_says_when() -> None:
    edited = {"update_id": 2, "edited_message": {**message("new")["message"], "edit_date": 1_700_000_060}}
    incoming = read(edited)
    assert incoming.id == read(message("old")).id
    assert (incoming.is_edit, incoming.edited_at_ms) == (True, 1_700_000_060_000)


def test_a_migration_is_reported_from_both_sides() -> None:
    old = {"id": -456, "type": "group"}
    assert normalize(message(None, chat=old, migrate_to_chat_id=-100456), ME) == Migrated("-456", "-100456")
    assert normalize(message(None, chat=GROUP, migrate_from_chat_id=-456), ME) == Migrated("-456", "-100456")


def test_the_topic_of_a_channels_direct_messages_comes_back_in_the_target() -> None:
    direct = read(message(chat={"id": -1005, "type": "supergroup"}, direct_messages_topic={"topic_id": 77}))
    assert parse_target(direct.address.target).direct_messages_topic_id == 77
    assert direct.place == ("-1005", "77")


@pytest.mark.parametrize("kind", ["business_message", "edited_business_message", "guest_message", "message_reaction"])
def test_what_others_say_to_somebody_else_is_not_answered(kind: str) -> None:
    """The customers of a business account speak to its owner, whose chats the bot may read."""
    assert reason({"update_id": 1, kind: message(business_connection_id="b")["message"]}) is IgnoreReason.UNSUPPORTED


WORDLESS: dict[str, tuple[dict[str, Any], str]] = {
    "location": ({"latitude": 52.52, "longitude": 13.405}, "[A location: 52.520000, 13.405000]"),
    "venue": (
        {"title": "Zoo", "address": "Park 1", "location": {"latitude": 1, "longitude": 2.5}},
        "[A place: Zoo, Park 1, 1.000000, 2.500000]",
    ),
    "contact": ({"first_name": "Ben", "phone_number": "+49 1"}, "[A contact: Ben, +49 1]"),
    "poll": (
        {"question": "Tea?", "options": [{"text": "yes", "voter_count": 2}, {"text": "no"}]},
        "[A poll, with the votes so far: Tea?]\n- yes (2)\n- no (0)",
    ),
    "checklist": (
        {"title": "Trip", "tasks": [{"text": "pack", "completion_date": 1}, {"text": "go"}]},
        "[A checklist: Trip]\n- [x] pack\n- [ ] go",
    ),
    "dice": ({"emoji": "🎲", "value": 6}, "[🎲 shows 6]"),
    "game": ({"title": "Go"}, "[A game: Go]"),
    "story": ({"id": 1}, "[A story, which cannot be opened here]"),
    "rich_message": (
        {
            "blocks": [
                {"type": "heading", "text": "Plan", "size": 1},
                {"type": "paragraph", "text": ["buy ", {"type": "bold", "text": "milk"}]},
                {"type": "divider"},
            ]
        },
        "Plan\nbuy milk",
    ),
}


@pytest.mark.parametrize("kind", WORDLESS)
def test_what_has_no_words_is_told_in_some(kind: str) -> None:
    shown, words = WORDLESS[kind]
    assert read(message(None, **{kind: shown})).text == words
    external = {"origin": {"type": "channel", "chat": GROUP, "message_id": 1}, kind: shown}
    assert read(message(external_reply=external)).quotes[0].text == words


@pytest.mark.parametrize("latitude", [None, "1", 10**400, float("nan"), float("inf")])
def test_a_place_that_is_none_is_somewhere(latitude: object) -> None:
    assert read(message(None, location={"latitude": latitude, "longitude": 1.0})).text == "[A location: somewhere]"


def test_somebody_who_shares_where_he_is_does_not_say_something_new_with_each_step() -> None:
    live = {"latitude": 1.0, "longitude": 2.0, "live_period": 900}
    moved = {**message(None, location=live)["message"], "edit_date": 1_700_000_060}
    assert reason({"update_id": 2, "edited_message": moved}) is IgnoreReason.NOT_AN_EDIT


@pytest.mark.parametrize(
    ("fields", "kind", "name"),
    [
        ({"voice": {"file_id": "f"}}, AttachmentKind.VOICE, "voice.ogg"),
        ({"document": {"file_id": "f", "file_name": "a.pdf"}}, AttachmentKind.DOCUMENT, "a.pdf"),
        ({"document": {"file_id": "f", "file_name": "a.png", "mime_type": "image/png"}}, AttachmentKind.IMAGE, "a.png"),
        ({"animation": {"file_id": "f"}, "document": {"file_id": "f"}}, AttachmentKind.VIDEO, "animation.mp4"),
        ({"sticker": {"file_id": "f", "emoji": "👍"}}, AttachmentKind.IMAGE, "sticker.webp"),
    ],
)
def test_files_come_by_reference(fields: dict[str, Any], kind: AttachmentKind, name: str) -> None:
    (file,) = read(message(None, **fields)).attachments
    assert (file.kind, file.reference, file.name) == (kind, "f", name)


def test_a_moving_sticker_says_its_emoji() -> None:
    incoming = read(message(None, sticker={"file_id": "f", "emoji": "👍", "is_animated": True}))
    assert (incoming.text, incoming.attachments) == ("👍", ())


def test_service_messages_and_other_updates_are_ignored() -> None:
    assert reason(message(None, new_chat_members=[ADA])) is IgnoreReason.UNSUPPORTED
    assert reason({"update_id": 1, "poll": {"id": "1"}}) is IgnoreReason.UNSUPPORTED
    assert reason({"update_id": 1, "message": {"text": "no chat"}}) is IgnoreReason.MALFORMED


def test_a_text_as_long_as_the_client_allows_may_go_on() -> None:
    assert read(message("x" * 4096)).may_continue
    assert not read(message("x" * 4000)).may_continue


def test_entities_out_of_range_are_left_out() -> None:
    broken = [{"type": "mention", "offset": -1, "length": 3}, {"type": "mention", "offset": 0, "length": 999}, "x"]
    assert read(message("hi", chat=GROUP, entities=broken)).text == "hi"


def test_targets_are_canonical() -> None:
    assert make_target(TelegramTarget(1, message_thread_id=2)) == '{"chat_id":1,"message_thread_id":2}'
    for bad in ("", "[]", "{}", '{"chat_id":"1"}'):
        with pytest.raises(BadEnvelope):
            parse_target(bad)


BEN = {"id": 9, "is_bot": False, "first_name": "Ben"}
BOT = {"id": 42, "is_bot": True, "first_name": "Trivet", "username": "TrivetBot"}


def said_by(sender: dict[str, Any], text: str | None, number: int = 3, **fields: Any) -> dict[str, Any]:
    whole = {"message_id": number, "date": 1, "chat": DM, "from": sender, "text": text, **fields}
    return {name: value for name, value in whole.items() if value is not None}


def test_what_a_message_answers_comes_along() -> None:
    answered = said_by(BEN, None, caption="the plan", document={"file_id": "d1", "file_name": "plan.pdf"})
    (quote,) = read(message("is that so?", reply_to_message=answered)).quotes
    assert (quote.kind, quote.author_name, quote.text) == (QuoteKind.REPLY, "Ben", "the plan")
    assert [(file.reference, file.name) for file in quote.attachments] == [("d1", "plan.pdf")]


def test_the_part_that_its_author_marked_comes_along_too() -> None:
    answered, marked = said_by(BEN, "one. two. three."), {"text": "two.", "position": 5, "is_manual": True}
    quotes = read(message("why?", reply_to_message=answered, quote=marked)).quotes
    assert [(quote.kind, quote.text) for quote in quotes] == [
        (QuoteKind.REPLY, "one. two. three."),
        (QuoteKind.EXCERPT, "two."),
    ]
    whole = {"text": "one. two. three.", "position": 0}
    assert len(read(message("why?", reply_to_message=answered, quote=whole)).quotes) == 1


def test_our_own_last_words_are_no_context_but_older_ones_are() -> None:
    """The message right before this one is what the conversation ended with; an older one is told by its beginning."""
    assert read(message(reply_to_message=said_by(BOT, "well", 6))).quotes == ()
    (quote,) = read(message(reply_to_message=said_by(BOT, "y" * 2_000, 5))).quotes
    assert (quote.author_name, quote.text) == ("Trivet", "y" * OWN_QUOTE_CHARS_MAX)


def test_the_creation_of_a_topic_is_answered_by_nobody() -> None:
    created = said_by(BEN, None, forum_topic_created={"name": "x", "icon_color": 1})
    topic = message(chat=GROUP, message_thread_id=9, is_topic_message=True, reply_to_message=created)
    assert read(topic).quotes == ()


@pytest.mark.parametrize(
    ("origin", "name"),
    [
        ({"type": "user", "sender_user": BEN}, "Ben"),
        ({"type": "hidden_user", "sender_user_name": "Someone"}, "Someone"),
        ({"type": "chat", "sender_chat": GROUP}, "Engines"),
        ({"type": "channel", "chat": GROUP, "message_id": 5, "author_signature": "Ed"}, "Engines"),
    ],
)
def test_what_is_passed_on_is_somebody_elses_words(origin: dict[str, Any], name: str) -> None:
    """So it is no command either, and calls nobody."""
    text = "/stop @TrivetBot"
    mention = entity("mention", text, "@TrivetBot")
    incoming = read(message(text, forward_origin=origin, entities=[mention], chat=GROUP))
    assert (incoming.text, incoming.command, incoming.is_addressed) == ("", None, False)
    assert incoming.quotes == (RawQuote(QuoteKind.FORWARD, name, text),)


def test_a_file_that_is_passed_on_comes_with_its_quote() -> None:
    origin = {"type": "hidden_user", "sender_user_name": "Someone"}
    incoming = read(message(None, forward_origin=origin, voice={"file_id": "v1"}))
    assert (incoming.text, incoming.attachments) == ("", ())
    assert incoming.quotes[0].attachments[0].kind is AttachmentKind.VOICE


def test_his_own_words_he_says_once_more() -> None:
    incoming = read(message("what I said", forward_origin={"type": "user", "sender_user": ADA}))
    assert (incoming.text, incoming.quotes) == ("what I said", ())


def test_an_answer_to_another_chat_brings_what_was_marked_there_and_its_files() -> None:
    external = {"origin": {"type": "channel", "chat": GROUP, "message_id": 1}, "photo": [{"file_id": "p1"}]}
    (quote,) = read(message(external_reply=external, quote={"text": "engines", "position": 0})).quotes
    assert (quote.kind, quote.author_name, quote.text) == (QuoteKind.EXCERPT, "Engines", "engines")
    assert quote.attachments[0].reference == "p1"
    (quote,) = read(message(external_reply=external)).quotes
    assert (quote.kind, quote.text) == (QuoteKind.REPLY, "")
