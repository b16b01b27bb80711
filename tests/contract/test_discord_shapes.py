"""What Discord may leave out, say anew or refuse, through the real SDK: it ends no session and loses no answer.

The shapes are those of Discord's documents, in which fields may be absent, null, or new.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

import pytest
from aiohttp import web
from aiohttp.test_utils import RawTestServer
from discord.http import Route

from channels.discord import client, limits
from channels.emulators.discord import DiscordEmulator
from channels.emulators.discord.gateway import GatewayEvent
from channels.emulators.discord.world import DiscordRefusal, invalid_form
from channels.emulators.stage import Json
from gateway.bus.bus import RedisBus
from gateway.contracts.access import AccessPolicy, PlaceRule, StrangerRule
from gateway.contracts.ids import SessionKey
from gateway.contracts.messages import QuoteKind
from tests.parts.answering import EchoAgent, agent, until_at_most_queued, until_delivered, until_queued
from tests.parts.only_discord import stage, town
from tests.parts.towns import OPEN, Town
from tests.parts.waiting import until

__all__ = ["agent", "stage", "town"]


def told(stage: DiscordEmulator, event: str, payload: object) -> None:
    """An event of the gateway, as it stands here."""
    stage.gateway.dispatch(GatewayEvent(event, lambda _all: payload))  # type: ignore[arg-type, return-value]


def message(stage: DiscordEmulator, town: Town, content: str, **more: object) -> Json:
    """The least that is a message: who said what, where."""
    author: Json = {"id": town.ann.id, "username": "ann"}
    dm = town.dm(town.ann)
    return {"id": str(stage.world.new_id()), "channel_id": dm.id, "author": author, "content": content, **more}


POLL: Final[Json] = {
    "question": {"text": "Soup?"},
    "answers": [{"answer_id": 1, "poll_media": {"text": "yes"}}, {"answer_id": 2, "poll_media": {"text": "no"}}],
    "expiry": None,
}
SNAPSHOT: Final[Json] = {"message": {"content": "the oven is hot"}}
CARD: Final[Json] = {"title": "Oven", "fields": [{"name": "heat", "value": "200"}]}
FILE: Final[Json] = {"id": "5", "filename": "a.txt", "size": 3, "url": "http://127.0.0.1/a.txt"}
SHAPES: Final[Mapping[str, Json]] = {
    "least": {},
    "components of next year": {"components": [{"type": 77, "components": [{"type": 78}]}]},
    "an embed without a type": {"embeds": [{}]},
    "flags and fields of next year": {"flags": 1 << 40, "something": {"new": True}, "activity": None},
    "an answer to what is gone": {"type": 19, "message_reference": {"message_id": "1"}, "referenced_message": None},
    "an answer to what was not loaded": {"type": 19, "message_reference": {"message_id": "1"}},
    "a system's data": {"call": {"participants": []}, "role_subscription_data": {}, "purchase_notification": {}},
    "an interaction's data": {"interaction_metadata": {"id": "1"}, "interaction": {}},
    "a file with half of its fields": {"attachments": [FILE]},
    "a sticker of a new format": {"sticker_items": [{"id": "1", "name": "wave", "format_type": 9}]},
}


async def test_a_message_is_heard_whatever_else_is_absent_or_new(
    town: Town, stage: DiscordEmulator, bus: RedisBus, agent: EchoAgent
) -> None:
    async with town.line(bus):
        for name, more in SHAPES.items():
            told(stage, "MESSAGE_CREATE", message(stage, town, name, **more))
        await until(lambda: len(agent.heard) == len(SHAPES), lambda: [heard.text for heard in agent.heard])
    assert [heard.text for heard in agent.heard] == list(SHAPES)
    assert stage.gateway.identified == 1


async def test_what_is_passed_on_asked_or_shown_in_a_card_is_read(
    town: Town, stage: DiscordEmulator, bus: RedisBus, agent: EchoAgent
) -> None:
    """A message may have no words of its own."""
    forward: Json = {"message_reference": {"type": 1, "message_id": "1"}, "message_snapshots": [SNAPSHOT]}
    card: Json = {
        "message_reference": {"type": 1, "message_id": "1"},
        "message_snapshots": [{"message": {"embeds": [CARD]}}],
    }
    async with town.line(bus):
        for more in ({"poll": POLL}, forward, card):
            told(stage, "MESSAGE_CREATE", message(stage, town, "", **more))
        await until(lambda: len(agent.heard) == 3, lambda: agent.heard)
    poll, passed_on, shown = agent.heard
    assert poll.text == "Soup?\n- yes\n- no"
    assert [(quote.kind, quote.text) for quote in passed_on.quotes] == [(QuoteKind.FORWARD, "the oven is hot")]
    assert [quote.text for quote in shown.quotes] == ["Oven\nheat: 200"]


async def test_an_update_that_nobody_wrote_changes_nothing(
    town: Town, stage: DiscordEmulator, bus: RedisBus, agent: EchoAgent
) -> None:
    """Whatever part of the message it shows."""
    dm = town.dm(town.ann)
    async with town.line(bus):
        said = await stage.say(town.ann.id, dm.id, "soup")
        await town.until_answers(1)
        for more in ({}, {"embeds": [CARD]}, {"pinned": True}, {"flags": 4}, {"content": "x"}, {"author": None}):
            told(stage, "MESSAGE_UPDATE", {"id": said.id, "channel_id": dm.id, **more})
        await stage.say(town.ann.id, dm.id, "marker")
        assert await town.until_answers(2) == ["echo: soup", "echo: marker"]
        await town.stays_silent(2)
    assert stage.gateway.identified == 1


EVENTS: Final[Sequence[tuple[str, Json | None]]] = (
    ("THREAD_CREATE", {"id": "1"}),
    ("GUILD_MEMBER_UPDATE", {}),
    ("INTERACTION_CREATE", {"id": "1", "type": 9}),
    ("MESSAGE_DELETE", {"id": "1"}),
    ("MESSAGE_CREATE", {}),
    ("MESSAGE_CREATE", None),
    ("MESSAGE_REACTION_ADD", {}),
    ("ENTITLEMENT_CREATE", {}),
    ("GUILD_ROLE_DELETE", {}),
)


async def test_an_event_that_nobody_can_read_costs_no_session(
    town: Town, stage: DiscordEmulator, bus: RedisBus, agent: EchoAgent
) -> None:
    """The SDK would lose its connection over each of them."""
    async with town.line(bus):
        for name, payload in EVENTS:
            told(stage, name, payload)
        await stage.say(town.ann.id, town.dm(town.ann).id, "hello")
        assert await town.until_answers(1) == ["echo: hello"]
    assert stage.gateway.identified == 1


async def test_what_was_sent_is_known_however_little_discord_says_of_it(
    town: Town, stage: DiscordEmulator, bus: RedisBus, agent: EchoAgent
) -> None:
    """Not taken for lost, and not sent again."""
    stage.switches.says_little = True
    async with town.line(bus):
        await stage.say(town.ann.id, town.group.id, "hello", mention_bot=True)
        await town.until_answers(1, town.group)
        await until_delivered(bus, "discord")
        await town.stays_silent(1)


async def test_the_first_question_names_its_client_in_the_form_that_is_asked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """`DiscordBot (address, version)`: other clients may be blocked. The SDK asks the other questions."""
    monkeypatch.setattr(Route, "BASE", Route.BASE)
    agents = list[str]()

    async def answer(request: web.BaseRequest) -> web.Response:
        agents.append(request.headers["User-Agent"])
        return web.json_response({})

    async with RawTestServer(answer) as server:
        await client.prepare(client.DiscordEndpoint("token", str(server.make_url("")).rstrip("/"), ""))
    assert {bool(re.fullmatch(r"DiscordBot \(https?://\S+, \S+\)", agent)) for agent in agents} == {True}


async def test_answers_are_read_where_their_media_type_names_a_charset(
    town: Town, stage: DiscordEmulator, bus: RedisBus, agent: EchoAgent
) -> None:
    """As many servers write it; the SDK takes them for text, and could not even log in."""
    stage.faults.other["charset"] = 1
    async with town.line(bus):
        await stage.say(town.ann.id, town.dm(town.ann).id, "hello")
        assert await town.until_answers(1) == ["echo: hello"]


ABSENT: Final = {"attachment_size_limit", "channel", "context", "version", "locale", "entitlements", "guild"}


async def test_a_command_is_taken_whatever_its_interaction_leaves_out(
    town: Town, stage: DiscordEmulator, bus: RedisBus, agent: EchoAgent, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It belongs where it was chosen."""
    shape = stage.interactions._shape
    monkeypatch.setattr(
        type(stage.interactions),
        "_shape",
        lambda _self, asked: {name: value for name, value in shape(asked).items() if name not in ABSENT},
    )
    async with town.line(bus):
        await until(lambda: stage.menu(town.ann.id, town.group.id))
        for place in (town.group, town.dm(town.ann)):
            await stage.invoke(town.ann.id, place.id, "usage", "")
            await town.until_answers(1, place)
    keys = [str(heard.key) for heard in agent.heard]
    assert keys == [f"discord:{town.ann.id}/{town.group.id}", f"discord:{town.ann.id}"]


REFUSALS: Final = (
    DiscordRefusal(403, limits.REPLY_NEEDS_HISTORY, "Cannot reply without permission to read message history"),
    invalid_form("message_reference", "REPLIES_CANNOT_REPLY_TO_SYSTEM_MESSAGE", "Cannot reply to this."),
)


async def test_where_an_answer_may_not_name_its_question_it_stands_alone(
    town: Town, stage: DiscordEmulator, bus: RedisBus, agent: EchoAgent
) -> None:
    """The channel may be open to us, and its history closed."""
    async with town.line(bus):
        for count, refusal in enumerate(REFUSALS, 1):
            stage.switches.refuses_replies = refusal
            await stage.say(town.ann.id, town.group.id, "hello", mention_bot=True)
            assert await town.until_answers(count, town.group) == ["echo: hello"] * count
    assert {said.reply_to for said in town.answers(town.group)} == {None}


async def test_messages_that_were_deleted_together_are_not_answered(
    town: Town, stage: DiscordEmulator, bus: RedisBus
) -> None:
    """As a moderator does it: one event for all of them."""
    async with town.line(bus):
        said = [await stage.say(town.ann.id, town.group.id, text, mention_bot=True) for text in ("one", "two")]
        await until_queued(bus, 2)
        ids = {"ids": [each.id for each in said], "channel_id": town.group.id, "guild_id": str(stage.guild.id)}
        told(stage, "MESSAGE_DELETE_BULK", ids)
        await until_at_most_queued(bus, 0)
        await stage.say(town.ann.id, town.group.id, "three", mention_bot=True)
        async with EchoAgent(bus).at_work():
            assert await town.until_answers(1) == ["echo: three"]


async def test_a_thread_that_nobody_told_of_is_known_by_its_channel(
    town: Town, stage: DiscordEmulator, bus: RedisBus, agent: EchoAgent
) -> None:
    """One that was asleep when the session began: who is called into it stays in it."""
    stage.switches.hides_threads = True
    async with town.line(bus):
        await stage.say(town.ann.id, town.thread.id, "help us", mention_bot=True)
        await town.until_answers(1, town.thread)
        await stage.say(town.ann.id, town.thread.id, "and?")
        await town.until_answers(2, town.thread)
    assert {str(heard.key) for heard in agent.heard} == {f"discord:{town.ann.id}/{town.group.id}/{town.thread.id}"}


async def test_the_roles_of_an_author_count_though_nobody_told_of_the_server(
    town: Town, stage: DiscordEmulator, bus: RedisBus, agent: EchoAgent
) -> None:
    """As after a GUILD_CREATE that nobody can read: the message itself names server and roles."""
    server = SessionKey("discord", "", ("77",))
    access = AccessPolicy(StrangerRule.CLOSED, places={server: PlaceRule(roles=("5",))})
    asked: Json = {"guild_id": "77", "channel_id": town.group.id, "member": {"nick": "Ann", "roles": ["5"]}}
    async with town.line(bus, replace(OPEN, access=access)):
        words = f"<@{stage.world.bot.id}> soup?"
        told(stage, "MESSAGE_CREATE", {**message(stage, town, words), **asked})
        assert await town.until_answers(1, town.group) == ["echo: soup?"]
