"""What Slack sends besides messages, with parts torn out: nothing of it raises, and what is read is what was there."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from channels.core.message import Ignored, IgnoreReason, Incoming
from channels.slack.content import forwarded, people_in, said_before
from channels.slack.normalize import (
    SlackIdentity,
    SlackTarget,
    is_pick,
    is_question,
    make_target,
    normalize,
    normalize_pick,
    normalize_question,
    parse_target,
)
from channels.slack.render import continuation, settled, streamable
from gateway.contracts.ids import SessionKey, SessionScope
from gateway.contracts.messages import QuoteKind
from tests.parts.shapes import like
from tests.parts.texts import patient

ME = SlackIdentity("T1", "UBOT", "BBOT")
_USER = {"id": "U1", "username": "ann", "name": "ann", "team_id": "T1"}
_CONTAINER = {"type": "message", "message_ts": "12.000100", "channel_id": "C1", "thread_ts": "11.000100"}
_PICK: dict[str, Any] = {
    "type": "block_actions",
    "user": _USER,
    "team": {"id": "T1", "domain": "w"},
    "container": _CONTAINER,
    "trigger_id": "1.2.abc",
    "response_url": "https://hooks.slack.com/actions/T1/1/x",
    "actions": [
        {
            "type": "external_select",
            "action_id": "pick-resume",
            "block_id": "b1",
            "selected_option": {"text": {"type": "plain_text", "text": "2. Lunch"}, "value": "2"},
            "action_ts": "13.000100",
        }
    ],
}
_QUESTION: dict[str, Any] = {
    "type": "block_suggestion",
    "user": _USER,
    "container": _CONTAINER,
    "action_id": "pick-resume",
    "block_id": "b1",
    "value": "lun",
}
_SHARED: dict[str, Any] = {
    "type": "message",
    "channel": "D1",
    "channel_type": "im",
    "user": "U1",
    "ts": "12.000100",
    "text": "",
    "attachments": [
        {
            "id": 1,
            "ts": "10.000100",
            "author_id": "U2",
            "author_name": "Ben",
            "author_subname": "Ben",
            "channel_id": "C1",
            "is_share": True,
            "is_msg_unfurl": True,
            "text": "the <!here> oven &amp; <@U1>",
            "fallback": "[10.000100] Ben: the oven",
            "from_url": "https://w.slack.com/archives/C1/p10000100",
            "files": [{"id": "F1", "mimetype": "image/png", "name": "oven.png"}],
        },
        {"id": 2, "title": "A page", "from_url": "https://e.com", "text": "preview", "service_name": "E"},
    ],
}


@patient
@given(like(_PICK))
def test_picks_never_raise(body: Any) -> None:
    assert is_pick(body) in (True, False)
    _check(normalize_pick(body, ME))


@patient
@given(like(_QUESTION))
def test_questions_for_a_list_never_raise(body: Any) -> None:
    assert is_question(body) in (True, False)
    _check(normalize_question(body, ME))


@patient
@given(like(_SHARED), st.lists(like(_SHARED), max_size=5))
def test_what_comes_along_never_raises(event: Any, thread: list[Any]) -> None:
    assert all(quote.kind is QuoteKind.FORWARD for quote in forwarded(event, {}))
    assert all(isinstance(user_id, str) for user_id in people_in(event))
    assert len(said_before(thread, "13.0", {}, quotes_max=3)) <= 3
    _check(normalize({"event": event}, ME, takes_part=lambda _channel, _thread: True))


def test_a_shared_message_is_a_quote_and_a_preview_is_none() -> None:
    (quote,) = forwarded(_SHARED, {"U1": "Ann"})
    assert (quote.author_name, quote.text) == ("Ben", "the @here oven & @Ann")
    assert [file.name for file in quote.attachments] == ["oven.png"]
    assert list(people_in(_SHARED)) == ["U1", "U2"]


def test_a_pick_is_the_command_of_the_one_who_picked() -> None:
    pick = normalize_pick(_PICK, ME)
    assert isinstance(pick, Incoming)
    assert (pick.text, pick.user_id, pick.place) == ("/resume 2", "U1", ("C1", "11.000100"))
    assert parse_target(pick.address.target) == SlackTarget(
        "C1", "11.000100", user_id="U1", team_id="T1", link="1.2.abc", is_aside=True
    )


def test_a_list_that_is_none_of_ours_is_nothing_to_answer() -> None:
    """The name of a list comes back from Slack, where anybody may have made it up."""
    assert normalize_question(_QUESTION | {"action_id": "pick-forget"}, ME) == Ignored(IgnoreReason.UNSUPPORTED)


def test_a_thread_is_what_was_said_before_and_by_whom() -> None:
    thread: list[dict[str, Any]] = [
        {"ts": "10.000001", "user": "U2", "text": "root"},
        {"ts": "10.000002", "user": "U3", "text": "<@U3> joined", "subtype": "channel_join"},
        {"ts": "10.000003", "bot_id": "B1", "username": "Builds", "subtype": "bot_message", "text": "",
         "attachments": [{"fallback": "build 7 failed"}]},
        {"ts": "10.000004", "user": "UBOT", "bot_profile": {"name": "Trivet"}, "text": "I see"},
        {"ts": "10.000005", "user": "U1", "text": "the question"},
    ]  # fmt: skip
    quotes = said_before(thread, "10.000005", {"U2": "Ben"}, quotes_max=40)
    assert [(quote.author_name, quote.text) for quote in quotes] == [
        ("Ben", "root"), ("Builds", "build 7 failed"), ("Trivet", "I see"),
    ]  # fmt: skip
    assert [quote.text for quote in said_before(thread, "10.000005", {}, quotes_max=2)] == ["root", "I see"]


@patient
@given(st.text(alphabet="ab <!@#>&*_`\n[]()", max_size=40), st.integers(0, 40))
def test_a_text_that_goes_on_is_appended_to(text: str, cut: int) -> None:
    """However it is cut: what is shown is always its beginning, and nobody is called."""
    shown = settled(streamable(text[:cut]))
    more = continuation(shown, streamable(text))
    assert more is not None
    whole = shown + more
    assert streamable(text).startswith(whole)
    assert not any(sign in whole for sign in ("<!", "<@", "<#"))


@patient
@given(
    st.builds(
        SlackTarget,
        st.sampled_from(("C1", "D1")),
        st.none() | st.just("1.2"),
        st.none() | st.just("1.3"),
        st.none() | st.just("U1"),
        st.none() | st.just("T1"),
        st.none() | st.just("1.2.a"),
        st.booleans(),
        st.none() | st.just("resume"),
    )
)
def test_targets_survive_their_text_form(target: SlackTarget) -> None:
    assert parse_target(make_target(target)) == target


def _check(outcome: object) -> None:
    if isinstance(outcome, Incoming):
        for scope in SessionScope:
            assert SessionKey.parse(str(outcome.key(scope))) == outcome.key(scope)
