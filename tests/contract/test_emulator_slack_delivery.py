"""How the emulated Slack delivers: Socket Mode and signed HTTP, acknowledged by the real Bolt or by hand."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
from slack_bolt.request.async_request import AsyncBoltRequest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from channels.emulators.serving import LOOPBACK, listening
from channels.emulators.slack import SlackEmulator
from channels.emulators.slack.delivery import signature
from channels.emulators.stage import Person, Place, PlaceKind
from tests.parts.emulated_slack import APP_TOKEN, BOT_TOKEN, SIGNING_SECRET, Bolt, SlackWorld, bolt_app, slack_world
from tests.parts.waiting import PATIENCE_S, until

__all__ = ["slack_world"]

Frame = dict[str, Any]
SOON_S = 0.6  # for whom an acknowledgement is not to come; on a busy machine the others take a while


def ada_in_the_hall(stage: SlackEmulator, *, ack_within_s: float = PATIENCE_S) -> tuple[Person, Place]:
    """And redelivery as fast as a test needs it."""
    stage.switches.ack_within_s, stage.switches.retry_after_s = ack_within_s, (0.0, 0.05, 0.05)
    return stage.add_person("Ada"), stage.add_place(PlaceKind.GROUP, "Town Hall")


# --- Socket Mode with the real client


async def test_an_event_that_was_not_acknowledged_comes_again(slack_world: SlackWorld) -> None:
    """The middleware fails twice before it takes the event: the third delivery says that it is the second retry."""
    stage = slack_world.emulator
    ada, hall = ada_in_the_hall(stage, ack_within_s=SOON_S)
    async with slack_world.bolt() as bolt:
        bolt.refusals = 2
        await stage.say(ada.id, hall.id, "hello")
        await until(bolt.texts)
        assert [envelope["retry_attempt"] for envelope in stage.sockets.sent] == [0, 1, 2]
        assert [envelope["retry_reason"] for envelope in stage.sockets.sent] == ["", "timeout", "timeout"]
        await until(lambda: stage.sockets.acknowledged)
        assert bolt.retries == ["2"]
    assert not stage.delivery.lost


async def test_after_a_refresh_or_a_cut_the_client_is_back_and_misses_nothing(slack_world: SlackWorld) -> None:
    stage = slack_world.emulator
    ada, hall = ada_in_the_hall(stage, ack_within_s=SOON_S)
    stage.switches.retry_after_s = (0.0, 0.2, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5)
    async with slack_world.bolt() as bolt:
        stage.sockets.disconnect("refresh_requested")
        await stage.say(ada.id, hall.id, "during the refresh")
        await until(lambda: "during the refresh" in bolt.texts())
        await stage.cut_connections()
        await stage.say(ada.id, hall.id, "during the cut")
        await until(lambda: "during the cut" in bolt.texts())
        await until(lambda: stage.sockets.connections == 1)
    assert not stage.delivery.lost
    assert stage.sockets.refused_tickets == 0


async def test_an_event_that_nobody_takes_is_lost_but_stays_in_the_history(slack_world: SlackWorld) -> None:
    stage = slack_world.emulator
    ada, hall = ada_in_the_hall(stage)
    await stage.say(ada.id, hall.id, "is anybody there?")
    await until(lambda: stage.delivery.lost)
    assert not stage.sockets.sent
    async with slack_world.bolt() as bolt:
        await stage.say(ada.id, hall.id, "now?")
        await until(bolt.texts)
        assert bolt.texts() == ["now?"]
    history = await slack_world.client().conversations_history(channel=hall.id)
    assert [message["text"] for message in history["messages"]] == ["now?", "is anybody there?"]


async def test_duplicates_and_poison(slack_world: SlackWorld) -> None:
    """A second delivery has the same event id and looks like a retry; an envelope that is no event stops nothing."""
    stage = slack_world.emulator
    ada, hall = ada_in_the_hall(stage)
    async with slack_world.bolt() as bolt:
        stage.faults.duplicate = 1
        await stage.say(ada.id, hall.id, "twice")
        await until(lambda: bolt.texts() == ["twice", "twice"])
        assert len({body["event_id"] for body in bolt.bodies}) == 1
        assert sorted(bolt.retries) == ["0", "1"]  # Bolt works on both at once
        stage.faults.poison = 1
        await stage.say(ada.id, hall.id, "after the poison")
        await until(lambda: "after the poison" in bolt.texts())


async def test_commands_and_buttons_with_answers_in_the_acknowledgement(slack_world: SlackWorld) -> None:
    stage = slack_world.emulator
    ada, hall = ada_in_the_hall(stage)
    client = slack_world.client()
    button = {"type": "button", "text": {"type": "plain_text", "text": "Go"}, "action_id": "go", "value": "1"}
    async with slack_world.bolt() as bolt:

        async def answer(ack: Any) -> None:
            await ack("at once")

        bolt.app.command("/now")(answer)
        stage.run_command(ada.id, hall.id, "/now", "please")
        await until(lambda: stage.said(hall.id))
        posted = await client.chat_postMessage(
            channel=hall.id, text="ready?", blocks=[{"type": "actions", "elements": [button]}]
        )
        delivery = stage.press(ada.id, posted["ts"], hall.id, "go", "1")
        await asyncio.wait_for(delivery.answered.wait(), PATIENCE_S)
        pressed = next(body for body in bolt.bodies if body.get("type") == "block_actions")
        assert pressed["container"]["message_ts"] == posted["ts"]
        async with httpx.AsyncClient(trust_env=False) as http:
            for _ in range(5):
                await http.post(pressed["response_url"], json={"text": "gone", "replace_original": True})
            used = await http.post(pressed["response_url"], json={"text": "too much"})
    assert used.status_code == 404
    assert [said.text for said in stage.said(hall.id)] == ["at once", "gone"]


async def test_a_command_that_is_not_acknowledged_does_not_come_again(slack_world: SlackWorld) -> None:
    stage = slack_world.emulator
    ada, hall = ada_in_the_hall(stage, ack_within_s=SOON_S)
    async with slack_world.bolt() as bolt:
        bolt.refusals = 1
        stage.run_command(ada.id, hall.id, "/ask")
        await until(lambda: stage.delivery.lost)
        assert [envelope["type"] for envelope in stage.sockets.sent] == ["slash_commands"]


async def test_the_home_tab_and_the_assistant(slack_world: SlackWorld) -> None:
    stage = slack_world.emulator
    ada, _ = ada_in_the_hall(stage)
    client = slack_world.client()
    async with slack_world.bolt() as bolt:
        stage.open_home(ada.id)
        thread = stage.open_assistant(ada.id)
        await until(lambda: bolt.events("app_home_opened") and bolt.events("assistant_thread_started"))
        started = bolt.events("assistant_thread_started")[0]["assistant_thread"]
        assert f"{started['channel_id']}/{started['thread_ts']}" == thread.id
        where = {"channel_id": started["channel_id"], "thread_ts": started["thread_ts"]}
        await client.assistant_threads_setTitle(title="Talk", **where)
        assert next(place.title for place in stage.places() if place.id == thread.id) == "Talk"


# --- Socket Mode by hand


@contextlib.asynccontextmanager
async def socket(world: SlackWorld, suffix: str = "") -> AsyncIterator[tuple[ClientConnection, Frame]]:
    """A connection and its hello."""
    opened = await world.client().apps_connections_open(app_token=APP_TOKEN)
    async with connect(opened["url"] + suffix, proxy=None) as connection:
        yield connection, json.loads(await connection.recv())


async def acknowledge(connection: ClientConnection) -> Frame:
    envelope: Frame = json.loads(await connection.recv())
    await connection.send(json.dumps({"envelope_id": envelope["envelope_id"]}))
    return envelope


async def test_a_ticket_works_once(slack_world: SlackWorld) -> None:
    opened = await slack_world.client().apps_connections_open(app_token=APP_TOKEN)
    async with connect(opened["url"], proxy=None) as connection:
        hello = json.loads(await connection.recv())
        assert (hello["type"], hello["num_connections"]) == ("hello", 1)
        assert hello["debug_info"]["approximate_connection_time"] > 0
        pong = await connection.ping(b"sdk-ping-pong:1")
        await asyncio.wait_for(pong, PATIENCE_S)
        with pytest.raises(InvalidStatus):
            await connect(opened["url"], proxy=None)
    assert slack_world.emulator.sockets.refused_tickets == 1


async def test_envelopes_go_to_the_sockets_in_turn(slack_world: SlackWorld) -> None:
    stage = slack_world.emulator
    ada, hall = ada_in_the_hall(stage)
    async with socket(slack_world) as (one, _), socket(slack_world) as (two, hello):
        assert hello["num_connections"] == 2
        for number in range(4):
            await stage.say(ada.id, hall.id, str(number))
        texts = [[(await acknowledge(s))["payload"]["event"]["text"] for _ in range(2)] for s in (one, two)]
        assert sorted(texts[0] + texts[1]) == ["0", "1", "2", "3"]
        await until(lambda: len(stage.sockets.acknowledged) == 4)


async def test_the_eleventh_socket_is_one_too_many(slack_world: SlackWorld) -> None:
    slack_world.emulator.switches.sockets_max = 2
    async with socket(slack_world), socket(slack_world), socket(slack_world) as (third, farewell):
        assert (farewell["type"], farewell["reason"]) == ("disconnect", "too_many_websockets")
        with pytest.raises(ConnectionClosed):
            await third.recv()


async def test_a_socket_is_warned_before_its_life_ends(slack_world: SlackWorld) -> None:
    switches = slack_world.emulator.switches
    switches.connection_life_s, switches.warning_s = 0.2, 0.1
    async with socket(slack_world) as (connection, _):
        reasons = [json.loads(await connection.recv())["reason"] for _ in range(2)]
        with pytest.raises(ConnectionClosed):
            await connection.recv()
    assert reasons == ["warning", "refresh_requested"]
    async with socket(slack_world, "&debug_reconnects=true") as (_, hello):
        assert hello["debug_info"]["approximate_connection_time"] == 360


async def test_a_late_acknowledgement_stops_the_retries(slack_world: SlackWorld) -> None:
    """And what is no acknowledgement is ignored."""
    stage = slack_world.emulator
    ada, hall = ada_in_the_hall(stage, ack_within_s=SOON_S)
    stage.switches.retry_after_s = (5.0,)
    async with socket(slack_world) as (connection, _):
        await connection.send("no json")
        await stage.say(ada.id, hall.id, "hello")
        envelope = json.loads(await connection.recv())
        await until(lambda: stage.delivery.failures)
        await connection.send(json.dumps({"envelope_id": envelope["envelope_id"]}))
        await until(lambda: not stage.delivery.is_busy)
    assert (len(stage.sockets.sent), len(stage.delivery.lost)) == (1, 0)


# --- HTTP


@contextlib.asynccontextmanager
async def bolt_over_http(world: SlackWorld) -> AsyncIterator[tuple[Bolt, str, list[Request]]]:
    """A Bolt app behind an address of its own, with the signature checked by Bolt."""
    bolt, requests = bolt_app(world.client()), []

    async def events(request: Request) -> Response:
        requests.append(request)
        body = (await request.body()).decode()
        answer = await bolt.app.async_dispatch(AsyncBoltRequest(body=body, headers=dict(request.headers)))
        headers = {name: values[0] for name, values in answer.headers.items()}
        return Response(answer.body, answer.status, headers)

    async with listening(Starlette(routes=[Route("/slack/events", events, methods=["POST"])])) as port:
        yield bolt, f"http://{LOOPBACK}:{port}/slack/events", requests


async def test_http_events_are_signed_and_repeated(slack_world: SlackWorld) -> None:
    stage = slack_world.emulator
    ada, hall = ada_in_the_hall(stage)
    async with bolt_over_http(slack_world) as (bolt, url, requests):
        assert await stage.use_http(url)
        bolt.refusals = 1
        await stage.say(ada.id, hall.id, "hello")
        await until(bolt.texts)
        assert bolt.retries == ["1"]
        assert [request.headers.get("x-slack-retry-reason") for request in requests] == [None, None, "http_error"]
        delivery = stage.run_command(ada.id, hall.id, "/ask", "why & how?")
        await asyncio.wait_for(delivery.answered.wait(), PATIENCE_S)
        assert bolt.bodies[-1]["text"] == "why & how?"
    stage.use_sockets()


async def test_an_app_with_another_secret_takes_nothing() -> None:
    """Every attempt is refused with 401, and then the event is lost."""
    stage = SlackEmulator(bot_token=BOT_TOKEN, app_token=APP_TOKEN, signing_secret="another")
    ada, hall = ada_in_the_hall(stage)
    async with listening(stage.app) as port, bolt_over_http(SlackWorld(stage, port)) as (bolt, url, requests):
        assert not await stage.use_http(url)
        await stage.say(ada.id, hall.id, "hello")
        await until(lambda: stage.delivery.lost)
        assert (bolt.bodies, len(requests)) == ([], 5)


async def test_an_app_may_ask_for_no_retries(slack_world: SlackWorld) -> None:
    stage = slack_world.emulator
    ada, hall = ada_in_the_hall(stage)
    hits: list[str] = []

    async def refuse(request: Request) -> Response:
        hits.append(request.headers["x-slack-signature"])
        body, timestamp = (await request.body()).decode(), request.headers["x-slack-request-timestamp"]
        assert hits[-1] == signature(SIGNING_SECRET, timestamp, body)
        assert abs(time.time() - int(timestamp)) < 300
        return Response(status_code=500, headers={"x-slack-no-retry": "1"})

    async with listening(Starlette(routes=[Route("/", refuse, methods=["POST"])])) as port:
        assert not await stage.use_http(f"http://{LOOPBACK}:{port}/")
        await stage.say(ada.id, hall.id, "hello")
        await until(lambda: stage.delivery.lost)
    assert len(hits) == 2
    stage.use_sockets()


async def test_an_app_that_cannot_be_reached(slack_world: SlackWorld) -> None:
    stage = slack_world.emulator
    ada, hall = ada_in_the_hall(stage)
    async with listening(Starlette()) as port:
        gone = f"http://{LOOPBACK}:{port}/"
    assert not await stage.use_http(gone)
    await stage.say(ada.id, hall.id, "hello")
    await until(lambda: stage.delivery.lost)
    assert stage.http_events is not None
    reasons = [headers.get("x-slack-retry-reason") for headers in stage.http_events.sent]
    assert reasons == [None, None, "connection_failed", "connection_failed", "connection_failed"]
