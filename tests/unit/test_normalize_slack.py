"""How a Slack event is read. Each test says one rule of the Events API or of ours."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from channels.core.message import Addressing, Ignored, IgnoreReason, Incoming, Retraction
from channels.slack.normalize import (
    SlackIdentity,
    SlackTarget,
    make_target,
    normalize,
    normalize_press,
    normalize_slash,
    parse_target,
)
from gateway.contracts.commands import Command
from gateway.contracts.errors import BadEnvelope
from gateway.contracts.ids import SessionScope
from gateway.contracts.messages import AttachmentKind, ControlKind

ME = SlackIdentity(team_id="T1", user_id="UBOT", bot_id="BBOT")
TS = "1712345678.000100"
ROOT = "1712345000.000200"
NAMES = {"U1": "Ada", "U2": "Bob"}


def event(text: str = "hello", *, envelope: dict[str, Any] | None = None, **fields: Any) -> dict[str, Any]:
    """A message by U1 in the direct channel D1."""
    inner = {"type": "message", "channel": "D1", "channel_type": "im", "user": "U1", "ts": TS, "text": text, **fields}
    return {"type": "event_callback", "team_id": "T1", "event_id": "Ev1", "event": inner, **(envelope or {})}


def in_channel(text: str = "hello", **fields: Any) -> dict[str, Any]:
    return event(text, channel="C1", channel_type="channel", **fields)


def read(payload: dict[str, Any], *threads: tuple[str, str]) -> Incoming:
    incoming = normalize(payload, ME, takes_part=lambda channel, ts: (channel, ts) in threads, names=NAMES)
    assert isinstance(incoming, Incoming), incoming
    return incoming


def reason(payload: dict[str, Any]) -> IgnoreReason:
    ignored = normalize(payload, ME, takes_part=lambda _channel, _ts: False)
    assert isinstance(ignored, Ignored), ignored
    return ignored.reason


def test_a_direct_message_has_the_bare_user_key_and_no_thread() -> None:
    incoming = read(event())
    assert str(incoming.key(SessionScope.PLACE)) == "slack:U1"
    assert incoming.id == f"slack:T1:D1:{TS}"
    assert (incoming.addressing, incoming.author_name) == (Addressing.PRIVATE, "Ada")
    assert incoming.sent_at_ms == 1_712_345_678_000
    assert parse_target(incoming.address.target) == SlackTarget("D1", None, TS, "U1", "T1")


def test_a_thread_in_a_direct_message_is_answered_in_that_thread() -> None:
    incoming = read(event(thread_ts=ROOT))
    assert (incoming.place, incoming.is_private) == (("D1", ROOT), True)
    assert parse_target(incoming.address.target).thread_ts == ROOT


def test_threads_of_direct_messages_alone_have_names_to_give() -> None:
    places = (event(), in_channel("<@UBOT> hi"), in_channel("<@UBOT> hi", thread_ts=ROOT), event(thread_ts=ROOT))
    assert [read(said).is_nameable for said in places] == [False, False, False, True]


def test_a_mention_in_a_channel_is_answered_in_the_channel() -> None:
    incoming = read(in_channel("<@UBOT> what now?"))
    assert (incoming.addressing, incoming.text) == (Addressing.MENTION, "what now?")
    assert str(incoming.key(SessionScope.PLACE)) == "slack:U1/C1"
    assert parse_target(incoming.address.target).thread_ts is None


def test_a_mention_in_a_thread_is_answered_in_that_thread() -> None:
    incoming = read(in_channel("<@UBOT> what now?", thread_ts=ROOT))
    assert str(incoming.key(SessionScope.PLACE)) == f"slack:U1/C1/{ROOT}"
    assert parse_target(incoming.address.target).thread_ts == ROOT


def test_what_follows_in_the_thread_shares_the_session() -> None:
    first = read(in_channel("<@UBOT> what now?", thread_ts=ROOT))
    reply = read(in_channel("and then?", ts="1712345999.000001", thread_ts=ROOT), ("C1", ROOT))
    assert reply.addressing is Addressing.THREAD
    assert reply.key(SessionScope.PLACE) == first.key(SessionScope.PLACE)
    assert reply.address.lane == first.address.lane == f"C1/{ROOT}"


def test_the_bot_takes_part_in_the_threads_it_began() -> None:
    assert read(in_channel(thread_ts=ROOT, parent_user_id="UBOT")).addressing is Addressing.THREAD
    assert not read(in_channel(thread_ts=ROOT, parent_user_id="U2")).is_addressed


def test_the_two_events_of_one_mention_have_one_id() -> None:
    message = read(in_channel("<@UBOT> hi"))
    mention = read(
        event("<@UBOT> hi", type="app_mention", channel="C1", channel_type=None, envelope={"event_id": "Ev2"})
    )
    assert mention == message


def test_a_channel_message_without_a_mention_is_not_for_the_bot() -> None:
    assert not read(in_channel("hello all <!here>")).is_addressed


def test_a_labelled_mention_counts() -> None:
    assert read(in_channel("hey <@UBOT|trivet>: go")).text == "hey: go"


def test_text_is_made_readable_and_only_then_unescaped() -> None:
    text = (
        "ask <@U2> or <@U9|eve> in <#C2|lab> <!here> <!subteam^S1|@ops> "
        "<https://e.com/?a=1&amp;b=2|the docs> <https://e.com> <mailto:a@b.c|a@b.c> &lt;@U2&gt; 1 &amp;lt; 2"
    )
    assert read(event(text)).text == (
        "ask @Bob or @eve in #lab @here @ops the docs (https://e.com/?a=1&b=2) https://e.com a@b.c <@U2> 1 &lt; 2"
    )


def test_what_slack_took_for_an_address_stays_as_it_was_typed() -> None:
    text = "see a.<http://b.io|b.io>.c and <http://e.com|e.com>, <https://e.com|e.com>"
    assert read(event(text)).text == "see a.b.io.c and e.com, https://e.com"


def test_tags_that_somebody_typed_stay_tags() -> None:
    """A slash command's text comes unescaped. Without its tags a password would look like any word."""
    text = "<user>ann</user><password>k2Jd8sWq</password>"
    assert read(event(text)).text == text


def test_a_mention_does_not_run_into_the_word_behind_it() -> None:
    assert read(event("<@U2>word <#C2|lab>word <@U2>, <@U2>你好")).text == "@Bob word #lab word @Bob, @Bob你好"


@pytest.mark.parametrize("subtype", ["file_share", "thread_broadcast", "me_message"])
def test_these_subtypes_are_people_speaking(subtype: str) -> None:
    assert read(event(subtype=subtype)).text == "hello"


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"user": "UBOT"}, IgnoreReason.OWN),
        ({"bot_id": "BBOT"}, IgnoreReason.OWN),
        ({"bot_id": "B2"}, IgnoreReason.BOT),
        ({"bot_profile": {"id": "B2"}}, IgnoreReason.BOT),
        ({"user": "USLACKBOT"}, IgnoreReason.BOT),
        ({"subtype": "bot_message"}, IgnoreReason.BOT),
        ({"subtype": "channel_join"}, IgnoreReason.SERVICE),
        ({"subtype": "message_deleted"}, IgnoreReason.MALFORMED),
        ({"subtype": "assistant_app_thread", "user": "UBOT"}, IgnoreReason.OWN),
        ({"subtype": "message_changed"}, IgnoreReason.NOT_AN_EDIT),
        ({"type": "reaction_added"}, IgnoreReason.UNSUPPORTED),
        ({"text": "  "}, IgnoreReason.EMPTY),
        ({"ts": "1712345678"}, IgnoreReason.MALFORMED),
        ({"user": None}, IgnoreReason.MALFORMED),
    ],
)
def test_what_is_not_answered_has_a_reason(fields: dict[str, Any], expected: IgnoreReason) -> None:
    assert reason(event(**fields)) is expected


def test_a_persons_edit_is_told_from_an_unfurl() -> None:
    message = {"type": "message", "user": "U1", "ts": TS, "text": "new", "edited": {"ts": "1712345700.000000"}}
    changed = event(subtype="message_changed", user=None, ts="1712345700.000100", message=message,
                    previous_message={"text": "old"})  # fmt: skip
    incoming = read(changed)
    assert (incoming.id, incoming.text) == (read(event()).id, "new")
    assert incoming.edited_at_ms == 1_712_345_700_000
    changed["event"]["previous_message"] = {"text": "new"}
    assert reason(changed) is IgnoreReason.NOT_AN_EDIT


def test_what_somebody_else_changed_is_no_edit_of_the_author() -> None:
    """As an app does that shows a preview in a message."""
    edited = {"user": "U9", "ts": "1712345700.000000"}
    message = {"type": "message", "user": "U1", "ts": TS, "text": "new", "edited": edited}
    changed = event(subtype="message_changed", user=None, message=message, previous_message={"text": "old"})
    assert reason(changed) is IgnoreReason.NOT_AN_EDIT


def test_a_shared_channel_keeps_one_id_and_names_the_foreign_workspace() -> None:
    shared = {"is_ext_shared_channel": True}
    ours = read(in_channel("<@UBOT> hi") | shared)
    twice = read(in_channel("<@UBOT> hi") | shared | {"team_id": "T9"})
    assert ours.id == twice.id
    foreign = read(in_channel("<@UBOT> hi", user_team="T9") | shared)
    assert foreign.user_id == "T9.U1"


def test_files_come_by_reference() -> None:
    files = [
        {"id": "F1", "name": "a.png", "mimetype": "image/png", "size": 5, "url_private_download": "https://files/a"},
        {"id": "F2", "subtype": "slack_audio", "mimetype": "audio/webm", "name": "clip"},
        {"id": "F3", "mode": "tombstone"},
    ]
    image, voice = read(event("", subtype="file_share", files=files)).attachments
    assert (image.kind, voice.kind) == (AttachmentKind.IMAGE, AttachmentKind.VOICE)
    assert json.loads(image.reference) == {"id": "F1"}


@pytest.mark.parametrize("text", ["/status", "/trivet status", "/trivet /status"])
def test_commands_are_found_with_and_without_our_name(text: str) -> None:
    incoming = read(event(text))
    assert incoming.text == "/status"
    assert incoming.command is not None
    assert incoming.command.control is ControlKind.STATUS


def test_a_slash_command_is_a_message_of_its_own() -> None:
    payload = {
        "command": "/trivet",
        "text": "title A &amp; B for <@U2|bob>",
        "user_id": "U1",
        "channel_id": "C1",
        "trigger_id": "1.2.a",
    }
    incoming = normalize_slash(payload, ME)
    assert isinstance(incoming, Incoming)
    assert (incoming.text, incoming.command) == ("/title A & B for @bob", Command("title", "A & B for @bob"))
    assert (incoming.id, incoming.place) == ("slack:T1:C1:1.2.a", ("C1",))
    assert incoming.addressing is Addressing.COMMAND
    direct = normalize_slash({**payload, "channel_id": "D1", "text": ""}, ME)
    assert isinstance(direct, Incoming)
    assert (direct.place, direct.text, direct.is_private) == ((), "/help", True)
    assert normalize_slash({"command": "/trivet"}, ME) == Ignored(IgnoreReason.MALFORMED)


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ("", "/help"),
        ("new", "/new"),
        ("/new", "/new"),
        ("resume 2", "/resume 2"),
        ("stop at once", "/stop at once"),
        ("tell me a story", "tell me a story"),
        ("help me with this letter", "help me with this letter"),
        ("/unheard-of thing", "/unheard-of thing"),
    ],
)
def test_what_stands_behind_the_slash_is_a_command_or_something_to_say(words: str, text: str) -> None:
    """The same for a slash command and for a message in which somebody typed it."""
    given = {"command": "/trivet", "text": words, "user_id": "U1", "channel_id": "D1", "trigger_id": "1.2"}
    incoming = normalize_slash(given, ME)
    assert isinstance(incoming, Incoming)
    assert incoming.text == read(event(f"/trivet {words}".strip())).text == text


def test_a_slash_command_named_after_one_of_ours_is_that_one() -> None:
    given = {"command": "/resume", "text": "2", "user_id": "U1", "channel_id": "D1", "trigger_id": "1.2"}
    incoming = normalize_slash(given, ME)
    assert isinstance(incoming, Incoming)
    assert incoming.command == Command("resume", "2")
    other = normalize_slash(given | {"command": "/ask"}, ME)
    assert isinstance(other, Incoming)
    assert other.text == "2"


@pytest.mark.parametrize(
    ("channel", "words", "is_aside"),
    [("C1", "usage", True), ("C1", "plan a party", False), ("C1", "hello", False), ("D1", "usage", False)],
)
def test_the_answer_to_a_command_in_a_channel_is_for_one(channel: str, words: str, *, is_aside: bool) -> None:
    given = {"command": "/trivet", "text": words, "user_id": "U1", "channel_id": channel, "trigger_id": "1.2",
             "response_url": "https://hooks.slack.com/commands/1/2"}  # fmt: skip
    incoming = normalize_slash(given, ME)
    assert isinstance(incoming, Incoming)
    assert parse_target(incoming.address.target) == SlackTarget(
        channel, user_id="U1", team_id="T1", link="1.2", is_aside=is_aside
    )


def test_a_workspace_may_be_part_of_the_key() -> None:
    me = SlackIdentity("T1", "UBOT", enterprise_id="E1", channel="slack.T1")
    incoming = normalize(event(), me, takes_part=lambda _channel, _ts: False)
    assert isinstance(incoming, Incoming)
    assert str(incoming.key(SessionScope.PLACE)) == "slack.T1:U1"
    assert incoming.id == f"slack.T1:E1:D1:{TS}"


def test_targets_are_canonical() -> None:
    assert make_target(SlackTarget("C1", ROOT)) == f'{{"channel":"C1","thread_ts":"{ROOT}"}}'
    for bad in ("", "[]", "{}", '{"channel":5}'):
        with pytest.raises(BadEnvelope):
            parse_target(bad)


def deletion(channel: str = "D1", **previous: object) -> object:
    """What Slack sends when somebody takes a message back."""
    was = {"type": "message", "user": "U1", "text": "regretted", "ts": "1712345678.000100"} | previous
    kind = "im" if channel.startswith("D") else "channel"
    deleted = event(
        subtype="message_deleted", channel=channel, channel_type=kind, hidden=True, deleted_ts="1712345678.000100"
    )
    deleted["event"]["previous_message"] = was
    return normalize(deleted, ME, takes_part=lambda _channel, _ts: False)


def test_a_deletion_names_the_message_and_its_lane() -> None:
    retraction = deletion()
    assert isinstance(retraction, Retraction)
    assert retraction.id == read(event(ts="1712345678.000100")).id
    assert str(retraction.key(SessionScope.PLACE)) == "slack:U1"


def test_a_deletion_in_a_thread_is_one_of_that_thread() -> None:
    retraction = deletion("C1", thread_ts=ROOT)
    assert isinstance(retraction, Retraction)
    assert str(retraction.key(SessionScope.PLACE)) == f"slack:U1/C1/{ROOT}"


def test_a_deletion_of_our_own_words_is_none() -> None:
    assert deletion(user="UBOT", bot_id="BBOT") == Ignored(IgnoreReason.OWN)


def test_a_deletion_that_does_not_say_what_it_was_still_names_the_message() -> None:
    """As when a workspace keeps messages for so many days only."""
    gone = event(subtype="message_deleted", hidden=True, deleted_ts=TS, user=None)
    retraction = normalize(gone, ME, takes_part=lambda _channel, _ts: False)
    assert retraction == Retraction(read(event()).id, "slack", (), "")


def test_a_root_that_becomes_a_tombstone_was_deleted() -> None:
    """It stays where it is, because the replies hang on it, and it is Slack's own from then on."""
    stone = {"subtype": "tombstone", "user": "USLACKBOT", "text": "This message was deleted.", "ts": TS,
             "thread_ts": TS, "hidden": True}  # fmt: skip
    was = {"type": "message", "user": "U1", "text": "regretted", "ts": TS, "thread_ts": TS}
    changed = in_channel(subtype="message_changed", hidden=True, message=stone, previous_message=was)
    retraction = normalize(changed, ME, takes_part=lambda _channel, _ts: False)
    assert isinstance(retraction, Retraction)
    assert (retraction.id, retraction.user_id, retraction.place) == (read(in_channel()).id, "U1", ("C1",))


def test_our_name_written_into_an_old_message_is_an_edit() -> None:
    """The mention comes as an event of its own, which does not look like a change."""
    late = in_channel("<@UBOT> hi", type="app_mention", edited={"user": "U1", "ts": "1712345700.000000"})
    assert read(late).is_edit
    assert not read(in_channel("<@UBOT> hi", edited={"user": "U1", "ts": "1712345700.000000"})).is_edit


def test_events_for_another_workspace_are_not_ours() -> None:
    """One app may be installed twice; a channel that two workspaces share names either of them."""
    theirs = {"authorizations": [{"team_id": "T2", "enterprise_id": None, "user_id": "UOTHER", "is_bot": True}]}
    assert reason(event() | theirs) is IgnoreReason.OTHER_BOT
    assert read(in_channel() | theirs | {"is_ext_shared_channel": True}).text == "hello"
    assert read(event() | {"authorizations": [{"team_id": "T1", "user_id": "UBOT"}]}).text == "hello"


@pytest.mark.parametrize("shared", [{}, {"is_ext_shared_channel": True}])
def test_events_for_another_workspace_of_our_organisation_are_not_ours(shared: dict[str, Any]) -> None:
    """What is said to the other installation, in its direct messages or by its name, is no business of ours; in a
    channel that both are in, the event may name either."""
    install: dict[str, Any] = {"team_id": "T2", "enterprise_id": "E1", "user_id": "UOTHER"}
    theirs = {"authorizations": [install]} | shared
    me = replace(ME, enterprise_id="E1")

    def understood(payload: dict[str, Any]) -> object:
        return normalize(payload | theirs, me, takes_part=lambda _channel, _ts: False)

    assert understood(event()) == Ignored(IgnoreReason.OTHER_BOT)
    assert understood(in_channel("<@UOTHER> hi", type="app_mention")) == Ignored(IgnoreReason.OTHER_BOT)
    for called in (in_channel("<@UBOT> hi", type="app_mention"), in_channel("<@UBOT> hi"), in_channel("hi")):
        assert isinstance(understood(called), Incoming)
    install["is_enterprise_install"] = True
    assert isinstance(understood(event()), Incoming)


def test_words_that_come_in_blocks_alone_are_words() -> None:
    """Other programs that write in a person's name send no `text`."""
    blocks = [
        {"type": "rich_text", "elements": [
            {"type": "rich_text_section", "elements": [
                {"type": "user", "user_id": "UBOT"},
                {"type": "text", "text": " ask "},
                {"type": "user", "user_id": "U2"},
                {"type": "text", "text": " about <x> in "},
                {"type": "channel", "channel_id": "C2"},
                {"type": "emoji", "name": "wave", "skin_tone": 3},
                {"type": "link", "url": "https://e.com/?a=1&b=2", "text": "here"},
            ]},
            {"type": "rich_text_list", "style": "ordered", "indent": 1, "elements": [
                {"type": "rich_text_section", "elements": [{"type": "text", "text": "one"}]},
                {"type": "rich_text_section", "elements": [{"type": "text", "text": "two"}]},
            ]},
            {"type": "rich_text_preformatted", "elements": [{"type": "text", "text": "a < b"}]},
            {"type": "rich_text_quote", "elements": [{"type": "text", "text": "said"}]},
        ]},
        {"type": "section", "text": {"type": "mrkdwn", "text": "&amp; more"}},
        {"type": "divider"},
    ]  # fmt: skip
    incoming = read(in_channel("", blocks=blocks))
    assert incoming.addressing is Addressing.MENTION
    assert incoming.text == (
        "ask @Bob about <x> in #C2:wave::skin-tone-3:here (https://e.com/?a=1&b=2)\n"
        "    1. one\n    2. two\n```\na < b\n```\n> said\n& more"
    )


@pytest.mark.parametrize("blocks", [5, [5], [{"type": "rich_text", "elements": [{"elements": [5, {}]}, None]}]])
def test_blocks_of_any_form_are_read(blocks: object) -> None:
    assert reason(event("", blocks=blocks)) is IgnoreReason.EMPTY


def test_whoever_presses_is_whoever_speaks() -> None:
    """Somebody of another workspace has it in his key, whatever he does in a channel that is shared."""
    press = {
        "type": "block_actions",
        "user": {"id": "U1", "team_id": "T9"},
        "container": {"message_ts": TS, "channel_id": "C1"},
        "actions": [{"type": "button", "value": "/approve A1", "action_ts": TS}],
    }
    pressed = normalize_press(press, ME)
    spoken = read(in_channel("<@UBOT> hi", user_team="T9") | {"is_ext_shared_channel": True})
    assert isinstance(pressed, Incoming)
    assert pressed.user_id == spoken.user_id == "T9.U1"
    in_an_organisation = normalize_press(press, SlackIdentity("T1", "UBOT", enterprise_id="E1"))
    assert isinstance(in_an_organisation, Incoming)
    assert in_an_organisation.user_id == "U1"
