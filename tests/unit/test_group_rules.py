"""Who is addressed, who speaks and where, in groups and threads: the rules of the three platforms in one place.

| rule                                              | Telegram            | Discord             | Slack               |
|---------------------------------------------------|---------------------|---------------------|---------------------|
| mention by name, by id, in a caption              | normalize_telegram  | normalize_discord   | normalize_slack     |
| a longer name, code, `@everyone` is no mention    | normalize_telegram  | normalize_discord   | here                |
| a mention of our managed role                     | -                   | normalize_discord   | -                   |
| a reply to us, with or without a ping             | normalize_telegram  | normalize_discord   | -                   |
| a command, and one for another bot                | normalize_telegram  | discord_commands    | normalize_slack     |
| topic, thread, post; what only looks like one     | normalize_telegram  | here, threads       | normalize_slack     |
| stand-ins: anonymous admins, linked channels      | normalize_telegram  | -                   | -                   |
| posts of a channel and their edits                | here                | here (crosspost)    | -                   |
| other bots, webhooks, ourselves; who is named     | here, company       | here, company       | here, company       |
| messages of the system                            | normalize_telegram  | here                | here                |
| private channels, group chats                     | -                   | -                   | here                |
| a chat that gets another id                       | normalize_telegram  | -                   | -                   |
| a mention begins a thread                         | -                   | here, threads       | here, threads       |
| what was said before is read back                 | not to be had       | threads             | slack_context       |
| edits and deletions, previews that are none       | changed_messages    | changed_messages    | changed_messages    |

`threads` are `tests/e2e/test_discord_threads.py` and `test_slack_threads.py`, `company` is
`tests/contract/test_bot_loop_guard.py`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from channels.core.message import Addressing, Ignored, IgnoreReason, Incoming, Retraction
from channels.discord import normalize as discord
from channels.discord.normalize import DiscordTarget
from channels.discord.normalize import parse_target as discord_target
from channels.slack import normalize as slack
from channels.slack.normalize import parse_target as slack_target
from channels.telegram import normalize as telegram

TELEGRAM = telegram.TelegramIdentity(42, "TrivetBot", bots=frozenset({"77"}))
DISCORD = discord.DiscordIdentity("42", bots=frozenset({"77", "88"}))
SLACK = slack.SlackIdentity("T1", "UBOT", "BBOT", bots=frozenset({"BFRIEND"}))
TS = "1712345678.000100"


def telegram_post(kind: str = "channel_post", **fields: Any) -> Incoming | Ignored:
    chat = {"id": -1007, "type": "channel", "title": "News"}
    post = {"message_id": 7, "date": 1_700_000_000, "chat": chat, "sender_chat": chat, **fields}
    understood = telegram.normalize({"update_id": 1, kind: post}, TELEGRAM)
    assert isinstance(understood, Incoming | Ignored)
    return understood


def discord_message(**fields: Any) -> Incoming | Ignored:
    message = discord.DiscordMessage(
        "7", channel_id="5", author_id="6", author_name="Ada", content="<@42> hello", created_at_ms=1, guild_id="9"
    )
    return discord.normalize(replace(message, **fields), DISCORD)


def slack_event(me: slack.SlackIdentity = SLACK, *joined: str, **fields: Any) -> Incoming | Ignored | Retraction:
    event = {"type": "message", "channel": "C1", "channel_type": "channel", "user": "U1", "ts": TS, "text": "hello"}
    body = {"type": "event_callback", "team_id": "T1", "event": {**event, **fields}}
    return slack.normalize(body, me, takes_part=lambda _, thread_ts: thread_ts in joined)


def test_a_post_of_a_channel_is_for_us_when_it_names_us_and_so_is_its_edit() -> None:
    entities = [{"type": "mention", "offset": 0, "length": 10}]
    said = telegram_post(text="@TrivetBot hello", entities=entities)
    changed = telegram_post("edited_channel_post", text="@TrivetBot hi", entities=entities, edit_date=1_700_000_009)
    assert isinstance(said, Incoming)
    assert isinstance(changed, Incoming)
    assert (said.user_id, said.author_name, said.addressing) == ("-1007", "News", Addressing.MENTION)
    assert (changed.id, changed.is_edit) == (said.id, True)
    plain = telegram_post(text="hello, everybody")
    assert isinstance(plain, Incoming)
    assert not plain.is_addressed


@pytest.mark.parametrize("kind", ["guest_message", "managed_bot", "message_reaction", "chat_member", "poll_answer"])
def test_updates_that_are_nobodys_words_to_us_are_none(kind: str) -> None:
    assert telegram_post(kind, text="hello") == Ignored(IgnoreReason.UNSUPPORTED)


@pytest.mark.parametrize(("bot_id", "is_heard"), [(77, True), (78, False)])
def test_a_named_bot_is_heard_on_telegram(bot_id: int, *, is_heard: bool) -> None:
    sender = {"id": bot_id, "is_bot": True, "first_name": "Rival"}
    chat = {"id": -100, "type": "supergroup", "title": "Hall"}
    message = {"message_id": 7, "date": 1, "chat": chat, "from": sender, "text": "hello"}
    understood = telegram.normalize({"update_id": 1, "message": message}, TELEGRAM)
    assert isinstance(understood, Incoming) == is_heard
    assert not isinstance(understood, Incoming) or understood.is_bot


def test_a_named_bot_or_webhook_is_heard_on_discord() -> None:
    """An announcement that another server follows comes as a webhook, too."""
    assert discord_message(author_id="78", is_bot=True) == Ignored(IgnoreReason.BOT)
    assert discord_message(author_id="89", webhook_id="89") == Ignored(IgnoreReason.BOT)
    heard = [discord_message(author_id="77", is_bot=True), discord_message(author_id="88", webhook_id="88")]
    assert [isinstance(each, Incoming) and each.is_bot for each in heard] == [True, True]
    assert discord_message(author_id="42", is_bot=True) == Ignored(IgnoreReason.OWN)


@pytest.mark.parametrize("number", [1, 6, 7, 8, 12, 18, 20, 21, 22, 23, 24, 27, 31, 46])
def test_messages_of_the_system_of_discord_are_nobodys_words(number: int) -> None:
    assert discord_message(type=number) == Ignored(IgnoreReason.SERVICE)


def test_a_message_that_begins_a_thread_is_said_in_it() -> None:
    """Where the answer goes is known before the thread is there; the message itself stays in the channel."""
    begun = discord_message(begins_thread=True)
    assert isinstance(begun, Incoming)
    assert (begun.id, begun.place) == ("discord:42:5:7", ("5", "7"))
    assert discord_target(begun.address.target) == DiscordTarget("7", begun_in="5")
    assert begun.address.lane == "7"


def test_a_named_bot_is_heard_on_slack_by_either_id() -> None:
    """A webhook of old has no user at all."""
    bare = slack_event(subtype="bot_message", bot_id="BFRIEND", user=None, username="Build")
    assert isinstance(bare, Incoming)
    assert (bare.user_id, bare.author_name, bare.is_bot) == ("BFRIEND", "Build", True)
    as_user = slack_event(bot_id="BFRIEND", bot_profile={"name": "Friend"})
    assert isinstance(as_user, Incoming)
    assert (as_user.user_id, as_user.author_name) == ("U1", "Friend")
    assert slack_event(bot_id="BOTHER") == Ignored(IgnoreReason.BOT)
    assert slack_event(user="UBOT", bot_id="BBOT") == Ignored(IgnoreReason.OWN)


@pytest.mark.parametrize("kind", ["channel", "group", "mpim"])
def test_among_others_slack_needs_a_mention(kind: str) -> None:
    """In public and in private channels, and in direct messages of several; `<!channel>` means everyone else."""
    for text, addressing in [("<@UBOT> hi", Addressing.MENTION), ("<!channel> hi", Addressing.NOT_ADDRESSED)]:
        said = slack_event(channel_type=kind, text=text)
        assert isinstance(said, Incoming)
        assert (said.addressing, said.is_private) == (addressing, False)


@pytest.mark.parametrize("kind", ["channel_join", "channel_topic", "channel_convert_to_private", "reminder_add"])
def test_messages_of_the_system_of_slack_are_nobodys_words(kind: str) -> None:
    assert slack_event(subtype=kind) == Ignored(IgnoreReason.SERVICE)
    assert slack_event(type="channel_id_changed") == Ignored(IgnoreReason.UNSUPPORTED)


def test_a_mention_on_slack_is_answered_in_its_thread_where_that_is_wanted() -> None:
    """An edit and a deletion of it are those of a message in that thread, whatever they say."""
    me = replace(SLACK, begins_threads=True)
    said = slack_event(me, text="<@UBOT> hi")
    assert isinstance(said, Incoming)
    assert (said.place, slack_target(said.address.target).thread_ts) == (("C1", TS), TS)
    plain, in_place = slack_event(me), slack_event(text="<@UBOT> hi")
    assert isinstance(plain, Incoming)
    assert isinstance(in_place, Incoming)
    assert (plain.place, in_place.place) == (("C1",), ("C1",))
    before = {"user": "U1", "ts": TS, "text": "<@UBOT> hi"}
    after = {**before, "text": "hi", "edited": {"user": "U1", "ts": "1712345679.000000"}}
    edited = slack_event(me, TS, subtype="message_changed", message=after, previous_message=before)
    deleted = slack_event(me, TS, subtype="message_deleted", deleted_ts=TS, previous_message=before)
    assert isinstance(edited, Incoming)
    assert isinstance(deleted, Retraction)
    assert (edited.place, deleted.place) == (("C1", TS), ("C1", TS))
