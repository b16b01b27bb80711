"""The emulated Slack's Web API and events, driven by the real slack-sdk and Bolt and, for odd corners, by raw HTTP."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any

import aiohttp
import httpx
import pytest
from slack_sdk.errors import SlackApiError
from slack_sdk.web.async_client import AsyncWebClient

from channels.emulators.serving import listening
from channels.emulators.slack import SlackEmulator
from channels.emulators.slack.world import ts_key
from channels.emulators.stage import EventKind, Person, Place, PlaceKind, SharedFile
from tests.parts.emulated_slack import APP_TOKEN, BOT_TOKEN, SlackWorld, slack_world
from tests.parts.waiting import until

__all__ = ["slack_world"]


def ada_and_her_dm(stage: SlackEmulator) -> tuple[Person, Place]:
    ada = stage.add_person("Ada")
    return ada, next(p for p in stage.places() if p.person_id == ada.id)


def ada_in_the_hall(stage: SlackEmulator) -> tuple[Person, Place]:
    return stage.add_person("Ada"), stage.add_place(PlaceKind.GROUP, "Town Hall")


async def refusal(call: Coroutine[Any, Any, object]) -> str:
    with pytest.raises(SlackApiError) as refused:
        await call
    error: str = refused.value.response["error"]
    return error


# --- conversations


async def test_a_direct_message_is_heard_and_answered(slack_world: SlackWorld) -> None:
    stage = slack_world.emulator
    ada, place = ada_and_her_dm(stage)
    async with slack_world.bolt() as bolt:
        said = await stage.say(ada.id, place.id, "1 < 2 & *bold*")
        await until(bolt.texts)
        event = bolt.events("message")[0]
        assert (event["ts"], event["text"], event["channel_type"]) == (said.id, "1 &lt; 2 &amp; *bold*", "im")
        assert event["client_msg_id"]
        assert "bot_id" not in event
        client = slack_world.client()
        posted = await client.chat_postMessage(channel=place.id, text="*hi*")
        await client.chat_update(channel=place.id, ts=posted["ts"], text="_hi_ again")
        await until(lambda: bolt.events("message", "message_changed"))
    assert (said.text, said.html) == ("1 < 2 & *bold*", "<div>1 &lt; 2 &amp; *bold*</div>")
    answer = stage.said(place.id)[-1]
    assert (answer.text, answer.html, answer.edited) == ("_hi_ again", "<em>hi</em> again", True)


async def test_a_mention_comes_twice_and_the_answer_opens_a_thread(slack_world: SlackWorld) -> None:
    """`app_mention` and `message` share the ts, not the event id; the bot's own answer comes back with a bot id."""
    stage = slack_world.emulator
    ada, hall = ada_in_the_hall(stage)
    async with slack_world.bolt() as bolt:
        said = await stage.say(ada.id, hall.id, "are you there?", mention_bot=True)
        await until(lambda: bolt.events("message") and bolt.events("app_mention"))
        mention, message = bolt.events("app_mention")[0], bolt.events("message")[0]
        assert mention["ts"] == message["ts"] == said.id
        assert len({body["event_id"] for body in bolt.bodies}) == 2
        assert bolt.bodies[0]["authorizations"][0]["user_id"] == stage.world.bot.id
        client = slack_world.client()
        answer = await client.chat_postMessage(channel=hall.id, thread_ts=said.id, text="here")
        thread = next(p for p in stage.places() if p.kind is PlaceKind.THREAD)
        assert thread.parent_id == hall.id
        await until(lambda: "here" in bolt.texts())
        own = next(e for e in bolt.events("message") if e["text"] == "here")
        assert (own["thread_ts"], own["parent_user_id"], own["bot_id"]) == (said.id, ada.id, "B0EMULATOR")
        assert ts_key(answer["ts"]) > ts_key(said.id)
        await stage.say(ada.id, thread.id, "good")
        await until(lambda: "good" in bolt.texts())
        assert not bolt.events("app_mention")[1:]
    assert [said.text for said in stage.said(thread.id)] == ["@Trivet are you there?", "here", "good"]
    assert [said.text for said in stage.said(hall.id)] == ["@Trivet are you there?"]


async def test_other_bots_and_webhooks_are_heard_as_what_they_are(slack_world: SlackWorld) -> None:
    stage = slack_world.emulator
    _, hall = ada_in_the_hall(stage)
    robot = stage.add_bot("Robot")
    async with slack_world.bolt() as bolt:
        await stage.say(robot.id, hall.id, "beep")
        await stage.say_as_webhook("Builds", hall.id, "passed")
        await until(lambda: bolt.events("message") and bolt.events("message", "bot_message"))
        beep, passed = bolt.events("message")[0], bolt.events("message", "bot_message")[0]
    assert (beep["user"], bool(beep["bot_id"]), "client_msg_id" in beep) == (robot.id, True, False)
    assert (passed["username"], "user" in passed) == ("Builds", False)


async def test_edits_deletions_and_tombstones(slack_world: SlackWorld) -> None:
    """A deleted root with replies stays as a tombstone, so that the thread hangs on something."""
    stage = slack_world.emulator
    ada, hall = ada_in_the_hall(stage)
    async with slack_world.bolt() as bolt:
        root = await stage.say(ada.id, hall.id, "first")
        await stage.edit(root.id, hall.id, "second")
        reply = await stage.say(ada.id, hall.id, "reply", reply_to=root.id)
        await stage.delete(root.id, hall.id)
        await stage.delete(reply.id, reply.place_id)
        await until(
            lambda: len(bolt.events("message", "message_changed")) == 2 and bolt.events("message", "message_deleted")
        )
        edit = next(e for e in bolt.events("message", "message_changed") if e["message"]["text"] == "second")
        deletion = bolt.events("message", "message_deleted")[0]
    assert (edit["previous_message"]["text"], edit["message"]["edited"]["user"]) == ("first", ada.id)
    assert edit["hidden"] is True
    assert deletion["deleted_ts"] == reply.id
    assert stage.said(hall.id)[0].text == "This message was deleted."


async def test_a_bot_put_out_of_a_channel(slack_world: SlackWorld) -> None:
    stage = slack_world.emulator
    ada, hall = ada_in_the_hall(stage)
    client = slack_world.client()
    async with slack_world.bolt() as bolt:
        stage.remove_bot(hall.id)
        await until(lambda: bolt.events("member_left_channel"))
        await stage.say(ada.id, hall.id, "among ourselves", mention_bot=True)
        assert await refusal(client.chat_postMessage(channel=hall.id, text="x")) == "not_in_channel"
        assert await refusal(client.conversations_history(channel=hall.id)) == "not_in_channel"
        other = stage.add_place(PlaceKind.GROUP, "Other")
        await stage.say(ada.id, other.id, "welcome")
        await until(bolt.texts)
        assert bolt.texts() == ["welcome"]
    stage.faults.blocked = True
    dm = next(p for p in stage.places() if p.kind is PlaceKind.DM)
    assert await refusal(client.chat_postMessage(channel=hall.id, text="x")) == "not_in_channel"
    assert await refusal(client.chat_postMessage(channel=dm.id, text="x")) == "channel_not_found"


# --- limits and refusals


async def test_long_text_is_split_silently_and_longer_text_truncated(slack_world: SlackWorld) -> None:
    stage = slack_world.emulator
    _, hall = ada_in_the_hall(stage)
    client = slack_world.client()
    await client.chat_postMessage(channel=hall.id, text="x" * 4040)
    assert [len(said.text) for said in stage.said(hall.id)] == [4040]
    posted = await client.chat_postMessage(channel=hall.id, text="word " * 1000)
    pieces = stage.said(hall.id)[1:]
    assert len(pieces) == 2
    assert all(len(said.text) <= 4000 for said in pieces)
    assert posted["ts"] == pieces[-1].id
    stage.switches.splits_long_text = False
    await client.chat_postMessage(channel=hall.id, text="y" * 50_000)
    assert len(stage.said(hall.id)[-1].text) == 40_000


async def test_what_slack_refuses(slack_world: SlackWorld) -> None:
    stage = slack_world.emulator
    stage.switches.is_rate_limited = False
    ada, hall = ada_in_the_hall(stage)
    archived = stage.add_place(PlaceKind.GROUP, "Old")
    stage.world.conversations[archived.id].is_archived = True
    said = await stage.say(ada.id, hall.id, "mine")
    client = slack_world.client()
    own = await client.chat_postMessage(channel=hall.id, text="own")
    section, short, long = ({"type": "section", "text": {"type": "mrkdwn", "text": "x" * n}} for n in (3001, 1, 3000))
    metadata = {"event_type": "e", "event_payload": {"x": "y" * 9000}}

    def post(**arguments: Any) -> Coroutine[Any, Any, object]:
        return client.api_call("chat.postMessage", json={"channel": hall.id} | arguments)

    cases = [
        (post(text="x", channel="C0NOWHERE"), "channel_not_found"),
        (post(text="x", channel=archived.id), "is_archived"),
        (post(text="  "), "no_text"),
        (post(text="x", thread_ts="1.000001"), "thread_not_found"),
        (post(blocks=[section], text="x"), "invalid_blocks"),
        (post(blocks=[{"type": "no_such"}], text="x"), "invalid_blocks"),
        (post(blocks=[short] * 51, text="x"), "invalid_blocks"),
        (post(blocks=[long] * 5, text="x"), "msg_blocks_too_long"),
        (post(text="x", metadata=metadata), "metadata_too_large"),
        (client.chat_update(channel=hall.id, ts=own["ts"], text="x" * 4001), "msg_too_long"),
        (client.chat_update(channel=hall.id, ts=said.id, text="yours"), "cant_update_message"),
        (client.chat_update(channel=ada.id, ts=own["ts"], text="x"), "channel_not_found"),
        (client.chat_delete(channel=hall.id, ts=said.id), "cant_delete_message"),
        (client.chat_delete(channel=hall.id, ts="1.000001"), "message_not_found"),
        (client.users_info(user="U0NOBODY"), "user_not_found"),
        (client.conversations_replies(channel=hall.id, ts="1.000001"), "thread_not_found"),
        (client.conversations_history(channel=hall.id, oldest="yesterday"), "invalid_ts_oldest"),
        (client.api_call("no.such"), "unknown_method"),
        (client.api_call("chat.postMessage", json={"text": "x"}), "invalid_arguments"),
    ]
    for call, expected in cases:
        assert expected in await refusal(call)
    assert [said.text for said in stage.said(hall.id)] == ["mine", "own"]


async def test_tokens_and_scopes(slack_world: SlackWorld) -> None:
    stage = slack_world.emulator
    ada, place = ada_and_her_dm(stage)
    assert await refusal(slack_world.client("xoxb-wrong").auth_test()) == "invalid_auth"
    assert await refusal(slack_world.client().apps_connections_open(app_token=BOT_TOKEN)) == "not_allowed_token_type"
    assert await refusal(slack_world.client(APP_TOKEN).users_info(user=ada.id)) == "not_allowed_token_type"
    stage.switches.scopes -= {"chat:write"}
    with pytest.raises(SlackApiError) as refused:
        await slack_world.client().chat_postMessage(channel=place.id, text="x")
    assert (refused.value.response["error"], refused.value.response["needed"]) == ("missing_scope", "chat:write")
    async with httpx.AsyncClient(base_url=f"http://{slack_world.address}/api", trust_env=False) as http:
        assert (await http.post("/auth.test")).json() == {"ok": False, "error": "not_authed"}
        by_form = await http.post("/auth.test", data={"token": BOT_TOKEN})
        assert by_form.json()["user_id"] == stage.world.bot.id
        broken = await http.post("/auth.test", content="{", headers={"Content-Type": "application/json"})
        assert broken.json()["error"] == "invalid_json"


async def test_text_is_stored_as_slack_stores_it(slack_world: SlackWorld) -> None:
    stage = slack_world.emulator
    ada, hall = ada_in_the_hall(stage)
    client = slack_world.client()
    posted = await client.chat_postMessage(
        channel=hall.id, text=f"a < b & c &amp; <@{ada.id}> <!here> https://x.org/p. `<b>`"
    )
    assert posted["message"]["text"] == (f"a &lt; b &amp; c &amp; <@{ada.id}> <!here> <https://x.org/p>. `&lt;b&gt;`")
    said = stage.said(hall.id)[-1]
    assert said.text == "a < b & c & @Ada @here https://x.org/p. `<b>`"
    assert '<span class="mention">@Ada</span>' in said.html
    assert "<code>&lt;b&gt;</code>" in said.html


async def test_a_channel_takes_bursts_and_then_one_message_a_second(slack_world: SlackWorld) -> None:
    stage = slack_world.emulator
    _, hall = ada_in_the_hall(stage)
    client = slack_world.client()
    for number in range(stage.switches.posts_burst):
        await client.chat_postMessage(channel=hall.id, text=str(number))
    with pytest.raises(SlackApiError) as limited:
        await client.chat_postMessage(channel=hall.id, text="too fast")
    response = limited.value.response
    assert (response.status_code, response["error"], response.headers["Retry-After"]) == (429, "ratelimited", "1")
    stage.faults.rate_limit, stage.faults.retry_after_s = 1, 7
    other = stage.add_place(PlaceKind.GROUP, "Other")
    with pytest.raises(SlackApiError) as asked:
        await client.chat_postMessage(channel=other.id, text="x")
    assert asked.value.response.headers["Retry-After"] == "7"
    await client.chat_postMessage(channel=other.id, text="elsewhere it goes on")


async def test_an_answer_that_was_lost_stands_all_the_same(slack_world: SlackWorld) -> None:
    """Slack has no idempotency key: the SDK's own retry posts a second time."""
    stage = slack_world.emulator
    _, hall = ada_in_the_hall(stage)
    stage.faults.drop_after = 1
    with pytest.raises(aiohttp.ClientError):
        await slack_world.client().chat_postMessage(channel=hall.id, text="once")
    assert [said.text for said in stage.said(hall.id)] == ["once"]
    stage.faults.drop_after = 1
    careless = AsyncWebClient(BOT_TOKEN, base_url=f"http://{slack_world.address}/api/")
    await careless.chat_postMessage(channel=hall.id, text="twice")
    assert [said.text for said in stage.said(hall.id)] == ["once", "twice", "twice"]
    stage.faults.server_error = 1
    with pytest.raises(SlackApiError):
        await slack_world.client().chat_postMessage(channel=hall.id, text="never")
    stage.faults.drop_before = 1
    with pytest.raises(aiohttp.ClientError):
        await slack_world.client().chat_postMessage(channel=hall.id, text="never")
    stage.faults.refuse_format = 1
    section = {"type": "section", "text": {"type": "mrkdwn", "text": "*x*"}}
    formatted = slack_world.client().chat_postMessage(channel=hall.id, text="x", blocks=[section])
    assert await refusal(formatted) == "invalid_blocks"
    stage.faults.other["fatal_error"] = 1
    assert await refusal(slack_world.client().chat_postMessage(channel=hall.id, text="never")) == "fatal_error"
    assert len(stage.said(hall.id)) == 3


async def test_faults_aim_at_what_people_see_unless_told_otherwise(slack_world: SlackWorld) -> None:
    stage = slack_world.emulator
    stage.faults.server_error = 2
    client = slack_world.client()
    await client.auth_test()
    stage.faults.other |= {"any_request": 1, "server_error_status": 503}
    for _ in range(2):
        with pytest.raises(SlackApiError) as broken:
            await client.auth_test()
        assert broken.value.response.status_code == 503
    stage.faults.delay_s = 0.01
    await client.auth_test()


# --- reading back


async def test_history_is_paged_newest_first_and_threads_oldest_first(slack_world: SlackWorld) -> None:
    stage = slack_world.emulator
    ada, hall = ada_in_the_hall(stage)
    roots = [await stage.say(ada.id, hall.id, f"n{n}") for n in range(5)]
    replies = [await stage.say(ada.id, hall.id, f"r{n}", reply_to=roots[1].id) for n in range(3)]
    client = slack_world.client()
    page = await client.conversations_history(channel=hall.id, oldest=roots[0].id, limit=3)
    assert [m["text"] for m in page["messages"]] == ["n4", "n3", "n2"]
    cursor = page["response_metadata"]["next_cursor"]
    rest = await client.conversations_history(channel=hall.id, oldest=roots[0].id, limit=3, cursor=cursor)
    assert [m["text"] for m in rest["messages"]] == ["n1"]
    assert (page["has_more"], rest["has_more"]) == (True, False)
    root = rest["messages"][0]
    assert (root["reply_count"], root["latest_reply"], root["thread_ts"]) == (3, replies[2].id, roots[1].id)
    thread = await client.conversations_replies(channel=hall.id, ts=roots[1].id, oldest=replies[0].id)
    assert [m["text"] for m in thread["messages"]] == ["n1", "r1", "r2"]
    inclusive = await client.conversations_history(
        channel=hall.id, oldest=roots[3].id, latest=roots[4].id, inclusive=True
    )
    assert [m["text"] for m in inclusive["messages"]] == ["n4", "n3"]
    stage.switches.history_page_max = 2
    assert len((await client.conversations_history(channel=hall.id))["messages"]) == 2


async def test_metadata_is_for_who_asks(slack_world: SlackWorld) -> None:
    stage = slack_world.emulator
    _, hall = ada_in_the_hall(stage)
    client = slack_world.client()
    metadata = {"event_type": "gw_reply", "event_payload": {"id": "row-1"}}
    posted = await client.chat_postMessage(channel=hall.id, text="x", metadata=metadata)
    await client.chat_update(channel=hall.id, ts=posted["ts"], text="y")
    silent = await client.conversations_history(channel=hall.id)
    assert "metadata" not in silent["messages"][0]
    whole = await client.conversations_history(channel=hall.id, include_all_metadata=True)
    assert whole["messages"][0]["metadata"] == metadata


async def test_where_the_bot_is(slack_world: SlackWorld) -> None:
    stage = slack_world.emulator
    ada, hall = ada_in_the_hall(stage)
    dm = next(p for p in stage.places() if p.kind is PlaceKind.DM)
    client = slack_world.client()
    mine = await client.users_conversations(types="public_channel,im")
    assert {channel["id"] for channel in mine["channels"]} == {hall.id, dm.id}
    assert (await client.conversations_open(users=ada.id))["channel"]["id"] == dm.id
    assert (await client.users_info(user=ada.id))["user"]["real_name"] == "Ada"
    posted = await client.chat_postMessage(channel=ada.id, text="to the person")
    assert posted["channel"] == dm.id


# --- streams and status


async def test_a_stream_grows_and_ends(slack_world: SlackWorld) -> None:
    stage = slack_world.emulator
    ada, hall = ada_in_the_hall(stage)
    said = await stage.say(ada.id, hall.id, "tell me", mention_bot=True)
    client = slack_world.client()
    async with slack_world.bolt() as bolt:
        stream = await client.chat_startStream(
            channel=hall.id,
            thread_ts=said.id,
            markdown_text="**Once** ",
            recipient_team_id=stage.world.team_id,
            recipient_user_id=ada.id,
        )
        where = {"channel": hall.id, "ts": stream["ts"]}
        thread = next(p for p in stage.places() if p.kind is PlaceKind.THREAD)
        open_message = stage.said(thread.id)[-1]
        conflict = client.chat_update(channel=hall.id, ts=open_message.id, text="x")
        assert await refusal(conflict) == "streaming_state_conflict"
        chunks = [{"type": "markdown_text", "text": "another way"}]
        assert await refusal(client.api_call("chat.appendStream", json=where | {"chunks": chunks})) == "invalid_chunks"
        await client.chat_appendStream(markdown_text="upon a time", **where)
        ended = await client.chat_stopStream(metadata={"event_type": "gw", "event_payload": {}}, **where)
        await until(lambda: bolt.events("message", "message_changed"))
        assert all("edited" not in e["message"] for e in bolt.events("message", "message_changed"))
    shown = stage.said(thread.id)[-1]
    assert (ended["ts"], shown.html.strip()) == (shown.id, "<p><strong>Once</strong> upon a time</p>")
    late = client.chat_appendStream(channel=hall.id, ts=shown.id, markdown_text="more")
    assert await refusal(late) == "message_not_in_streaming_state"
    await client.chat_update(channel=hall.id, ts=shown.id, text="corrected")
    nobody = client.chat_startStream(channel=hall.id, thread_ts=said.id)
    assert await refusal(nobody) == "missing_recipient_team_id"


async def test_a_status_ends_with_the_next_message_and_a_stream_runs_out() -> None:
    """After five minutes, on the emulator's clock."""
    now = [1_800_000_000.0]
    stage = SlackEmulator(bot_token=BOT_TOKEN, app_token=APP_TOKEN, clock_s=lambda: now[0])
    ada, dm = ada_and_her_dm(stage)
    async with listening(stage.app) as port:
        client = SlackWorld(stage, port).client()
        said = await stage.say(ada.id, dm.id, "hello")
        events = stage.events()
        await client.assistant_threads_setStatus(channel_id=dm.id, thread_ts=said.id, status="is writing...")
        stream = await client.chat_startStream(channel=dm.id, thread_ts=said.id, markdown_text="a")
        seen = [await anext(events) for _ in range(4)]
        assert [event.kind for event in seen] == [EventKind.TYPING, EventKind.PLACE, EventKind.TYPING, EventKind.SAID]
        assert [event.status for event in seen] == ["is writing...", "", "", ""]
        now[0] += 305
        await client.chat_appendStream(channel=dm.id, ts=stream["ts"], markdown_text="b")
        now[0] += 2
        late = client.chat_appendStream(channel=dm.id, ts=stream["ts"], markdown_text="c")
        assert await refusal(late) == "message_not_in_streaming_state"
        wrong = client.assistant_threads_setStatus(channel_id=dm.id, thread_ts="1.000001", status="x")
        assert await refusal(wrong) == "invalid_thread_ts"


# --- files


async def test_files_travel_both_ways(slack_world: SlackWorld) -> None:
    """Who downloads without a token gets a login page with status 200."""
    stage = slack_world.emulator
    ada, hall = ada_in_the_hall(stage)
    async with slack_world.bolt() as bolt:
        await stage.say(ada.id, hall.id, "see", files=[SharedFile("notes.txt", "text/plain", b"remember")])
        await until(lambda: bolt.events("message", "file_share"))
        shared = bolt.events("message", "file_share")[0]["files"][0]
    async with httpx.AsyncClient(trust_env=False) as http:
        stranger = await http.get(shared["url_private_download"])
        bearer = {"Authorization": f"Bearer {BOT_TOKEN}"}
        known = await http.get(shared["url_private_download"], headers=bearer)
    assert (stranger.status_code, stranger.headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert known.content == b"remember"
    client = slack_world.client()
    uploaded = await client.files_upload_v2(
        channel=hall.id, content="# Report", filename="report.md", initial_comment="here"
    )
    said = stage.said(hall.id)[-1]
    assert (said.text, said.files) == ("here", ("report.md",))
    info = await client.files_info(file=uploaded["file"]["id"])
    assert info["file"]["shares"]["public"][hall.id][0]["ts"] == said.id


async def test_a_thread_opens_beside_a_message_before_anybody_replies(slack_world: SlackWorld) -> None:
    """Slack lists it from the first reply on; a reply's own thread is the one that it stands in."""
    stage = slack_world.emulator
    ada, hall = ada_in_the_hall(stage)
    root = await stage.say(ada.id, hall.id, "Who has the key?")
    thread = stage.thread_from(ada.id, hall.id, root.id, "not used")
    assert (thread.title, thread.parent_id, thread.root_id) == ("Who has the key?", hall.id, root.id)
    assert thread not in stage.places()
    reply = await stage.say(ada.id, thread.id, "I do.")
    assert thread in stage.places()
    assert stage.thread_from(ada.id, thread.id, reply.id, "not used") == thread


async def test_what_is_passed_on_is_shown_as_text(slack_world: SlackWorld) -> None:
    stage = slack_world.emulator
    ada, hall = ada_in_the_hall(stage)
    said = await stage.say(ada.id, hall.id, "a <b>key</b>")
    passed_on = await stage.share(ada.id, said.id, hall.id, hall.id)
    assert passed_on.html == "<blockquote><b>Ada</b><br>a &lt;b&gt;key&lt;/b&gt;</blockquote>"
