"""Updates of every kind that the platforms document, mutated: each is a message or an ignored one, none is an error."""

from __future__ import annotations

from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st
from trivet_matrix.normalize import MatrixIdentity
from trivet_matrix.normalize import normalize as normalize_matrix

from channels.core.message import Ignored, IgnoreReason, Incoming, Migrated, Retraction
from channels.slack.normalize import SlackIdentity
from channels.slack.normalize import normalize as normalize_slack
from channels.telegram.limits import ALLOWED_UPDATES
from channels.telegram.normalize import TelegramIdentity, normalize_press, normalize_stop
from channels.telegram.normalize import normalize as normalize_telegram
from gateway.contracts.ids import SessionKey, SessionScope
from tests.parts.shapes import like
from tests.parts.texts import patient

_ANN: Final = {"id": 9, "is_bot": False, "first_name": "Ann", "language_code": "de"}
_ROOM: Final = {"id": -1005, "type": "supergroup", "title": "kitchen", "is_forum": True}
_SAID: Final = {"message_id": 7, "date": 1_700_000_000, "chat": _ROOM, "from": _ANN}
_MEMBER: Final = {"user": _ANN, "status": "member"}

TELEGRAM: Final[dict[str, dict[str, Any]]] = {
    "message": _SAID | {"text": "hello @TrivetBot", "entities": [{"type": "mention", "offset": 6, "length": 10}]},
    "edited_message": _SAID | {"edit_date": 1_700_000_009, "text": "hello again"},
    "channel_post": _SAID | {"sender_chat": _ROOM, "text": "news"},
    "edited_channel_post": _SAID | {"sender_chat": _ROOM, "edit_date": 1_700_000_009, "caption": "news"},
    "business_connection": {"id": "b", "user": _ANN, "user_chat_id": 9, "date": 1, "is_enabled": True},
    "business_message": _SAID | {"business_connection_id": "b", "text": "hello"},
    "deleted_business_messages": {"business_connection_id": "b", "chat": _ROOM, "message_ids": [7]},
    "guest_message": _SAID | {"text": "hello"},
    "callback_query": {"id": "1", "from": _ANN, "message": _SAID, "chat_instance": "2", "data": "/approve K7QM2PXA"},
    "stopped_message_generation": {"chat": {"id": 9, "type": "private", "first_name": "Ann"}, "draft_id": 5},
    "inline_query": {"id": "1", "from": _ANN, "query": "x", "offset": ""},
    "chosen_inline_result": {"result_id": "1", "from": _ANN, "query": "x"},
    "my_chat_member": {"chat": _ROOM, "from": _ANN, "date": 1, "old_chat_member": _MEMBER, "new_chat_member": _MEMBER},
    "chat_member": {"chat": _ROOM, "from": _ANN, "date": 1, "old_chat_member": _MEMBER, "new_chat_member": _MEMBER},
    "chat_join_request": {"chat": _ROOM, "from": _ANN, "user_chat_id": 9, "date": 1},
    "message_reaction": {
        "chat": _ROOM,
        "message_id": 7,
        "user": _ANN,
        "date": 1,
        "old_reaction": [],
        "new_reaction": [],
    },
    "message_reaction_count": {"chat": _ROOM, "message_id": 7, "date": 1, "reactions": []},
    "chat_boost": {"chat": _ROOM, "boost": {"boost_id": "1", "add_date": 1, "source": {"source": "premium"}}},
    "poll": {"id": "1", "question": "?", "options": [{"text": "a", "voter_count": 0}], "is_closed": False},
    "poll_answer": {"poll_id": "1", "user": _ANN, "option_ids": [0]},
    "pre_checkout_query": {"id": "1", "from": _ANN, "currency": "EUR", "total_amount": 1, "invoice_payload": "x"},
    "shipping_query": {"id": "1", "from": _ANN, "invoice_payload": "x", "shipping_address": {"country_code": "DE"}},
    "something_of_next_year": {"from": _ANN, "chat": _ROOM, "text": "hello"},
}
SERVICE: Final[dict[str, Any]] = {
    "new_chat_members": [_ANN],
    "left_chat_member": _ANN,
    "migrate_to_chat_id": -1006,
    "migrate_from_chat_id": -5,
    "pinned_message": _SAID,
    "forum_topic_created": {"name": "recipes", "icon_color": 1},
    "successful_payment": {"currency": "EUR", "total_amount": 1},
    "video_chat_ended": {"duration": 1},
    "dice": {"emoji": "🎲", "value": 6},
    "location": {"latitude": 1.5, "longitude": 2.5},
    "contact": {"phone_number": "1", "first_name": "Ann"},
    "poll": {"id": "1", "question": "?", "options": [{"text": "a", "voter_count": 0}]},
    "checklist": {"title": "x", "tasks": [{"id": 1, "text": "a"}]},
    "rich_message": {"blocks": [{"type": "paragraph", "text": ["a", {"type": "bold", "text": "b"}]}]},
}

_EVENT: Final = {"channel": "C1", "user": "U1", "ts": "1712345678.000100", "event_ts": "1712345678.000100"}
SLACK: Final[dict[str, dict[str, Any]]] = {
    "message": _EVENT | {"channel_type": "channel", "text": "<@UBOT> hello", "client_msg_id": "a-b"},
    "app_mention": _EVENT | {"text": "<@UBOT|trivet> hello"},
    "reaction_added": {"user": "U1", "reaction": "eyes", "item": {"type": "message", "channel": "C1", "ts": "1.2"}},
    "reaction_removed": {"user": "U1", "reaction": "eyes", "item": {"type": "message", "channel": "C1", "ts": "1.2"}},
    "member_joined_channel": _EVENT | {"team": "T1", "inviter": "U2"},
    "member_left_channel": _EVENT | {"team": "T1"},
    "app_home_opened": _EVENT | {"tab": "home", "view": {}},
    "file_shared": _EVENT | {"file_id": "F1", "file": {"id": "F1"}},
    "channel_rename": {"channel": {"id": "C1", "name": "x", "created": 1}},
    "channel_archive": _EVENT,
    "team_join": {"user": {"id": "U1", "name": "ann"}},
    "tokens_revoked": {"tokens": {"bot": ["UBOT"]}},
    "app_uninstalled": {},
    "assistant_thread_started": {"assistant_thread": {"user_id": "U1", "channel_id": "D1", "thread_ts": "1.2"}},
    "assistant_thread_context_changed": {"assistant_thread": {"user_id": "U1", "context": {}}},
    "something_of_next_year": _EVENT | {"text": "hello"},
}
SUBTYPES: Final = (
    "", "file_share", "thread_broadcast", "me_message", "bot_message", "message_changed", "message_deleted",
    "message_replied", "channel_join", "channel_topic", "assistant_app_thread", "huddle_thread", "something_new",
)  # fmt: skip
MATRIX: Final[dict[str, Any]] = {
    "type": "m.room.message",
    "event_id": "$e",
    "sender": "@ann:home",
    "origin_server_ts": 1,
    "content": {
        "msgtype": "m.text",
        "body": "@trivet:home: hello",
        "m.mentions": {"user_ids": ["@trivet:home"]},
        "m.relates_to": {"rel_type": "m.thread", "event_id": "$root"},
    },
}


@patient
@given(st.data())
def test_telegram(data: st.DataObject) -> None:
    kind = data.draw(st.sampled_from(sorted(TELEGRAM)))
    update = data.draw(like({"update_id": 1, kind: TELEGRAM[kind]}))
    me = TelegramIdentity(42, "TrivetBot")
    _check(normalize_telegram(update, me))
    _check(normalize_press(update, me))
    _check(normalize_stop(update, me) or Ignored(IgnoreReason.UNSUPPORTED))


@pytest.mark.parametrize("kind", SERVICE)
def test_telegrams_service_messages(kind: str) -> None:
    @patient
    @given(like({"update_id": 1, "message": _SAID | {kind: SERVICE[kind]}}))
    def check(update: Any) -> None:
        _check(normalize_telegram(update, TelegramIdentity(42, "TrivetBot")))

    check()


@patient
@given(st.data())
def test_slack(data: st.DataObject) -> None:
    kind, subtype = data.draw(st.sampled_from(sorted(SLACK))), data.draw(st.sampled_from(SUBTYPES))
    event = {"type": kind} | ({"subtype": subtype} if subtype else {}) | SLACK[kind]
    body = data.draw(like({"type": "event_callback", "team_id": "T1", "event_id": "Ev1", "event": event}))
    _check(normalize_slack(body, SlackIdentity("T1", "UBOT", "BBOT"), takes_part=lambda _channel, _ts: False))


@patient
@given(like(MATRIX), st.booleans())
def test_matrix(event: Any, is_private: bool) -> None:
    _check(normalize_matrix(event, "!kitchen:home", MatrixIdentity("@trivet:home"), is_private=is_private))


@pytest.mark.parametrize("kind", sorted(TELEGRAM))
def test_telegram_is_asked_for_the_kinds_that_are_understood_and_for_no_others(kind: str) -> None:
    """Unmutated."""
    me, update = TelegramIdentity(42, "TrivetBot"), {"update_id": 1, kind: TELEGRAM[kind]}
    readings = (normalize_telegram(update, me), normalize_press(update, me), normalize_stop(update, me))
    assert any(isinstance(reading, Incoming) for reading in readings) == (kind in ALLOWED_UPDATES)


def _check(outcome: Incoming | Retraction | Ignored | Migrated) -> None:
    """What is a message has a key in every scope, and the key survives its text form."""
    if isinstance(outcome, Incoming):
        for scope in SessionScope:
            assert SessionKey.parse(str(outcome.key(scope))) == outcome.key(scope)
