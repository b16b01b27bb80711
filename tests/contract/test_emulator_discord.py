"""The emulated Discord, driven by the real discord.py client and, for odd corners, by raw HTTP and websockets."""

from __future__ import annotations

from channels.emulators.stage import PlaceKind
from tests.parts.emulated_discord import DiscordWorld, discord, discord_world
from tests.parts.loopback import until

__all__ = ["discord_world"]


async def test_a_direct_message_is_heard_and_answered(discord_world: DiscordWorld) -> None:
    """A DM reaches the client without a guild; the answer stands in the same chat."""
    stage = discord_world.emulator
    ada = stage.add_person("Ada")
    place = next(p for p in stage.places() if p.person_id == ada.id)
    async with discord_world.client() as client:
        said = await stage.say(ada.id, place.id, "hello")
        await until(lambda: client.messages)
        message = client.messages[0]
        assert (str(message.id), message.content, message.guild) == (said.id, "hello", None)
        assert isinstance(message.channel, discord.DMChannel)
        async with message.channel.typing():
            sent = await message.channel.send("**hi**")
        await sent.edit(content="*hi* again")
        await until(lambda: client.edits)
    answer = stage.said(place.id)[-1]
    assert (answer.text, answer.html, answer.edited) == ("*hi* again", "<em>hi</em> again", True)


async def test_a_mention_in_a_channel_is_answered_in_a_thread_from_it(discord_world: DiscordWorld) -> None:
    stage = discord_world.emulator
    ada, hall = stage.add_person("Ada"), stage.add_place(PlaceKind.GROUP, "Town Hall")
    async with discord_world.client() as client:
        await stage.say(ada.id, hall.id, "are you there?", mention_bot=True)
        await until(lambda: client.messages)
        message = client.messages[0]
        assert client.user in message.mentions
        assert isinstance(message.channel, discord.TextChannel)
        assert message.channel.name == "town-hall"
        thread = await message.create_thread(name="Talk")
        assert thread.id == message.id
        await thread.send("here")
        await stage.say(ada.id, str(thread.id), "good")
        await until(lambda: "good" in client.texts())
        assert client.messages[-1].channel == thread
    assert [said.text for said in stage.said(str(thread.id))][1:] == ["here", "good"]
