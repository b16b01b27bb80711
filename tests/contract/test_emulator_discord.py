"""The emulated Discord, driven by the real discord.py client and, for odd corners, by raw HTTP."""

from __future__ import annotations

import io
from collections.abc import Coroutine
from typing import Any

import aiohttp
import httpx
import pytest

from channels.emulators.stage import EventKind, Person, Place, PlaceKind, SharedFile
from tests.parts.emulated_discord import DiscordWorld, Heard, ada_in_the_hall, discord, discord_world
from tests.parts.waiting import until

__all__ = ["discord_world"]


def ada_and_her_dm(world: DiscordWorld) -> tuple[Person, Place]:
    ada = world.emulator.add_person("Ada")
    return ada, next(p for p in world.emulator.places() if p.person_id == ada.id)


async def first(client: Heard) -> discord.Message:
    await until(lambda: client.messages)
    return client.messages[0]


# --- conversations


async def test_a_direct_message_is_heard_and_answered(discord_world: DiscordWorld) -> None:
    """A DM reaches the client without a guild; the answer stands in the same chat."""
    stage, (ada, place) = discord_world.emulator, ada_and_her_dm(discord_world)
    async with discord_world.client() as client:
        said = await stage.say(ada.id, place.id, "hello")
        message = await first(client)
        assert (str(message.id), message.content, message.guild) == (said.id, "hello", None)
        assert isinstance(message.channel, discord.DMChannel)
        async with message.channel.typing():
            sent = await message.channel.send("**hi**")
        await sent.edit(content="*hi* again")
        await until(lambda: client.edits)
    answer = stage.said(place.id)[-1]
    assert (answer.text, answer.html, answer.edited) == ("*hi* again", "<em>hi</em> again", True)


async def test_what_is_passed_on_carries_its_words_and_files_and_no_author(discord_world: DiscordWorld) -> None:
    """Twice, even; the words that go along are a message of their own."""
    stage, (ada, place) = discord_world.emulator, ada_and_her_dm(discord_world)
    noor, hall = stage.add_person("Noor"), stage.add_place(PlaceKind.GROUP, "Hall")
    async with discord_world.client() as client:
        said = await stage.say(noor.id, hall.id, "soup **now**", files=[SharedFile("menu.txt", "text/plain", b"soup")])
        once = await stage.share(ada.id, said.id, hall.id, place.id, "look")
        await stage.share(ada.id, once.id, place.id, place.id)
        await until(lambda: len(client.messages) == 4)
        _, forwarded, words, again = client.messages
        assert (forwarded.content, words.content, forwarded.author.name) == ("", "look", "ada")
        for message in (forwarded, again):
            assert message.reference is not None
            assert (message.reference.type, message.flags.forwarded) == (discord.MessageReferenceType.forward, True)
            (snapshot,) = message.message_snapshots
            assert (snapshot.content, snapshot.attachments[0].filename) == ("soup **now**", "menu.txt")
    assert (once.html, once.files) == (
        "<blockquote><small>Forwarded</small>\nsoup <strong>now</strong></blockquote>",
        ("menu.txt",),
    )
    assert stage.file(once.id, place.id, 0).content == b"soup"


async def test_a_mention_in_a_channel_is_answered_in_a_thread_from_it(discord_world: DiscordWorld) -> None:
    stage, (ada, hall) = discord_world.emulator, ada_in_the_hall(discord_world)
    async with discord_world.client() as client:
        await stage.say(ada.id, hall.id, "are you there?", mention_bot=True)
        message = await first(client)
        assert client.user in message.mentions
        assert isinstance(message.channel, discord.TextChannel)
        assert message.channel.name == "town-hall"
        thread = await message.create_thread(name="Talk")
        assert thread.id == message.id
        await thread.send("here")
        await stage.say(ada.id, str(thread.id), "good")
        await until(lambda: "good" in client.texts())
        assert client.messages[-1].channel == thread
        with pytest.raises(discord.HTTPException) as twice:
            await message.create_thread(name="Talk again")
        assert twice.value.code == 160004
    assert [said.text for said in stage.said(str(thread.id))][1:] == ["here", "good"]
    place = next(p for p in stage.places() if p.kind is PlaceKind.THREAD)
    assert (place.id, place.parent_id, place.title) == (str(thread.id), hall.id, "Talk")


async def test_a_person_opens_a_thread_and_an_archived_one_wakes_up(discord_world: DiscordWorld) -> None:
    """A thread without a message is announced by a system message; writing in an archived thread unarchives it."""
    stage, (ada, hall) = discord_world.emulator, ada_in_the_hall(discord_world)
    async with discord_world.client() as client:
        thread_place = stage.add_place(PlaceKind.THREAD, "Side talk", parent_id=hall.id)
        await until(lambda: client.heard_threads and client.messages)
        assert client.messages[0].is_system()
        with pytest.raises(discord.HTTPException) as refused:
            await client.messages[0].reply("to the system?")
        assert refused.value.code == 50035
        thread = client.heard_threads[0]
        stage.switches.moderates = True
        await thread.edit(archived=True)
        await stage.say(ada.id, thread_place.id, "still there?")
        await until(lambda: "still there?" in client.texts())
        assert not stage.world.channels[thread.id].archived
        await thread.edit(archived=True, locked=True)
        with pytest.raises(discord.HTTPException) as locked:
            await thread.send("no")
        assert locked.value.code == 50083


async def test_replies_with_and_without_a_ping_and_the_managed_role(discord_world: DiscordWorld) -> None:
    """A ping puts the bot into `mentions`; without it only the referenced message tells; a role is a third way."""
    stage, (ada, hall) = discord_world.emulator, ada_in_the_hall(discord_world)
    async with discord_world.client() as client:
        sent = await client.get_partial_messageable(int(hall.id)).send("question?")
        await stage.say(ada.id, hall.id, "with ping", reply_to=str(sent.id))
        await stage.say(ada.id, hall.id, "without", reply_to=str(sent.id), ping_reply=False)
        await stage.say(ada.id, hall.id, "role", mention_role=True)
        await stage.say(ada.id, hall.id, "@everyone look")
        await until(lambda: len(client.messages) == 5)
        _, pinging, silent, role, everyone = client.messages
        assert client.user in pinging.mentions
        assert client.user not in silent.mentions
        assert silent.type is discord.MessageType.reply
        assert isinstance(silent.reference and silent.reference.resolved, discord.Message)
        assert role.guild is not None
        assert role.role_mentions == [role.guild.self_role]
        assert client.user not in role.mentions
        assert everyone.mention_everyone
    assert stage.said(hall.id)[1].reply_to == str(sent.id)
    assert stage.said(hall.id)[3].text == "@Trivet role"


async def test_other_bots_and_webhooks_are_heard_as_what_they_are(discord_world: DiscordWorld) -> None:
    stage, (_, hall) = discord_world.emulator, ada_in_the_hall(discord_world)
    robot = stage.add_bot("Robot")
    async with discord_world.client() as client:
        await stage.say(robot.id, hall.id, "beep", mention_bot=True)
        await stage.say_as_webhook("Builds", hall.id, "passed")
        await client.get_partial_messageable(int(hall.id)).send("mine")
        await until(lambda: len(client.messages) == 3)
        beep, passed, mine = client.messages
        assert (beep.author.bot, beep.webhook_id) == (True, None)
        assert passed.webhook_id is not None
        assert mine.author == client.user


async def test_people_see_what_the_bot_does_as_it_happens(discord_world: DiscordWorld) -> None:
    stage, (ada, place) = discord_world.emulator, ada_and_her_dm(discord_world)
    events = stage.events()
    async with discord_world.client() as client:
        await stage.say(ada.id, place.id, "hello")
        channel = (await first(client)).channel
        await channel.typing()
        sent = await channel.send("one")
        await sent.edit(content="two")
        await sent.delete()
        seen = [await anext(events) for _ in range(5)]
        await until(lambda: client.deletes)
    assert [event.kind for event in seen] == [
        EventKind.SAID,
        EventKind.TYPING,
        EventKind.SAID,
        EventKind.EDITED,
        EventKind.DELETED,
    ]
    assert seen[1].status == "Trivet is typing"
    assert seen[4].message_id == str(sent.id)


async def test_edits_and_deletions_of_people_are_heard(discord_world: DiscordWorld) -> None:
    stage, (ada, hall) = discord_world.emulator, ada_in_the_hall(discord_world)
    async with discord_world.client() as client:
        said = await stage.say(ada.id, hall.id, "first")
        await stage.edit(said.id, hall.id, "second")
        await stage.delete(said.id, hall.id)
        await until(lambda: client.deletes)
        assert client.edits[0].data["content"] == "second"
        assert client.edits[0].data["edited_timestamp"] is not None


async def test_an_unfurled_link_updates_a_message_without_an_edit(discord_world: DiscordWorld) -> None:
    stage, (ada, place) = discord_world.emulator, ada_and_her_dm(discord_world)
    stage.switches.sends_unfurls = True
    async with discord_world.client() as client:
        await stage.say(ada.id, place.id, "see https://example.org/page")
        await until(lambda: client.edits)
        assert client.edits[0].data["edited_timestamp"] is None
        assert client.edits[0].data["embeds"]


async def test_files_travel_both_ways_and_links_die(discord_world: DiscordWorld) -> None:
    """Attachments come with signed links that stop working; uploads are multipart with a JSON part."""
    stage, (ada, place) = discord_world.emulator, ada_and_her_dm(discord_world)
    async with discord_world.client() as client:
        await stage.say(ada.id, place.id, "", files=[SharedFile("notes.txt", "text/plain", b"remember")])
        message = await first(client)
        attachment = message.attachments[0]
        assert await attachment.read() == b"remember"
        assert (attachment.filename, attachment.content_type) == ("notes.txt", "text/plain")
        sent = await message.channel.send("here", file=discord.File(io.BytesIO(b"\x00" * 9), "nine.bin"))
        assert sent.attachments[0].size == 9
        async with httpx.AsyncClient(trust_env=False) as http:
            dead = await http.get(attachment.url.partition("?")[0] + "?ex=1&is=1&hm=1")
        assert dead.status_code == 404
    assert stage.said(place.id)[-1].files == ("nine.bin",)


# --- what happened while the bot was away


async def test_history_is_there_for_who_was_away(discord_world: DiscordWorld) -> None:
    stage, (ada, hall) = discord_world.emulator, ada_in_the_hall(discord_world)
    ids = [int((await stage.say(ada.id, hall.id, f"n{n}")).id) for n in range(7)]
    async with discord_world.client() as client:
        channel = client.get_partial_messageable(int(hall.id))
        after = [m.content async for m in channel.history(after=discord.Object(ids[2]), oldest_first=True)]
        before = [m.content async for m in channel.history(before=discord.Object(ids[2]), limit=1)]
        assert after == ["n3", "n4", "n5", "n6"]
        assert before == ["n1"]
        assert isinstance(text := client.get_channel(int(hall.id)), discord.TextChannel)
        assert text.last_message_id == ids[-1]


async def test_without_the_content_intent_only_what_concerns_the_bot_is_readable(discord_world: DiscordWorld) -> None:
    """Direct messages, mentions and own messages are whole; everything else is blank, in history too."""
    stage, (ada, hall) = discord_world.emulator, ada_in_the_hall(discord_world)
    dm = next(p for p in stage.places() if p.person_id == ada.id)
    stage.switches.has_message_content = False
    async with discord_world.client(intents=37377 & ~32768) as client:
        await stage.say(ada.id, hall.id, "among ourselves")
        await stage.say(ada.id, hall.id, "you", mention_bot=True)
        await stage.say(ada.id, dm.id, "just you")
        await until(lambda: len(client.messages) == 3)
        assert client.texts() == ["", f"<@{client.user and client.user.id}> you", "just you"]
        channel = client.get_partial_messageable(int(hall.id))
        assert [m.content async for m in channel.history(limit=1, oldest_first=True)] == [""]


# --- refusals


async def test_what_discord_refuses(discord_world: DiscordWorld) -> None:
    stage, (ada, hall) = discord_world.emulator, ada_in_the_hall(discord_world)
    stage.switches.rates.clear()
    said = await stage.say(ada.id, hall.id, "mine")
    async with discord_world.client() as client:
        channel = client.get_partial_messageable(int(hall.id))
        foreign = channel.get_partial_message(int(said.id))
        gone = discord.MessageReference(message_id=1, channel_id=int(hall.id))
        cases: dict[int, list[Coroutine[Any, Any, object]]] = {
            50035: [
                channel.send("x" * 2001),
                channel.send("y", reference=gone),
                channel.send("z", nonce="n" * 26),
                channel.send("a card", embed=discord.Embed(title="card")),
            ],
            50006: [channel.send(" \n ")],
            50005: [foreign.edit(content="yours")],
            50013: [foreign.delete()],
            10003: [client.get_partial_messageable(99).send("nowhere")],
            10008: [channel.fetch_message(99)],
        }
        for code, attempts in cases.items():
            for attempt in attempts:
                with pytest.raises(discord.HTTPException) as refused:
                    await attempt
                assert refused.value.code == code
        await channel.send("😀" * 2000)
        lenient = discord.MessageReference(message_id=1, channel_id=int(hall.id), fail_if_not_exists=False)
        assert (await channel.send("anyway", reference=lenient)).reference is None


async def test_allowed_mentions_decide_who_is_pinged(discord_world: DiscordWorld) -> None:
    stage, (ada, hall) = discord_world.emulator, ada_in_the_hall(discord_world)
    said = await stage.say(ada.id, hall.id, "hm")
    none = discord.AllowedMentions.none()
    async with discord_world.client() as client:
        channel = client.get_partial_messageable(int(hall.id))
        target = channel.get_partial_message(int(said.id))
        loud = await channel.send(f"<@{ada.id}> @everyone")
        quiet = await channel.send(f"<@{ada.id}> @everyone `<@{ada.id}>`", allowed_mentions=none)
        reply = await channel.send("re", reference=target, mention_author=True, allowed_mentions=none)
        assert ([user.id for user in loud.mentions], loud.mention_everyone) == ([int(ada.id)], True)
        assert (quiet.mentions, quiet.mention_everyone) == ([], False)
        assert [user.id for user in reply.mentions] == [int(ada.id)]


async def test_a_wrong_token_ends_the_login(discord_world: DiscordWorld) -> None:
    client = Heard(513)
    with pytest.raises(discord.LoginFailure):
        await client.login("wrong")
    await client.close()
    async with discord_world.http("wrong") as http:
        response = await http.get("/users/@me")
    assert (response.status_code, response.json()) == (401, {"message": "401: Unauthorized", "code": 0})


async def test_a_blocked_bot_hears_nothing_and_may_not_write(discord_world: DiscordWorld) -> None:
    stage, (ada, hall) = discord_world.emulator, ada_in_the_hall(discord_world)
    dm = next(p for p in stage.places() if p.person_id == ada.id)
    async with discord_world.client() as client:
        stage.faults.blocked = True
        await stage.say(ada.id, hall.id, "psst", mention_bot=True)
        for place, code in ((dm, 50007), (hall, 50013)):
            with pytest.raises(discord.Forbidden) as refused:
                await client.get_partial_messageable(int(place.id)).send("hello?")
            assert refused.value.code == code
        with pytest.raises(discord.Forbidden) as unseen:
            await client.fetch_channel(int(hall.id))
        assert unseen.value.code == 50001
        stage.faults.blocked = False
        await stage.say(ada.id, hall.id, "back")
        assert (await first(client)).content == "back"


async def test_routes_that_do_not_exist_and_bodies_that_are_no_json(discord_world: DiscordWorld) -> None:
    _, hall = ada_in_the_hall(discord_world)
    path = f"/channels/{hall.id}/messages"
    async with discord_world.http() as http:
        assert (await http.get("/nothing/here")).json() == {"message": "404: Not Found", "code": 0}
        assert (await http.put(path)).status_code == 405
        broken = await http.post(path, content="{", headers={"Content-Type": "application/json"})
        assert broken.json()["code"] == 50109
        assert (await http.get("/channels/abc")).json()["code"] == 50035
        assert (await http.get(path, params={"limit": 101})).json()["code"] == 50035
        answer = await http.get("/gateway/bot")
        assert answer.json()["url"] == f"ws://{discord_world.address}/gateway"
        assert answer.headers["content-type"] == "application/json"


# --- rates and faults


async def test_the_sixth_message_in_five_seconds_is_refused_with_directions(discord_world: DiscordWorld) -> None:
    _, hall = ada_in_the_hall(discord_world)
    async with discord_world.http() as http:
        answers = [await http.post(f"/channels/{hall.id}/messages", json={"content": str(n)}) for n in range(6)]
    assert [answer.status_code for answer in answers] == [200] * 5 + [429]
    assert [answer.headers["x-ratelimit-remaining"] for answer in answers] == ["4", "3", "2", "1", "0", "0"]
    refused = answers[-1]
    assert (refused.json()["global"], refused.headers["via"]) == (False, "1.1 google")
    assert 0 < refused.json()["retry_after"] <= 5
    assert (refused.headers["x-ratelimit-scope"], refused.headers["x-ratelimit-limit"]) == ("user", "5")
    assert len(discord_world.emulator.said(hall.id)) == 5


async def test_the_clients_own_limiter_needs_no_refusal(discord_world: DiscordWorld) -> None:
    """discord.py reads the headers and waits by itself: twelve messages, not one 429."""
    stage, (_, hall) = discord_world.emulator, ada_in_the_hall(discord_world)
    stage.switches.rates["create_message"] = (5, 0.4)
    async with discord_world.client() as client:
        channel = client.get_partial_messageable(int(hall.id))
        for number in range(12):
            await channel.send(str(number))
    assert [said.text for said in stage.said(hall.id)] == [str(number) for number in range(12)]
    assert sum(path.endswith("/messages") for _, path in stage.api.requests) == 12


async def test_a_refusal_without_via_looks_like_a_ban(discord_world: DiscordWorld) -> None:
    stage, (_, hall) = discord_world.emulator, ada_in_the_hall(discord_world)
    stage.faults.retry_after_s = 0.05
    async with discord_world.client() as client:
        channel = client.get_partial_messageable(int(hall.id))
        stage.faults.rate_limit = 1
        await channel.send("after a while")
        stage.faults.rate_limit, stage.faults.other["no_via"] = 1, 1
        with pytest.raises(discord.HTTPException) as banned:
            await channel.send("never")
        assert banned.value.status == 429
    assert [said.text for said in stage.said(hall.id)] == ["after a while"]


async def test_a_message_whose_answer_was_lost_is_not_posted_twice(discord_world: DiscordWorld) -> None:
    """The connection drops after the post; the same nonce gives the message that is already there."""
    stage, (_, hall) = discord_world.emulator, ada_in_the_hall(discord_world)
    async with discord_world.client() as client:
        channel = client.get_partial_messageable(int(hall.id))
        stage.faults.drop_after = 1
        with pytest.raises(aiohttp.ClientError):
            await channel.send("once", nonce="row-1")
        again = await channel.send("once", nonce="row-1")
        stage.faults.drop_before = 1
        with pytest.raises(aiohttp.ClientError):
            await channel.send("later", nonce="row-2")
        stage.faults.server_error = 1
        await channel.send("later", nonce="row-2")
        assert [said.text for said in stage.said(hall.id)] == ["once", "later"]
        assert str(again.id) == stage.said(hall.id)[0].id
        stage.switches.nonce_window_s = 0
        await channel.send("once", nonce="row-1")
        assert [said.text for said in stage.said(hall.id)] == ["once", "later", "once"]


async def test_a_nonce_alone_does_not_dedupe(discord_world: DiscordWorld) -> None:
    stage, (_, hall) = discord_world.emulator, ada_in_the_hall(discord_world)
    async with discord_world.http() as http:
        for _ in range(2):
            await http.post(f"/channels/{hall.id}/messages", json={"content": "twice", "nonce": "n"})
        body = {"content": "once", "nonce": "m", "enforce_nonce": True}
        ids = {(await http.post(f"/channels/{hall.id}/messages", json=body)).json()["id"] for _ in range(2)}
    assert len(ids) == 1
    assert [said.text for said in stage.said(hall.id)] == ["twice", "twice", "once"]


async def test_faults_aim_at_what_people_see_unless_told_otherwise(discord_world: DiscordWorld) -> None:
    stage, (_, hall) = discord_world.emulator, ada_in_the_hall(discord_world)
    faults, typing = stage.faults, f"/channels/{hall.id}/typing"
    async with discord_world.http() as http:
        faults.server_error = 1
        assert (await http.post(typing)).status_code == 204
        faults.other["any_request"] = 1
        broken = await http.post(typing)
        assert (broken.status_code, broken.headers["content-type"]) == (502, "text/html; charset=utf-8")
        faults.rate_limit, faults.retry_after_s, faults.other["global_limit"] = 1, 2.5, 1
        limited = await http.post(typing)
        assert (limited.json()["global"], limited.json()["retry_after"]) == (True, 2.5)
        assert (limited.headers["x-ratelimit-global"], limited.headers["x-ratelimit-scope"]) == ("true", "global")
        faults.blocked, faults.other["forbidden_code"] = True, 50001
        assert (await http.post(typing)).json()["code"] == 50001
        faults.blocked, faults.delay_s = False, 0.01
        assert (await http.post(typing)).status_code == 204
        stage.switches.global_per_s = 1
        assert [(await http.get("/users/@me")).status_code for _ in range(2)][-1] == 429


async def test_a_refused_format_is_refused_once(discord_world: DiscordWorld) -> None:
    stage, (_, hall) = discord_world.emulator, ada_in_the_hall(discord_world)
    stage.faults.refuse_format = 1
    async with discord_world.client() as client:
        channel = client.get_partial_messageable(int(hall.id))
        with pytest.raises(discord.HTTPException) as refused:
            await channel.send("**x**")
        assert (refused.value.status, refused.value.code) == (400, 50035)
        await channel.send("x")
    assert [said.text for said in stage.said(hall.id)] == ["x"]


# --- interactions


async def test_a_message_has_one_thread_at_most(discord_world: DiscordWorld) -> None:
    stage = discord_world.emulator
    ada, hall = stage.add_person("Ada"), stage.add_place(PlaceKind.GROUP, "Hall")
    said = await stage.say(ada.id, hall.id, "Who has the key?")
    thread = stage.thread_from(ada.id, hall.id, said.id, "the key")
    assert (thread.root_id, thread.parent_id) == (said.id, hall.id)
    assert stage.thread_from(ada.id, hall.id, said.id, "the key, again") == thread
