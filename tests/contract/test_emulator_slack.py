"""The emulated Slack, driven by the real Bolt and slack-sdk and, for odd corners, by raw HTTP and websockets."""

from __future__ import annotations

from channels.emulators.slack.world import ts_key
from channels.emulators.stage import PlaceKind
from tests.parts.emulated_slack import SlackWorld, slack_world
from tests.parts.loopback import until

__all__ = ["slack_world"]


async def test_a_direct_message_is_heard_and_answered(slack_world: SlackWorld) -> None:
    stage = slack_world.emulator
    ada = stage.add_person("Ada")
    place = next(p for p in stage.places() if p.person_id == ada.id)
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
    ada, hall = stage.add_person("Ada"), stage.add_place(PlaceKind.GROUP, "Town Hall")
    async with slack_world.bolt() as bolt:
        said = await stage.say(ada.id, hall.id, "are you there?", mention_bot=True)
        await until(lambda: bolt.events("message") and bolt.events("app_mention"))
        mention, message = bolt.events("app_mention")[0], bolt.events("message")[0]
        assert mention["ts"] == message["ts"] == said.id
        assert len({body["event_id"] for body in bolt.bodies}) == 2
        client = slack_world.client()
        answer = await client.chat_postMessage(channel=hall.id, thread_ts=said.id, text="here")
        thread = next(p for p in stage.places() if p.kind is PlaceKind.THREAD)
        assert thread.parent_id == hall.id
        await until(lambda: "here" in bolt.texts())
        own = next(e for e in bolt.events("message") if e["text"] == "here")
        assert (own["thread_ts"], own["parent_user_id"], own["bot_id"]) == (said.id, ada.id, "B0EMULATOR")
        assert ts_key(answer["ts"]) > ts_key(said.id)
        await client.assistant_threads_setStatus(channel_id=hall.id, thread_ts=said.id, status="is thinking...")
        assert stage.status(thread.id) == "is thinking..."
        await stage.say(ada.id, thread.id, "good")
        await until(lambda: "good" in bolt.texts())
    assert [said.text for said in stage.said(thread.id)] == ["@Trivet are you there?", "here", "good"]
    assert [said.text for said in stage.said(hall.id)] == ["@Trivet are you there?"]
