"""What every channel promises, in front of its emulated platform, with the real SDKs and a real bus.

Each test runs once in each town. `PLATFORMS` is where a further platform adds its row; what it cannot do at all is
told by the `Supports…` protocols of its adapter, never by its name.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Final
from urllib.parse import unquote

import pytest

from channels.core.adapter import MARK, AnyChunk, ChannelAdapter
from channels.core.runtime import ChannelConfig
from gateway.bus.bus import RedisBus, open_bus
from gateway.bus.embedded import EmbeddedValkey
from gateway.contracts.access import AccessPolicy, StrangerRule
from gateway.contracts.errors import AddressDead, DeliveryError, RateLimited
from gateway.contracts.ids import ReplyAddress, SessionScope
from gateway.scrub import Scrubber
from tests.parts.answering import EchoAgent, until_delivered, until_queued
from tests.parts.databases import INSTALLATION
from tests.parts.matrix_town import matrix_town
from tests.parts.towns import TOWNS, Town, typing_in
from tests.parts.waiting import until

STOP_WITHIN_S: Final = 5.0
PLATFORMS: Final = TOWNS | {"matrix": matrix_town}

pytestmark = pytest.mark.long_on("matrix")


@pytest.fixture(params=sorted(PLATFORMS))
async def town(request: pytest.FixtureRequest) -> AsyncIterator[Town]:
    """Each of the platforms in turn."""
    async with PLATFORMS[request.param]() as built:
        yield built


@pytest.fixture
async def agent(bus: RedisBus) -> AsyncIterator[EchoAgent]:
    """Somebody who answers."""
    async with EchoAgent(bus).at_work() as echo:
        yield echo


class TestHearing:
    async def test_a_direct_message_is_answered_there(self, town: Town, bus: RedisBus, agent: EchoAgent) -> None:
        """Its session key is the user alone."""
        dm = town.dm(town.ann)
        async with town.line(bus):
            await town.stage.say(town.ann.id, dm.id, "good morning")
            assert await town.until_answers(1, dm) == ["echo: good morning"]
        assert str(agent.heard[0].key) == f"{town.platform}:{town.user_of(town.ann)}"
        assert agent.heard[0].is_private

    async def test_a_mention_in_a_group_is_answered(self, town: Town, bus: RedisBus, agent: EchoAgent) -> None:
        """The key gains the place, and the mention is no part of the text."""
        async with town.line(bus):
            await town.stage.say(town.ann.id, town.group.id, "what is for lunch?", mention_bot=True)
            assert await town.until_answers(1) == ["echo: what is for lunch?"]
        key = agent.heard[0].key
        assert (key.user, bool(key.place), agent.heard[0].is_private) == (town.user_of(town.ann), True, False)

    async def test_a_mention_in_a_thread_is_answered_in_that_thread(
        self, town: Town, bus: RedisBus, agent: EchoAgent
    ) -> None:
        async with town.line(bus):
            await town.stage.say(town.ann.id, town.thread.id, "and salt?", mention_bot=True)
            assert await town.until_answers(1, town.thread) == ["echo: and salt?"]

    async def test_group_talk_that_is_not_for_the_bot_stays_unanswered(
        self, town: Town, bus: RedisBus, agent: EchoAgent
    ) -> None:
        async with town.line(bus):
            await town.stage.say(town.ann.id, town.group.id, "Ben, are you there?")
            await town.stage.say(town.ann.id, town.dm(town.ann).id, "marker")
            await town.until_answers(1)
            await town.stays_silent(1)
        assert [message.text for message in agent.heard] == ["marker"]

    async def test_other_bots_and_the_bot_itself_are_ignored(self, town: Town, bus: RedisBus, agent: EchoAgent) -> None:
        """Two bots that answer each other never stop."""
        rival = town.stage.add_bot("Rival")
        async with town.line(bus):
            await town.stage.say(rival.id, town.group.id, "hello colleague", mention_bot=True)
            await town.stage.say(town.ann.id, town.dm(town.ann).id, "marker")
            await town.until_answers(1)
            await town.stays_silent(1)
        assert [message.text for message in agent.heard] == ["marker"]

    async def test_messages_of_one_person_keep_their_order(self, town: Town, bus: RedisBus, agent: EchoAgent) -> None:
        dm = town.dm(town.ann)
        async with town.line(bus):
            for number in range(5):
                await town.stage.say(town.ann.id, dm.id, f"number {number}")
            assert await town.until_answers(5, dm) == [f"echo: number {number}" for number in range(5)]

    async def test_an_event_that_comes_twice_is_answered_once(
        self, town: Town, bus: RedisBus, agent: EchoAgent
    ) -> None:
        dm = town.dm(town.ann)
        town.stage.faults.duplicate = 1
        async with town.line(bus):
            await town.stage.say(town.ann.id, dm.id, "once")
            await town.stage.say(town.ann.id, dm.id, "twice")
            await town.until_answers(2, dm)
            await town.stays_silent(2)

    async def test_an_event_nobody_can_parse_does_not_hold_up_the_next(
        self, town: Town, bus: RedisBus, agent: EchoAgent
    ) -> None:
        dm = town.dm(town.ann)
        async with town.line(bus):
            await town.stage.say(town.ann.id, dm.id, "before")
            await town.until_answers(1, dm)
            town.stage.faults.poison = 1
            await town.stage.say(town.ann.id, dm.id, "first")
            await town.stage.say(town.ann.id, dm.id, "second")
            await until(lambda: "echo: second" in town.texts(dm))

    async def test_a_secret_never_reaches_the_bus(self, town: Town, bus: RedisBus, agent: EchoAgent) -> None:
        """Scrubbed before it is queued; what was removed is counted."""
        token = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
        async with town.line(bus):
            await town.stage.say(town.ann.id, town.dm(town.ann).id, f"my token is {token}")
            await town.until_answers(1)
        assert token not in agent.heard[0].text
        assert sum(removed.count for removed in agent.heard[0].removed) == 1


class TestAcknowledging:
    async def test_only_after_the_bus_has_it(self, town: Town, tmp_path: Path) -> None:
        """While the bus is away nothing is lost, and afterwards everything is answered once, in order."""
        server = EmbeddedValkey(tmp_path)
        bus = await open_bus(await server.start(), installation=INSTALLATION)
        dm = town.dm(town.ann)
        try:
            async with EchoAgent(bus).at_work(), town.line(bus):
                await town.stage.say(town.ann.id, dm.id, "before")
                await town.until_answers(1, dm)
                await server.stop()
                await town.stage.say(town.ann.id, dm.id, "meanwhile")
                await town.stage.say(town.ann.id, dm.id, "and then")
                await asyncio.sleep(0.5)
                await server.start()
                answers = await town.until_answers(3, dm)
                assert answers == ["echo: before", "echo: meanwhile", "echo: and then"]
                await town.stays_silent(3)
        finally:
            await bus.close()
            await server.stop()

    async def test_a_message_said_while_we_were_gone_is_answered_when_we_are_back(
        self, town: Town, bus: RedisBus, agent: EchoAgent
    ) -> None:
        """A restart is no reason to miss somebody."""
        dm = town.dm(town.ann)
        async with town.line(bus):
            await town.stage.say(town.ann.id, dm.id, "before")
            await town.until_answers(1, dm)
        await town.stage.say(town.ann.id, dm.id, "while you slept")
        async with town.line(bus):
            assert await town.until_answers(2, dm) == ["echo: before", "echo: while you slept"]
            await town.stays_silent(2)

    async def test_a_cut_connection_is_mended(self, town: Town, bus: RedisBus, agent: EchoAgent) -> None:
        dm = town.dm(town.ann)
        async with town.line(bus):
            await town.stage.say(town.ann.id, dm.id, "before")
            await town.until_answers(1, dm)
            await town.stage.cut_connections()
            await town.stage.say(town.ann.id, dm.id, "after")
            assert await town.until_answers(2, dm) == ["echo: before", "echo: after"]
            await town.stays_silent(2)


class TestSending:
    async def test_long_answers_are_split_at_the_limit(self, town: Town, bus: RedisBus, agent: EchoAgent) -> None:
        """Every part fits, nothing is missing, and the parts come in order."""
        words = [f"word{number}" for number in range(900)]
        agent.answer = lambda text: " ".join(words)
        dm = town.dm(town.ann)
        async with town.line(bus):
            await town.stage.say(town.ann.id, dm.id, "tell me everything")
            await until(lambda: " ".join(town.texts(dm)).split() == words)
        parts = town.texts(dm)
        assert len(parts) > 1
        assert max(map(len, parts)) <= town.letters_max

    async def test_plain_text_goes_out_when_the_format_is_refused(
        self, town: Town, bus: RedisBus, agent: EchoAgent
    ) -> None:
        """A formatting error never loses an answer."""
        town.stage.faults.refuse_format = 1
        agent.answer = lambda text: "this is **important**"
        async with town.line(bus):
            await town.stage.say(town.ann.id, town.dm(town.ann).id, "hello")
            (text,) = await town.until_answers(1)
        assert "important" in text

    async def test_a_rate_limit_is_waited_out(self, town: Town, bus: RedisBus, agent: EchoAgent) -> None:
        town.stage.faults.rate_limit = 2
        town.stage.faults.retry_after_s = 1.0
        async with town.line(bus):
            await town.stage.say(town.ann.id, town.dm(town.ann).id, "hello")
            assert await town.until_answers(1) == ["echo: hello"]
            await town.stays_silent(1)

    @pytest.mark.parametrize("fault", ["server_error", "drop_before"])
    async def test_what_failed_before_the_server_did_anything_is_tried_again(
        self, town: Town, bus: RedisBus, agent: EchoAgent, fault: str
    ) -> None:
        """An error of the server's, and a connection cut before it read the request.

        We cannot know that nothing was done, so where nothing proves it the answer says that it may be a repetition.
        """
        setattr(town.stage.faults, fault, 1)
        async with town.line(bus):
            await town.stage.say(town.ann.id, town.dm(town.ann).id, "hello")
            await until(lambda: [text.removeprefix(MARK).strip() for text in town.texts()] == ["echo: hello"])
            await town.stays_silent(1)

    async def test_a_cut_after_the_server_did_it_is_not_said_twice(
        self, town: Town, bus: RedisBus, agent: EchoAgent
    ) -> None:
        """Discord knows its nonce, Slack shows its metadata, and on Telegram the lost message is found and edited."""
        town.stage.faults.drop_after = 1
        async with town.line(bus):
            await town.stage.say(town.ann.id, town.dm(town.ann).id, "hello")
            await town.until_answers(1)
            await town.stage.say(town.ann.id, town.dm(town.ann).id, "next")
            await until(lambda: town.texts() == ["echo: hello", "echo: next"])

    async def test_a_reply_for_a_place_that_is_closed_to_us_does_not_block_the_next(
        self, town: Town, bus: RedisBus, agent: EchoAgent
    ) -> None:
        dm = town.dm(town.ann)
        thinking = asyncio.Event()
        agent.think_until(thinking)
        async with town.line(bus):
            await town.stage.say(town.ann.id, dm.id, "hello")
            await until(lambda: bool(agent.heard))
            town.stage.faults.blocked = True
            thinking.set()
            await until_delivered(bus, town.platform)
            town.stage.faults.blocked = False
            await town.stage.say(town.ann.id, dm.id, "again")
            await until(lambda: "echo: again" in town.texts(dm))

    async def test_typing_is_shown_while_a_turn_runs(self, town: Town, bus: RedisBus, agent: EchoAgent) -> None:
        """From acceptance on, in the place of the question."""
        thinking = asyncio.Event()
        agent.think_until(thinking)
        async with town.watched() as seen, town.line(bus):
            await town.stage.say(town.ann.id, town.thread.id, "think hard", mention_bot=True)
            await until(lambda: bool(typing_in(seen)))
            thinking.set()
            await town.until_answers(1, town.thread)
        assert set(typing_in(seen)) == {town.thread.id}

    async def test_typing_ends_with_the_answer(
        self, town: Town, bus: RedisBus, agent: EchoAgent, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """It is shown again and again, and not once more after the answer is there."""
        adapter, dm = town.adapter(bus), town.dm(town.ann)
        monkeypatch.setattr(type(adapter), "typing_period_s", 0.1)
        thinking = asyncio.Event()
        agent.think_until(thinking)
        async with town.watched() as seen, town.line(bus, adapter=adapter):
            await town.stage.say(town.ann.id, dm.id, "think hard")
            await until(lambda: len(typing_in(seen)) > 2)
            thinking.set()
            await town.until_answers(1, dm)
            shown = len(typing_in(seen))
            await town.stays_silent(1)
            assert len(typing_in(seen)) <= shown + 1  # one may have been on its way


class TestRefusals:
    """Each platform says it in its own way; the rest of the channels role hears one of our errors."""

    @pytest.mark.parametrize(
        ("fault", "value", "error"), [("rate_limit", 1, RateLimited), ("blocked", True, AddressDead)]
    )
    async def test_are_told_apart(
        self, town: Town, bus: RedisBus, agent: EchoAgent, fault: str, value: int, error: type[DeliveryError]
    ) -> None:
        adapter = town.adapter(bus)
        async with town.line(bus, adapter=adapter):
            await town.stage.say(town.ann.id, town.group.id, "hello", mention_bot=True)
            await town.until_answers(1)
            town.stage.faults.retry_after_s = 90.0
            setattr(town.stage.faults, fault, value)
            (chunk,) = adapter.chunks(Scrubber().scrub("this is **important**"))
            with pytest.raises(error):
                await adapter.send(agent.heard[0].address, chunk, send_id="r1:1:0", plain=False)

    async def test_a_place_that_never_was_is_dead(self, town: Town, bus: RedisBus, agent: EchoAgent) -> None:
        adapter = town.adapter(bus)
        async with town.line(bus, adapter=adapter):
            await town.stage.say(town.ann.id, town.group.id, "hello", mention_bot=True)
            await town.until_answers(1)
            heard = agent.heard[0]
            place = unquote(heard.key.place[0])
            middle = len(place) // 2  # ids that differ at their end are neighbours, and may both exist
            nowhere = place[:middle] + ("7" if place[middle] != "7" else "8") + place[middle + 1 :]
            address = replace(heard.address, target=heard.address.target.replace(place, nowhere))
            (chunk,) = adapter.chunks(Scrubber().scrub("hello"))
            with pytest.raises(AddressDead):
                await adapter.send(address, chunk, send_id="r1:1:0", plain=True)


class TestRestarting:
    async def test_a_line_stops_within_five_seconds(self, town: Town, bus: RedisBus, agent: EchoAgent) -> None:
        """Whatever poll or socket is open, and with an answer that nobody has yet."""
        agent.think_until(asyncio.Event())
        async with contextlib.AsyncExitStack() as ending:
            line = await ending.enter_async_context(town.line(bus))
            await town.stage.say(town.ann.id, town.dm(town.ann).id, "hello")
            await until(lambda: bool(agent.heard))
            async with asyncio.timeout(STOP_WITHIN_S):
                await line.stop(grace_s=1.0)
                await ending.aclose()

    async def test_an_address_survives(self, town: Town, bus: RedisBus, valkey_url: str) -> None:
        """What one process heard, another answers, in the same thread."""
        async with town.line(bus):
            await town.stage.say(town.ann.id, town.thread.id, "remember me", mention_bot=True)
            await until_queued(bus)
        async with EchoAgent(bus).at_work(), town.line(bus):
            assert await town.until_answers(1, town.thread) == ["echo: remember me"]

    async def test_a_kill_between_the_send_and_the_receipt(self, town: Town, valkey_url: str) -> None:
        """The next process finds out first what arrived."""
        first, second = await open_bus(valkey_url), await open_bus(valkey_url)
        dm = town.dm(town.ann)
        mute = DeafToAnswers(town.adapter(first))
        try:
            async with EchoAgent(second).at_work():
                async with town.line(first, adapter=mute):
                    await town.stage.say(town.ann.id, dm.id, "hello")
                    await mute.sent.wait()
                await first.close()
                async with town.line(second):
                    await town.stage.say(town.ann.id, dm.id, "next")
                    await until(lambda: town.texts(dm) == ["echo: hello", "echo: next"])
        finally:
            await second.close()


class TestAccess:
    async def test_a_stranger_gets_a_code_and_no_answer(self, town: Town, bus: RedisBus, agent: EchoAgent) -> None:
        rules = ChannelConfig(AccessPolicy(StrangerRule.PAIRING), SessionScope.PLACE)
        dm = town.dm(town.ann)
        async with town.line(bus, rules):
            await town.stage.say(town.ann.id, dm.id, "let me in")
            (told,) = await town.until_answers(1, dm)
        assert "code" in told
        assert agent.heard == []


class DeafToAnswers:
    """An adapter whose sends arrive but never come back: what a kill at the worst moment looks like."""

    def __init__(self, adapter: ChannelAdapter) -> None:
        self._adapter = adapter
        self.name = adapter.name
        self.run = adapter.run
        self.until_ready = adapter.until_ready
        self.chunks = adapter.chunks
        self.marked = adapter.marked
        self.budgets = adapter.budgets
        self.sent = asyncio.Event()

    @property
    def account(self) -> str:
        return self._adapter.account

    @property
    def state(self) -> str:
        return self._adapter.state

    async def send(self, address: ReplyAddress, chunk: AnyChunk, *, send_id: str, plain: bool) -> tuple[str, ...]:
        await self._adapter.send(address, chunk, send_id=send_id, plain=plain)
        self.sent.set()
        await asyncio.Event().wait()
        return ()
