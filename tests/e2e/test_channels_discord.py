"""What only Discord does, in front of its emulator: sessions without memory, roles, webhooks, threads, nonces."""

from __future__ import annotations

import pytest

from channels.core.adapter import OutgoingFile
from channels.discord.adapter import DiscordAdapter
from channels.discord.limits import NONCE_CHARS
from channels.discord.sending import nonce_of
from channels.emulators.discord import DiscordEmulator
from channels.emulators.stage import PlaceKind
from gateway.bus.bus import RedisBus
from gateway.contracts.errors import CredentialsRejected
from gateway.contracts.messages import literal_text
from tests.parts.answering import EchoAgent, agent
from tests.parts.incoming import NobodyHome
from tests.parts.only_discord import stage, town
from tests.parts.towns import Town, discord_endpoint, parts_on

__all__ = ["agent", "stage", "town"]


async def test_a_group_and_a_thread_are_read_back_after_a_restart(town: Town, bus: RedisBus, agent: EchoAgent) -> None:
    """A new session of the gateway tells nothing of what was before; the history does."""
    async with town.line(bus):
        await town.stage.say(town.ann.id, town.dm(town.ann).id, "before")
        await town.until_answers(1)
    await town.stage.say(town.ann.id, town.group.id, "in the group", mention_bot=True)
    await town.stage.say(town.ann.id, town.thread.id, "in the thread", mention_bot=True)
    async with town.line(bus):
        await town.until_answers(3)
        assert town.texts(town.group) == ["echo: in the group"]
        assert town.texts(town.thread) == ["echo: in the thread"]
        await town.stays_silent(3)


async def test_a_thread_we_were_called_into_needs_no_further_mention(
    town: Town, bus: RedisBus, agent: EchoAgent
) -> None:
    async with town.line(bus):
        await town.stage.say(town.ann.id, town.thread.id, "join us", mention_bot=True)
        await town.until_answers(1, town.thread)
        await town.stage.say(town.ben.id, town.thread.id, "hello")
        assert (await town.until_answers(2, town.thread))[1] == "echo: hello"


async def test_webhooks_are_no_people(town: Town, stage: DiscordEmulator, bus: RedisBus, agent: EchoAgent) -> None:
    async with town.line(bus):
        await stage.say_as_webhook("Build", town.group.id, f"<@{stage.application_id}> the build is red")
        await town.stage.say(town.ann.id, town.dm(town.ann).id, "marker")
        await town.until_answers(1)
        await town.stays_silent(1)


async def test_an_answer_pings_nobody(town: Town, bus: RedisBus, agent: EchoAgent) -> None:
    agent.answer = lambda text: "@everyone, look!"
    async with town.line(bus):
        await town.stage.say(town.ann.id, town.group.id, "shout", mention_bot=True)
        await town.until_answers(1, town.group)
    (said,) = town.answers(town.group)
    assert 'class="mention"' not in said.html


async def test_nothing_is_fetched_from_where_an_answer_leads(
    town: Town, stage: DiscordEmulator, bus: RedisBus, agent: EchoAgent
) -> None:
    """Not where the address comes with an edit either, and not where our words are beside a file, which is shown."""
    stage.switches.sends_unfurls = True
    adapter = DiscordAdapter(discord_endpoint(town.api_base), parts_on(bus))
    place = town.dm(town.ann)
    async with town.line(bus, adapter=adapter):
        await town.stage.say(town.ann.id, place.id, "https://example.org/mine")
        await town.until_answers(1)
        address = agent.heard[0].address
        (plain,), (linked,) = (
            adapter.chunks(literal_text(text)) for text in ("a word", "https://example.org/?q=secret")
        )
        (message_id,) = await adapter.send(address, plain, send_id="r:0", plain=False)
        assert await adapter.amend(address, linked, message_id=message_id, plain=False)
        file = adapter.file_chunk(OutgoingFile("a.png", "image/png", b"png", "https://example.org/?q=secret"))
        await adapter.send(address, file, send_id="r:1", plain=False)
    said = list(stage.world.channels[int(place.id)].messages.values())
    assert [bool(message.embeds) for message in said] == [True, False, False, False]
    assert said[-1].files


async def test_a_wrong_token_ends_the_line_with_a_sentence(town: Town, bus: RedisBus) -> None:
    adapter = DiscordAdapter(discord_endpoint(town.api_base, token="wrong"), parts_on(bus))
    with pytest.raises(CredentialsRejected, match=r"channels\.discord\.token"):
        await adapter.run(NobodyHome())


async def test_a_voice_in_a_new_channel_is_heard_after_a_restart(town: Town, bus: RedisBus, agent: EchoAgent) -> None:
    """A place without a mark of its own begins where the account stopped listening."""
    async with town.line(bus):
        await town.stage.say(town.ann.id, town.dm(town.ann).id, "before")
        await town.until_answers(1)
    garden = town.stage.add_place(PlaceKind.GROUP, "garden")
    await town.stage.say(town.ann.id, garden.id, "first words here", mention_bot=True)
    async with town.line(bus):
        assert await town.until_answers(1, garden) == ["echo: first words here"]


def test_a_nonce_is_the_same_for_every_attempt_and_fits() -> None:
    """Discord shows the earlier message instead of a second one for the same nonce of at most 25 characters."""
    assert nonce_of("reply-1:0") == nonce_of("reply-1:0")
    assert nonce_of("reply-1:0") != nonce_of("reply-1:1")
    assert len(nonce_of("reply-1:0")) == NONCE_CHARS <= 25
