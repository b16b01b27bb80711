"""How Slack's events come in: by HTTP, proven and repeated; over sockets, of which one is always there."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import AsyncIterator, Sequence
from typing import Any
from urllib.parse import urlencode

import httpx
import pytest

from channels.core import attempt
from channels.emulators.slack import SlackEmulator
from channels.emulators.slack.delivery import EventDelivery, signature
from channels.slack import limits
from channels.slack.adapter import SlackAdapter
from gateway.bus.bus import RedisBus
from tests.parts.answering import EchoAgent, until_delivered
from tests.parts.called import CalledTown, called_slack_town
from tests.parts.doors import OpenDoor
from tests.parts.emulated_slack import SIGNING_SECRET
from tests.parts.towns import Town, connected, slack_town
from tests.parts.waiting import until

FORM = "application/x-www-form-urlencoded"


@pytest.fixture
async def town() -> AsyncIterator[CalledTown]:
    async with called_slack_town() as built:
        yield built


@contextlib.asynccontextmanager
async def listening(town: Town, bus: RedisBus, door: OpenDoor) -> AsyncIterator[SlackAdapter]:
    adapter = town.adapter(bus)
    assert isinstance(adapter, SlackAdapter)
    async with connected(adapter, door):
        yield adapter


async def post(
    town: CalledTown, body: str, *, kind: str = "application/json", timestamp: str | None = None, secret: str = ""
) -> httpx.Response:
    """As Slack calls."""
    at = str(int(time.time())) if timestamp is None else timestamp
    headers = {
        "Content-Type": kind,
        "X-Slack-Request-Timestamp": at,
        "X-Slack-Signature": signature(secret or SIGNING_SECRET, at, body),
    }
    async with httpx.AsyncClient(trust_env=False) as http:
        return await http.post(town.url, content=body.encode(), headers=headers)


def said(text: str, ts: str = "1790000000.000100", user: str = "U1") -> str:
    event = {"type": "message", "channel": "D1", "channel_type": "im", "user": user, "text": text, "ts": ts}
    envelope = {"type": "event_callback", "team_id": "T0EMULATOR", "event_id": f"Ev{ts}", "event": event}
    return json.dumps(envelope)


async def test_the_challenge_of_the_set_up_page_is_given_back(town: CalledTown) -> None:
    """Also while nothing is connected: the page is filled in before."""
    answer = await post(town, json.dumps({"type": "url_verification", "challenge": "3eZbrw1aB"}))
    assert answer.status_code == 503  # no process is there at all
    assert isinstance(town.stage, SlackEmulator)


async def test_the_challenge_is_given_back_by_a_process_that_is_there(town: CalledTown, bus: RedisBus) -> None:
    async with listening(town, bus, OpenDoor()):
        answer = await post(town, json.dumps({"type": "url_verification", "challenge": "3eZbrw1aB"}))
    assert (answer.status_code, answer.text) == (200, "3eZbrw1aB")


@pytest.mark.parametrize(
    ("timestamp", "secret"),
    [("yesterday", ""), ("", ""), ("1531420618", ""), (None, "another")],
    ids=["no number", "nothing", "a replay", "another secret"],
)
async def test_what_slack_did_not_sign_just_now_is_refused(
    town: CalledTown, bus: RedisBus, timestamp: str | None, secret: str
) -> None:
    door = OpenDoor()
    async with listening(town, bus, door):
        assert (await post(town, said("hello"), timestamp=timestamp, secret=secret)).status_code == 401
    assert door.heard == []


ILLEGIBLE = (
    *("{", "[" * 100_000, "", "[]", "null", "1", '"text"'),
    *('{"type": "event_callback", "event": null}', '{"type": "event_callback", "event": "text"}'),
    '{"type": "event_callback", "authorizations": ["text"], "event": {"type": "message"}}',
)
"""Signed, and no request all the same."""


async def test_a_signed_body_that_says_nothing_is_a_bad_request(town: CalledTown, bus: RedisBus) -> None:
    async with listening(town, bus, OpenDoor()):
        assert {body: (await post(town, body)).status_code for body in ILLEGIBLE} == dict.fromkeys(ILLEGIBLE, 400)
        for packed in ("", "payload=", "payload=%5B%5D", "payload=null", "payload=%7B"):
            assert (await post(town, packed, kind=FORM)).status_code == 400, packed


OUTLANDISH: Sequence[dict[str, Any]] = (
    {"type": "something_new"},
    {"type": "view_closed", "view": {"callback_id": "x"}},
    {"type": "block_actions", "actions": []},
    {"type": "block_actions", "actions": "text", "user": "text", "team": None},
    {"type": "event_callback", "event": {}},
    {"type": "event_callback", "event": {"type": {"a": 1}, "subtype": []}},
    {"type": "event_callback", "event": {"type": "message", "channel": {"id": "C1"}, "ts": 5, "message": "text"}},
    {"type": "event_callback", "event": {"type": "team_join", "user": {"id": "U5"}}},
    {"type": "app_rate_limited", "minute_rate_limited": 1518467820},
)


async def test_what_nobody_has_heard_of_is_acknowledged(town: CalledTown, bus: RedisBus) -> None:
    """Slack would bring it three times more, and after too many failures nothing any more."""
    async with listening(town, bus, OpenDoor()):
        for body in OUTLANDISH:
            assert (await post(town, json.dumps(body))).status_code == 200, body
            if "event" not in body:
                form = urlencode({"payload": json.dumps(body)})
                assert (await post(town, form, kind=FORM)).status_code == 200, body


async def test_headers_that_nobody_expects_are_no_fault_of_ours(town: CalledTown, bus: RedisBus) -> None:
    """A signature may hold any bytes; a body may claim to be packed, and nobody unpacks it."""
    at = str(int(time.time()))
    genuine = {"X-Slack-Request-Timestamp": at, "X-Slack-Signature": signature(SIGNING_SECRET, at, "{}")}
    async with listening(town, bus, OpenDoor()), httpx.AsyncClient(trust_env=False) as http:
        for status, strange in (
            (401, {"X-Slack-Signature": "v0=\xe9\xff".encode("latin-1")}),
            (401, {"X-Slack-Request-Timestamp": "\xb2".encode("latin-1")}),
            (200, {"Content-Encoding": "gzip"}),
            (200, {"Content-Type": "a/b/c;;;", "X-Slack-Retry-Num": "many"}),
        ):
            answer = await http.post(town.url, content=b"{}", headers=[*genuine.items(), *strange.items()])
            assert answer.status_code == status, strange


async def test_an_envelope_that_nobody_can_read_is_acknowledged(bus: RedisBus) -> None:
    async with slack_town() as town, EchoAgent(bus).at_work(), town.line(bus):
        stage, dm = town.stage, town.dm(town.ann)
        assert isinstance(stage, SlackEmulator)
        stage.faults.poison = 1
        await stage.say(town.ann.id, dm.id, "hello")
        assert await town.until_answers(1, dm) == ["echo: hello"]
        assert "\0" in [each["payload"]["event"] for each in stage.sockets.sent]
        await until(lambda: {each["envelope_id"] for each in stage.sockets.sent} == {*stage.sockets.acknowledged})


@pytest.mark.parametrize("payload", [None, [], [{"type": "event_callback"}], 7])
async def test_an_envelope_of_which_the_sdk_makes_no_request_is_acknowledged(bus: RedisBus, payload: Any) -> None:
    """Slack would bring it three times more, and switch off an app that leaves too many."""
    async with slack_town() as town, town.line(bus):
        stage = town.stage
        assert isinstance(stage, SlackEmulator)
        assert await stage.sockets.attempt(EventDelivery("events_api", payload), number=0, reason="") is None


async def test_a_post_that_slack_does_not_name_is_looked_up_and_not_repeated(
    bus: RedisBus, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever is asked for it afterwards knows its true name."""
    monkeypatch.setattr(limits, "LOOKUP_SETTLES_S", 0.05)
    monkeypatch.setattr(attempt, "RETRY_DELAYS_S", (0.05,) * len(attempt.RETRY_DELAYS_S))
    async with slack_town() as town, EchoAgent(bus).at_work() as agent, town.line(bus):
        stage, dm = town.stage, town.dm(town.ann)
        assert isinstance(stage, SlackEmulator)
        stage.switches.forgets_ts = 1
        await stage.say(town.ann.id, dm.id, "hello")
        assert await town.until_answers(1, dm) == ["echo: hello"]
        await until_delivered(bus, "slack")
        (said,) = town.answers(dm)
        reply = agent.reply_to(agent.heard[0])
        assert (await bus.deliveries.delivered(reply.key, reply.id)).platform_ids == (said.id,)


async def test_who_presses_is_called_by_the_name_that_people_see(town: CalledTown, bus: RedisBus) -> None:
    door, stage = OpenDoor(word=""), town.stage
    assert isinstance(stage, SlackEmulator)
    ada = stage.add_person("Ada Lovelace")
    press = {
        "type": "block_actions",
        "user": {"id": ada.id, "username": "ada", "name": "ada"},
        "container": {"message_ts": "1790000000.000200", "channel_id": "D1"},
        "actions": [{"type": "button", "value": "/approve A1", "action_id": "choice-1", "action_ts": "1790000001.1"}],
        "team": {"id": "T0EMULATOR"},
    }
    async with listening(town, bus, door):
        assert (await post(town, urlencode({"payload": json.dumps(press)}), kind=FORM)).status_code == 200
    assert [each.author_name for each in door.pressed] == ["Ada Lovelace"]


async def test_an_event_is_acknowledged_only_when_it_is_taken(town: CalledTown, bus: RedisBus) -> None:
    door = OpenDoor(is_shut=True)
    async with listening(town, bus, door):
        assert (await post(town, said("hello"))).status_code == 503
        door.is_shut = False
        await until_answered(town, said("hello"))
    assert {each.text for each in door.heard} == {"hello"}


async def until_answered(town: CalledTown, body: str) -> None:
    """Bring it again until it is acknowledged."""
    for _ in range(100):
        if (await post(town, body)).status_code == 200:
            return
        await asyncio.sleep(0.05)
    raise AssertionError("never acknowledged")


async def test_presses_and_commands_come_as_forms(town: CalledTown, bus: RedisBus) -> None:
    door = OpenDoor(word="")
    press = {
        "type": "block_actions",
        "user": {"id": "U1", "name": "ann"},
        "container": {"message_ts": "1790000000.000200", "channel_id": "D1"},
        "actions": [{"type": "button", "value": "/approve A1", "action_id": "choice-1", "action_ts": "1790000001.1"}],
        "team": {"id": "T0EMULATOR"},
    }
    async with listening(town, bus, door):
        answer = await post(town, urlencode({"payload": json.dumps(press)}), kind=FORM)
        assert answer.status_code == 200
        assert (await post(town, urlencode({"ssl_check": "1", "token": "x"}), kind=FORM)).status_code == 200
        assert (await post(town, urlencode({"payload": "{"}), kind=FORM)).status_code == 400
    assert [each.text for each in door.pressed] == ["/approve A1"]


async def test_what_slack_gave_up_on_is_read_back_when_it_reaches_us_again(town: CalledTown, bus: RedisBus) -> None:
    """An event that is first heard of as a repetition shows that others may be lost."""
    stage, dm = town.stage, town.dm(town.ann)
    assert isinstance(stage, SlackEmulator)
    async with EchoAgent(bus).at_work(), town.line(bus):
        await stage.say(town.ann.id, dm.id, "before")
        await town.until_answers(1, dm)
        behind, town.exchange.behind = town.exchange.behind, []
        stage.switches.retry_after_s, lost = (), len(stage.delivery.lost)
        await stage.say(town.ann.id, dm.id, "nobody is there")
        await until(lambda: len(stage.delivery.lost) > lost)
        stage.switches.retry_after_s, failures = (0.2, 0.2, 0.2), len(stage.delivery.failures)
        await stage.say(town.ann.id, dm.id, "somebody may be")
        await until(lambda: len(stage.delivery.failures) > failures)
        town.exchange.behind = behind
        await town.until_answers(3, dm)
    assert set(town.texts(dm)) == {"echo: before", "echo: nobody is there", "echo: somebody may be"}


@pytest.mark.long
async def test_while_one_socket_is_renewed_the_other_hears(bus: RedisBus) -> None:
    """Slack ends a socket every few hours, after a warning; nothing waits for that."""
    async with slack_town() as town, EchoAgent(bus).at_work(), town.line(bus):
        stage = town.stage
        assert isinstance(stage, SlackEmulator)
        await until(lambda: stage.sockets.connections == 2)
        dm = town.dm(town.ann)
        stage.switches.ack_within_s, stage.switches.retry_after_s = 0.3, (0.1, 0.5)
        for number in range(6):
            if number == 2:
                stage.sockets.disconnect("refresh_requested", sockets_max=1)
            await stage.say(town.ann.id, dm.id, f"number {number}")
        answers = await town.until_answers(6, dm)
        assert set(answers) == {f"echo: number {number}" for number in range(6)}
        await until(lambda: stage.sockets.connections == 2)
        await town.stays_silent(6)
