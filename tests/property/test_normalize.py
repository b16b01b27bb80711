"""No JSON, however broken, stops intake: it is a message or an ignored one with a reason."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from channels.core.message import Ignored, Incoming, Migrated, Retraction, without
from channels.discord.normalize import (
    DiscordAttachment,
    DiscordIdentity,
    DiscordInteraction,
    DiscordMessage,
    DiscordQuoted,
)
from channels.discord.normalize import normalize as normalize_discord
from channels.discord.normalize import normalize_press as normalize_discord_press
from channels.slack.normalize import SlackIdentity, normalize_slash, response_url_of
from channels.slack.normalize import normalize as normalize_slack
from channels.slack.normalize import normalize_press as normalize_slack_press
from channels.telegram.normalize import TelegramIdentity
from channels.telegram.normalize import normalize as normalize_telegram
from channels.telegram.normalize import normalize_press as normalize_telegram_press
from gateway.contracts.commands import find_command
from gateway.contracts.ids import SessionKey, SessionScope
from tests.parts.shapes import ANY_JSON, like
from tests.parts.texts import patient

_TELEGRAM: dict[str, Any] = {
    "update_id": 1,
    "message": {
        "message_id": 7,
        "date": 1,
        "chat": {"id": -5, "type": "supergroup", "title": "x"},
        "from": {"id": 9, "is_bot": False, "first_name": "A"},
        "sender_chat": {"id": -9},
        "text": "/a@TrivetBot 👍 @TrivetBot",
        "entities": [
            {"type": "bot_command", "offset": 0, "length": 12},
            {"type": "mention", "offset": 16, "length": 10},
        ],
        "caption": "c",
        "caption_entities": [],
        "message_thread_id": 3,
        "is_topic_message": True,
        "reply_to_message": {
            "message_id": 3,
            "from": {"id": 42, "first_name": "T"},
            "text": "a",
            "photo": [{"file_id": "r"}],
        },
        "quote": {"text": "a", "position": 0, "is_manual": True},
        "external_reply": {"origin": {"type": "chat", "sender_chat": {"title": "x"}}, "voice": {"file_id": "e"}},
        "forward_origin": {"type": "user", "sender_user": {"id": 8, "first_name": "B"}, "date": 1},
        "voice": {"file_id": "v", "mime_type": "audio/ogg", "file_size": 3},
        "animation": {"file_id": "g"},
        "photo": [{"file_id": "f"}],
        "sticker": {"file_id": "s"},
        "document": {"file_id": "d", "mime_type": "image/png"},
        "business_connection_id": "b",
        "direct_messages_topic": {"topic_id": 5},
    },
}
_SLACK: dict[str, Any] = {
    "team_id": "T1",
    "is_ext_shared_channel": True,
    "event": {
        "type": "message",
        "subtype": "file_share",
        "channel": "C1",
        "channel_type": "channel",
        "user": "U1",
        "user_team": "T2",
        "user_profile": {"real_name": "A"},
        "ts": "1.000001",
        "thread_ts": "0.000001",
        "parent_user_id": "UBOT",
        "text": "<@UBOT> <https://e.com|x> &amp;",
        "files": [{"id": "F1", "mimetype": "image/png"}],
        "message": {"text": "a", "user": "U1", "ts": "1.1", "edited": {"ts": "2.1"}},
        "previous_message": {"text": "b"},
    },
}


def _check(outcome: Incoming | Retraction | Ignored | Migrated) -> None:
    """What is a message has a key in every scope, and the key survives its text form."""
    if isinstance(outcome, Incoming | Retraction):
        for scope in SessionScope:
            key = outcome.key(scope)
            assert key is None or SessionKey.parse(str(key)) == key
    if isinstance(outcome, Incoming):
        assert outcome.text.strip() or outcome.attachments or outcome.quotes


@patient
@given(st.one_of(ANY_JSON, like(_TELEGRAM)))
def test_telegram_updates_never_raise(update: Any) -> None:
    """From recorded shapes with parts torn out, and from anything at all."""
    _check(normalize_telegram(update, TelegramIdentity(42, "TrivetBot", bots=frozenset({"123", "7"}))))


@patient
@given(st.one_of(ANY_JSON, like(_SLACK)), st.sampled_from(["", "message_changed", "message_deleted"]))
def test_slack_events_never_raise(payload: Any, subtype: str) -> None:
    """From recorded shapes with parts torn out, and from anything at all."""
    if subtype and isinstance(payload, dict) and isinstance(payload.get("event"), dict):
        payload["event"]["subtype"] = subtype
    me = SlackIdentity("T1", "UBOT", "BBOT")
    _check(normalize_slack(payload, me, takes_part=lambda _channel, _ts: True))
    threading = replace(me, bots=frozenset({"B2", "U2"}), begins_threads=True)
    _check(normalize_slack(payload, threading, takes_part=lambda _channel, _ts: True))
    _check(normalize_slash(payload, me))


_QUOTED = st.builds(
    DiscordQuoted,
    channel_id=st.just("2"),
    message_id=st.just("1"),
    content=st.text(alphabet=st.sampled_from("<@!&#:>42 a\n"), max_size=30),
    author_id=st.sampled_from(("", "3", "42")),
    files=st.just(()) | st.just((DiscordAttachment("5", ""),)),
)


@patient
@given(
    st.builds(
        DiscordMessage,
        id=st.sampled_from(("1", "", "x")),
        channel_id=st.sampled_from(("2", "a/b")),
        author_id=st.sampled_from(("3", "42")),
        author_name=st.text(max_size=5),
        content=st.text(alphabet=st.sampled_from("<@!&#:>42 a\n"), max_size=30),
        created_at_ms=st.integers(),
        guild_id=st.none() | st.just("9"),
        parent_id=st.none() | st.just("8"),
        mentions=st.just(("42",)),
        is_bot=st.booleans(),
        begins_thread=st.booleans(),
        answered=st.none() | _QUOTED,
        forwarded=st.just(()) | st.tuples(_QUOTED),
    )
)
def test_discord_messages_never_raise(message: DiscordMessage) -> None:
    """Whatever stands in the fields."""
    _check(normalize_discord(message, DiscordIdentity("42", bots=frozenset({"3"}))))


@patient
@given(st.text(), st.integers(0, 20), st.integers(0, 20))
def test_cutting_a_mention_out_keeps_the_rest(text: str, start: int, length: int) -> None:
    """Only the mention, white space and the punctuation of a greeting go."""
    end = start + length
    kept = without(text, [(start, end)])
    rest = "".join((text[:start] + text[end:]).split())
    assert rest.endswith("".join(kept.split()))
    assert len(rest) - len("".join(kept.split())) <= 1


@patient
@given(st.from_regex(r"/[a-z]{1,8}( .*)?", fullmatch=True))
def test_a_command_is_read_back(text: str) -> None:
    """Name and arguments, whatever the arguments are."""
    command = find_command(text)
    assert command is not None
    assert text.startswith(f"/{command.name}")


_CALLBACK: dict[str, Any] = {
    "update_id": 1,
    "callback_query": {
        "id": "77",
        "from": {"id": 9, "is_bot": False, "first_name": "A", "last_name": "B"},
        "message": {"message_id": 7, "date": 0, "chat": {"id": -5, "type": "supergroup"}},
        "chat_instance": "1",
        "data": "/approve K7QM2PXA",
    },
}
_BLOCK_ACTIONS: dict[str, Any] = {
    "type": "block_actions",
    "user": {"id": "U1", "username": "a", "name": "a"},
    "container": {"type": "message", "message_ts": "1.2", "channel_id": "C1"},
    "response_url": "https://hooks.slack.com/x",
    "actions": [{"type": "button", "action_id": "choice-1", "value": "/deny K7QM2PXA", "action_ts": "1.3"}],
}


@patient
@given(st.one_of(ANY_JSON, like(_CALLBACK)))
def test_telegram_presses_never_raise(update: Any) -> None:
    """From recorded shapes with parts torn out, and from anything at all."""
    _check_press(normalize_telegram_press(update, TelegramIdentity(42, "TrivetBot")))


@patient
@given(like(_BLOCK_ACTIONS))
def test_slack_presses_never_raise(body: Any) -> None:
    """From recorded shapes with parts torn out."""
    _check_press(normalize_slack_press(body, SlackIdentity("T1", "U0")))
    assert isinstance(response_url_of(body), str)


@patient
@given(st.text(max_size=30), st.text(max_size=30), st.text(max_size=30), st.text(max_size=120))
def test_discord_presses_never_raise(press_id: str, channel_id: str, user_id: str, custom_id: str) -> None:
    """Whatever stands in the fields."""
    press = DiscordInteraction(press_id, channel_id, user_id, "Ann", custom_id)
    _check_press(normalize_discord_press(press, DiscordIdentity("42")))


def test_who_pressed_is_the_platforms_word_and_not_the_buttons() -> None:
    telegram = normalize_telegram_press(_CALLBACK, TelegramIdentity(42, "TrivetBot"))
    slack = normalize_slack_press(_BLOCK_ACTIONS, SlackIdentity("T1", "U0"))
    discord = normalize_discord_press(DiscordInteraction("5", "6", "7", "Ann", "/approve X"), DiscordIdentity("42"))
    found = [press for press in (telegram, slack, discord) if isinstance(press, Incoming)]
    assert [press.user_id for press in found] == ["9", "U1", "7"]
    assert [press.command.name for press in found if press.command] == ["approve", "deny", "approve"]
    assert len({press.id for press in found}) == 3


def _check_press(press: Incoming | Ignored) -> None:
    if isinstance(press, Incoming):
        assert str(press.key(SessionScope.SHARED)) == f"{press.channel}:{press.user_id}"
