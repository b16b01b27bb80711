"""Answers that grow before people's eyes, with the real slack-sdk in front of the emulated Slack."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, replace
from html import unescape
from typing import Any

import pytest

from channels.core.adapter import SupportsStreaming
from channels.emulators.slack import SlackEmulator
from channels.emulators.slack.world import SlackMessage, SlackUser
from channels.emulators.stage import PlaceKind, Said
from channels.slack import limits
from channels.slack.adapter import SlackAdapter
from channels.slack.connection import SlackEndpoint
from channels.slack.normalize import SlackIdentity, SlackTarget, make_target
from channels.slack.render import SlackChunk, render
from channels.slack.sending import SlackStreams, began, change
from gateway.bus.bus import RedisBus
from gateway.clock import SystemClock
from gateway.contracts.ids import ReplyAddress
from gateway.contracts.messages import CleanText
from tests.doubles import ManualClock
from tests.parts.emulated_slack import APP_TOKEN, BOT_TOKEN, SlackWorld, slack_world
from tests.parts.incoming import NobodyHome
from tests.parts.towns import parts_on

__all__ = ["slack_world"]


@dataclass
class Scene:
    """Ada has asked something in a thread of a channel, and waits."""

    stage: SlackEmulator
    world: SlackWorld
    streams: SlackStreams
    clock: ManualClock
    target: SlackTarget
    thread_id: str
    dm: SlackTarget

    async def begin(self, text: str) -> str:
        return await self.streams.begin(self.target, chunk(text), send_id="reply:0")

    async def go_on(self, ts: str, text: str) -> bool:
        return await self.streams.go_on(self.target, chunk(text), ts=ts, send_id="reply:0")

    async def finish(self, ts: str, text: str) -> bool:
        await self.streams.end(self.target, ts=ts)
        return await change(self.world.client(), self.target, chunk(text), ts=ts, plain=False)

    def pass_s(self, seconds: float) -> None:
        self.clock.at_ms += int(seconds * 1000)

    def shown(self) -> Said:
        return self.stage.said(self.thread_id)[-1]

    def message(self, ts: str) -> SlackMessage:
        return self.stage.world.conversations[self.target.channel].messages[ts]

    def calls(self) -> Sequence[str]:
        """What was called of the methods that show something, in order."""
        return [name for name in self.stage.web_api.calls if name.startswith("chat.")]


def chunk(text: str) -> SlackChunk:
    (only,) = render(CleanText(text))
    return only


@pytest.fixture
async def scene(slack_world: SlackWorld) -> Scene:
    stage = slack_world.emulator
    ada = stage.add_person("Ada")
    hall = stage.add_place(PlaceKind.GROUP, "hall")
    root = await stage.say(ada.id, hall.id, "a question", mention_bot=True)
    dm = next(place for place in stage.places() if place.person_id == ada.id)
    target = SlackTarget(hall.id, root.id, root.id, ada.id, stage.world.team_id)
    clock, client = ManualClock(), slack_world.client()
    streams = SlackStreams(lambda: client, clock)
    direct = SlackTarget(dm.id, None, None, ada.id, stage.world.team_id)
    return Scene(stage, slack_world, streams, clock, target, f"{hall.id}/{root.id}", direct)


async def test_a_stream_is_appended_to_and_becomes_the_answer(scene: Scene) -> None:
    """Only what is new travels, and in the end the message shows what was committed, as any other of ours."""
    ts = await scene.begin("Once upon")
    assert await scene.go_on(ts, "Once upon a **time**")
    assert scene.shown().text == "Once upon a **time"  # whether the emphasis is over is not known yet
    assert await scene.go_on(ts, "Once upon a **time** there was")
    assert scene.shown().text == "Once upon a **time** there was"
    assert await scene.finish(ts, "Once upon a **time** there was a *fox*.")
    assert scene.shown().text == "Once upon a *time* there was a _fox_."
    assert scene.calls() == ["chat.startStream", "chat.appendStream", "chat.appendStream", "chat.stopStream",
                             "chat.update"]  # fmt: skip


async def test_nothing_is_called_for_words_that_may_still_change(scene: Scene) -> None:
    ts = await scene.begin("Once")
    assert await scene.go_on(ts, "Once **")
    assert scene.calls() == ["chat.startStream"]


@pytest.mark.parametrize(
    "link",
    [
        *("https://example.org/?q=secret", "[here](https://example.org/?q=secret)", "example.org/?q=secret"),
        *(
            "secret.example.org",
            "<https://example.org/?q=secret|here>",
            "[x](https&#58;//example&period;org/?q=secret)",
        ),
        *(r"[x](https\://example\.org/?q=secret)", "[x]: https://example.org/?q=secret", "http://127.0.0.1/?q=secret"),
    ],
)
async def test_nothing_is_fetched_from_where_an_answer_leads(scene: Scene, link: str) -> None:
    """No stream shows a link, for Slack cannot be told to leave it alone there; a post can, and an edit does."""
    scene.stage.switches.unfurls_links, scene.stage.switches.is_rate_limited = True, False
    text = f"As you see at {link} it is so."
    for begins in (len("As you see"), text.index(link) + 7, len(text)):
        ts = await scene.begin(text[:begins])
        for end in range(begins, len(text), 2):
            scene.pass_s(60)
            assert await scene.go_on(ts, text[:end])
            if scene.message(ts).streams_until_s is not None:
                shown = unescape(scene.shown().text).replace("\\", "")
                assert "://" not in shown
                assert "example.or" not in shown
        assert await scene.finish(ts, text)
        assert scene.message(ts).attachments == ()


async def test_a_text_that_does_not_go_on_where_it_was_is_changed_as_a_whole(scene: Scene) -> None:
    ts = await scene.begin("One thing")
    assert await scene.go_on(ts, "Another thing")
    assert scene.shown().text == "Another thing"
    assert scene.calls()[1:] == ["chat.stopStream", "chat.update"]


async def test_a_stream_is_stopped_before_slack_does_it(scene: Scene) -> None:
    """And goes on in the same message."""
    ts = await scene.begin("One")
    scene.pass_s(limits.STREAM_LIFE_S + 1)
    assert await scene.go_on(ts, "One two")
    scene.pass_s(60)
    assert await scene.go_on(ts, "One two three")
    assert (scene.shown().id, scene.shown().text) == (ts, "One two three")
    assert scene.calls()[1:] == ["chat.stopStream", "chat.update", "chat.update"]


async def test_a_stream_that_slack_has_ended_goes_on_as_a_message(scene: Scene) -> None:
    scene.stage.switches.stream_life_s = 0.0
    ts = await scene.begin("One")
    assert await scene.go_on(ts, "One two")
    assert scene.shown().text == "One two"
    assert await scene.finish(ts, "One two three")
    assert scene.shown().text == "One two three"


async def test_a_stream_that_a_person_stopped_is_no_error(scene: Scene) -> None:
    ts = await scene.begin("One")
    scene.stage.stop_stream(ts, scene.thread_id)
    assert await scene.go_on(ts, "One two")
    assert await scene.finish(ts, "One two three")
    assert scene.shown().text == "One two three"


async def test_a_workspace_without_streams_gets_posts(scene: Scene) -> None:
    """It is asked once."""
    scene.stage.switches.has_streams = False
    ts = await scene.begin("One")
    assert (scene.shown().id, scene.shown().text) == (ts, "One")
    await scene.begin("Two")
    assert scene.calls() == ["chat.startStream", "chat.postMessage", "chat.postMessage"]


@pytest.mark.parametrize("word", ["channel_type_not_supported", "missing_recipient_team_id", "no_permission"])
async def test_one_place_without_streams_gets_posts_and_others_their_streams(scene: Scene, word: str) -> None:
    scene.stage.switches.refusals["chat.startStream"] = word
    await scene.begin("One")
    assert scene.shown().text == "One"
    scene.stage.switches.refusals.clear()
    await scene.begin("Two")
    assert scene.calls() == ["chat.startStream", "chat.postMessage", "chat.startStream"]


@pytest.mark.parametrize(
    "word", ["message_not_in_streaming_state", "stopped_by_user", "streaming_mode_mismatch", "message_not_owned_by_app"]
)
async def test_whatever_ends_a_stream_the_answer_goes_on_in_its_message(scene: Scene, word: str) -> None:
    ts = await scene.begin("One")
    scene.stage.stop_stream(ts, scene.thread_id)
    scene.stage.switches.refusals |= dict.fromkeys(("chat.appendStream", "chat.stopStream"), word)
    assert await scene.go_on(ts, "One two")
    assert await scene.finish(ts, "One two three")
    assert (scene.shown().id, scene.shown().text) == (ts, "One two three")


async def test_at_the_top_level_a_post_is_changed(scene: Scene) -> None:
    """No thread is opened under what somebody said in a direct message: it would be another conversation."""
    ts = await scene.streams.begin(scene.dm, chunk("One"), send_id="reply:0")
    scene.pass_s(60)
    assert await scene.streams.go_on(scene.dm, chunk("One two"), ts=ts, send_id="reply:0")
    await scene.streams.end(scene.dm, ts=ts)
    (said,) = scene.stage.said(scene.dm.channel)
    assert (said.id, said.text) == (ts, "One two")
    assert scene.calls() == ["chat.postMessage", "chat.update"]


async def test_changes_are_not_sent_faster_than_the_workspace_takes_them(scene: Scene) -> None:
    ts = await scene.streams.begin(scene.dm, chunk("One"), send_id="reply:0")
    for words in ("One two", "One two three"):
        assert await scene.streams.go_on(scene.dm, chunk(words), ts=ts, send_id="reply:0")
    assert scene.calls() == ["chat.postMessage"]


async def test_the_next_process_ends_what_another_began(scene: Scene) -> None:
    """Slack takes no change of a message that still grows."""
    ts = await scene.begin("Once upon")
    client = scene.world.client()
    successor = SlackStreams(lambda: client, scene.clock)
    await successor.end(scene.target, ts=ts)
    await successor.end(scene.target, ts=ts)
    assert await change(client, scene.target, chunk("Once upon a time."), ts=ts, plain=False)
    assert scene.shown().text == "Once upon a time."


async def test_a_change_stops_what_still_grows(scene: Scene) -> None:
    ts = await scene.begin("Once upon")
    assert await change(scene.world.client(), scene.target, chunk("Once upon a time."), ts=ts, plain=False)
    assert scene.shown().text == "Once upon a time."


async def test_the_next_process_may_also_go_on(scene: Scene) -> None:
    ts = await scene.begin("Once upon")
    client = scene.world.client()
    successor = SlackStreams(lambda: client, scene.clock)
    assert await successor.go_on(scene.target, chunk("Once upon a time"), ts=ts, send_id="reply:0")
    assert scene.shown().text == "Once upon a time"


async def test_a_message_that_somebody_deleted_is_gone(scene: Scene) -> None:
    ts = await scene.begin("One")
    await scene.stage.delete(ts, scene.thread_id)
    assert not await scene.go_on(ts, "One two")
    await scene.streams.end(scene.target, ts=ts)


async def test_nobody_is_called_by_a_stream(scene: Scene) -> None:
    """Nor by half a call, whose other half comes later."""
    sent: list[str] = []
    original = scene.world.client()

    class Recording:
        def __getattr__(self, name: str) -> Any:
            async def call(**arguments: Any) -> Any:
                sent.append(str(arguments.get("markdown_text", "")))
                return await getattr(original, name)(**arguments)

            return call

    streams = SlackStreams(Recording, scene.clock)  # type: ignore[arg-type]
    ts = await streams.begin(scene.target, chunk("Hello <"), send_id="reply:0")
    for text in ("Hello <!chan", "Hello <!channel> and <@U0EMULATOR>", "Hello <!channel> and <@U0EMULATOR> in <#C1>."):
        await streams.go_on(scene.target, chunk(text), ts=ts, send_id="reply:0")
    assert "".join(sent) == "Hello &lt;!channel> and &lt;@U0EMULATOR> in &lt;#C1>."


async def test_so_many_answers_at_once_that_none_would_move_are_shown_when_they_are_whole(scene: Scene) -> None:
    """A workspace takes so many changes a minute from all of them together."""
    scene.stage.switches.is_rate_limited = False
    places = [replace(scene.dm, channel=scene.stage.world.dm_with(user).id) for user in people(scene, 9)]
    alone = scene.streams.cadence(places[0])
    for number, place in enumerate(places[:4]):
        await scene.streams.begin(place, chunk("One"), send_id=f"reply-{number}:0")
    crowded = scene.streams.cadence(places[0])
    assert alone is not None
    assert crowded is not None
    assert crowded.every_s == 4 * alone.every_s
    for number, place in enumerate(places[4:], start=4):
        await scene.streams.begin(place, chunk("One"), send_id=f"reply-{number}:0")
    assert scene.streams.cadence(places[0]) is None


async def test_what_no_answer_follows_is_taken_back(scene: Scene) -> None:
    for target, place in ((scene.target, scene.thread_id), (scene.dm, scene.dm.channel)):
        ts = await scene.streams.begin(target, chunk("Once upon"), send_id="reply:0")
        assert await scene.streams.take_back(target, ts=ts)
        assert await scene.streams.take_back(target, ts=ts)
        assert ts not in [said.id for said in scene.stage.said(place)]
    root = scene.target.message_ts or ""
    assert not await scene.streams.take_back(scene.target, ts=root)


def people(scene: Scene, count: int) -> Sequence[SlackUser]:
    return [scene.stage.world.new_user(f"p{number}", f"P{number}") for number in range(count)]


async def test_streams_beyond_what_the_workspace_begins_in_a_minute_are_posts(scene: Scene) -> None:
    scene.stage.switches.is_rate_limited = False
    for number in range(limits.STREAMS_PER_MINUTE + 1):
        await scene.streams.begin(scene.target, chunk("One"), send_id=f"reply-{number}:0")
    assert scene.calls().count("chat.postMessage") == 1
    scene.pass_s(limits.STREAMS_WINDOW_S)
    await scene.streams.begin(scene.target, chunk("One"), send_id="later:0")
    assert scene.calls()[-1] == "chat.startStream"


async def test_words_of_unknown_fate_are_not_appended_twice(scene: Scene) -> None:
    """The connection was cut after Slack had them: the next words show the whole anew."""
    ts = await scene.begin("One")
    scene.stage.faults.drop_after = 1
    with pytest.raises(Exception, match="cut before Slack answered"):
        await scene.go_on(ts, "One two")
    assert await scene.go_on(ts, "One two three")
    assert scene.shown().text == "One two three"


def test_the_adapter_streams() -> None:
    assert issubclass(SlackAdapter, SupportsStreaming)


async def test_what_was_cut_off_while_it_grew_is_found_and_made_whole(scene: Scene, bus: RedisBus) -> None:
    """A process died before it wrote down which message it had begun. A stream carries no id: its words tell."""
    for target in (scene.target, scene.dm):
        ts = await scene.streams.begin(target, chunk("Once upon"), send_id="reply:0")
        address = ReplyAddress("slack", target.lane, make_target(target))
        async with connected(scene, bus) as adapter:
            whole = chunk("Once upon a *time* there was.")
            now_ms = SystemClock().now_ms()
            assert await adapter.find_sent(address, whole, send_id="reply:0", since_ms=now_ms) == (ts,)
        place = target.lane
        assert scene.stage.said(place)[-1].text == "Once upon a _time_ there was."


@pytest.mark.parametrize(
    "other",
    [
        {"text": "Something else"},
        {"text": ""},
        {"user": "U2"},
        {"metadata": {"event_type": "trivet_reply", "event_payload": {"id": "other:0"}}},
        {"files": [{"id": "F1"}]},
    ],
)
def test_nothing_else_is_taken_for_a_stream_that_was_cut_off(other: dict[str, Any]) -> None:
    is_it = began(chunk("Once *upon* a time, &c."), SlackIdentity("T1", "UBOT", "BBOT"))
    orphan = {"user": "UBOT", "text": "Once upon a time, &amp;c"}
    assert is_it(orphan)
    assert not is_it(orphan | other)


@contextlib.asynccontextmanager
async def connected(scene: Scene, bus: RedisBus) -> AsyncIterator[SlackAdapter]:
    """Our adapter in front of the scene."""
    adapter = SlackAdapter(SlackEndpoint(BOT_TOKEN, APP_TOKEN, f"http://{scene.world.address}/api/"), parts_on(bus))
    running = asyncio.create_task(adapter.run(NobodyHome()))
    try:
        await adapter.until_ready()
        yield adapter
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
