"""How a Discord message is read. Each test says one rule."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from channels.core.message import OWN_QUOTE_CHARS_MAX, Addressing, Ignored, IgnoreReason, Incoming, RawQuote
from channels.discord.normalize import (
    DiscordAttachment,
    DiscordIdentity,
    DiscordMessage,
    DiscordQuoted,
    DiscordTarget,
    make_target,
    normalize,
    parse_target,
)
from gateway.contracts.commands import Command
from gateway.contracts.errors import BadEnvelope
from gateway.contracts.ids import SessionScope
from gateway.contracts.messages import AttachmentKind, QuoteKind

ME = DiscordIdentity(user_id="42")
DM = DiscordMessage("7", channel_id="55", author_id="123", author_name="Ada", content="hello", created_at_ms=1_000)
GUILD = replace(DM, guild_id="9", channel_id="77", own_role_id="88")
THREAD = replace(GUILD, channel_id="99", parent_id="77")


def read(message: DiscordMessage) -> Incoming:
    incoming = normalize(message, ME)
    assert isinstance(incoming, Incoming), incoming
    return incoming


def test_a_direct_message_has_the_bare_user_key_and_quotes_nothing() -> None:
    incoming = read(DM)
    assert str(incoming.key(SessionScope.PLACE)) == "discord:123"
    assert incoming.id == "discord:42:55:7"
    assert incoming.addressing is Addressing.PRIVATE
    assert parse_target(incoming.address.target) == DiscordTarget("55")
    assert incoming.address.lane == "55"


def test_a_channel_and_a_thread_are_places() -> None:
    assert str(read(GUILD).key(SessionScope.PLACE)) == "discord:123/77"
    thread = read(THREAD)
    assert thread.place == ("77", "99")
    assert parse_target(thread.address.target) == DiscordTarget("99", reply_to_message_id="7")


def test_threads_alone_have_names_to_give() -> None:
    """Also one that begins with the message."""
    places = (DM, GUILD, THREAD, replace(GUILD, begins_thread=True))
    assert [read(said).is_nameable for said in places] == [False, False, True, True]


@pytest.mark.parametrize("mention", ["<@42>", "<@!42>", "<@&88>"])
def test_a_mention_of_the_bot_or_of_its_own_role_addresses_it(mention: str) -> None:
    incoming = read(replace(GUILD, content=f"{mention} what now?"))
    assert (incoming.addressing, incoming.text) == (Addressing.MENTION, "what now?")


def test_the_fields_of_the_message_count_as_mentions_too() -> None:
    assert read(replace(GUILD, mentions=("42",))).addressing is Addressing.MENTION
    assert read(replace(GUILD, mentioned_roles=("88",))).addressing is Addressing.MENTION


def test_everyone_is_not_the_bot() -> None:
    assert not read(replace(GUILD, content="@everyone <@&31> <@43>")).is_addressed


def test_a_reply_addresses_the_bot_with_or_without_a_ping() -> None:
    ours = DiscordQuoted("66", "5", "what we said", author_id="42", author_name="Trivet")
    assert read(replace(GUILD, answered=ours)).addressing is Addressing.REPLY
    assert read(replace(GUILD, answered=ours, mentions=("42",))).addressing is Addressing.REPLY
    assert not read(replace(GUILD, answered=replace(ours, author_id="43"))).is_addressed


def test_a_thread_that_the_bot_owns_needs_no_mention() -> None:
    assert read(replace(THREAD, thread_owner_id="42")).addressing is Addressing.THREAD
    assert not read(replace(THREAD, thread_owner_id="43")).is_addressed


def test_mentions_become_names() -> None:
    content = "ask <@5> or <@!6> of <@&7> in <#8> <a:party:123>"
    names = replace(DM, content=content, user_names={"5": "Bob"}, role_names={"7": "ops"}, channel_names={"8": "lab"})
    assert read(names).text == "ask @Bob or @6 of @ops in #lab :party:"


def test_a_mention_does_not_run_into_the_word_behind_it() -> None:
    names = replace(DM, content="<@5>word <#8>word <@5>, <@5>你好", user_names={"5": "Bob"}, channel_names={"8": "lab"})
    assert read(names).text == "@Bob word #lab word @Bob, @Bob你好"


def test_the_mark_of_a_spoiler_is_no_part_of_a_files_name() -> None:
    (file,) = read(replace(DM, files=(DiscordAttachment("1", "SPOILER_end.png", "image/png"),))).attachments
    assert file.name == "end.png"


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (replace(GUILD, author_id="42"), IgnoreReason.OWN),
        (replace(GUILD, is_bot=True), IgnoreReason.BOT),
        (replace(GUILD, webhook_id="3"), IgnoreReason.BOT),
        (replace(GUILD, type=7), IgnoreReason.SERVICE),
        (replace(GUILD, type=21), IgnoreReason.SERVICE),
        (replace(GUILD, content="  "), IgnoreReason.EMPTY),
        (replace(GUILD, id="x"), IgnoreReason.MALFORMED),
        (replace(GUILD, author_id=""), IgnoreReason.MALFORMED),
    ],
)
def test_what_is_not_answered_has_a_reason(message: DiscordMessage, reason: IgnoreReason) -> None:
    assert normalize(message, ME) == Ignored(reason)


def test_a_bare_mention_stays_readable() -> None:
    assert read(replace(GUILD, content="<@42>", user_names={"42": "Trivet"})).text == "@Trivet"


def test_a_command_after_the_mention_is_found() -> None:
    assert read(replace(GUILD, content="<@42> /title Great plans")).command == Command("title", "Great plans")


def test_files_carry_the_ids_to_fetch_them_again() -> None:
    files = (
        DiscordAttachment("1", "a.png", "image/png", 10),
        DiscordAttachment("2", "voice-message.ogg", "audio/ogg", is_voice=True),
        DiscordAttachment("3", "notes"),
    )
    image, voice, notes = read(replace(DM, content="", files=files)).attachments
    assert (image.kind, voice.kind, notes.kind) == (
        AttachmentKind.IMAGE, AttachmentKind.VOICE, AttachmentKind.DOCUMENT,
    )  # fmt: skip
    assert json.loads(image.reference) == {"channel_id": "55", "id": "1", "message_id": "7"}


def test_a_forwarded_message_is_read_from_its_snapshot() -> None:
    said = DiscordQuoted("55", "7", "what they said")
    incoming = read(replace(DM, content="", forwarded=(said,)))
    assert (incoming.text, incoming.quotes) == ("", (RawQuote(QuoteKind.FORWARD, "", "what they said"),))
    assert read(replace(DM, content="", forwarded=(replace(said, content="/stop"),))).command is None


def test_an_edit_keeps_the_id() -> None:
    edit = read(replace(DM, edited_at_ms=2_000))
    assert edit.is_edit
    assert edit.id == read(DM).id


def test_targets_are_canonical() -> None:
    assert make_target(DiscordTarget("5", "7")) == '{"channel_id":"5","reply_to_message_id":"7"}'
    for bad in ("", "[]", "{}", '{"channel_id":5}', '{"channel_id":"x"}'):
        with pytest.raises(BadEnvelope):
            parse_target(bad)


def test_what_a_message_answers_comes_along_with_its_files_and_names() -> None:
    """The file is found where the answered message is; who it mentions is somebody else's to know."""
    answered = DiscordQuoted(
        "55", "5", "ask <@9>", author_id="8", author_name="Ben",
        files=(DiscordAttachment("71", "plan.pdf", "application/pdf", 9),), user_names={"9": "Cy"},
    )  # fmt: skip
    (quote,) = read(replace(DM, answered=answered)).quotes
    assert (quote.kind, quote.author_name, quote.text) == (QuoteKind.REPLY, "Ben", "ask @Cy")
    assert json.loads(quote.attachments[0].reference) == {"channel_id": "55", "message_id": "5", "id": "71"}


def test_of_our_own_words_only_the_beginning_comes_along() -> None:
    """The conversation holds the rest."""
    ours = DiscordQuoted("55", "5", "x" * 2_000, author_id="42", author_name="Trivet")
    (quote,) = read(replace(DM, answered=ours)).quotes
    assert quote.text == "x" * OWN_QUOTE_CHARS_MAX


def test_a_reply_without_a_word_to_quote_quotes_nothing() -> None:
    assert read(replace(DM, answered=DiscordQuoted("55", "5", " ", author_id="8"))).quotes == ()
    empty = normalize(replace(DM, content="", answered=DiscordQuoted("55", "5", "x", author_id="8")), ME)
    assert empty == Ignored(IgnoreReason.EMPTY)
