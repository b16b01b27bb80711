"""Send to Discord: messages, ephemeral replies to commands, threads and their names."""

from __future__ import annotations

import base64
import hashlib
import io
import logging
from dataclasses import replace
from typing import Final, cast

import discord
from discord.ui import View

from channels.core.adapter import MARKS
from channels.core.attempt import AGAIN
from channels.core.message import Raw, mapping, text
from channels.discord import limits
from channels.discord.history import snowflake_at
from channels.discord.interactions import ORIGINAL, InteractionTokens, change, hook_of, view_of
from channels.discord.normalize import DiscordTarget
from channels.discord.render import DiscordChunk, DiscordFile, DiscordPart
from channels.markdown.chunk import clipped
from gateway.bounded_dict import BoundedDict
from gateway.contracts.errors import SendFailed, Untraceable
from gateway.contracts.messages import CleanText
from gateway.contracts.ports import Clock

log = logging.getLogger(__name__)

# Did a message of ours arrive? For two minutes its nonce answers that; after that the channel's history does.


def nonce_of(send_id: str) -> str:
    """Derive a nonce that is the same for every attempt at one chunk; Discord shows the earlier message instead of a
    second one."""
    digest = hashlib.blake2s(send_id.encode()).digest()
    return base64.b32encode(digest).decode()[: limits.NONCE_CHARS]


async def find_message(
    place: discord.PartialMessageable, target: DiscordTarget, chunk: DiscordPart, *, me: int, nonce: str, since_ms: int
) -> tuple[str, ...] | None:
    """Find the id of our message that shows the chunk; None when it is surely not there.

    Raises `Untraceable` without the right to read the history, or when it goes on too long; otherwise what the SDK
    raises."""
    after = discord.Object(snowflake_at(since_ms - limits.LOOKUP_MARGIN_S * 1000))
    seen = 0
    try:
        async for message in place.history(after=after, oldest_first=True, limit=limits.LOOKUP_MESSAGES_MAX):
            seen += 1
            if message.author.id == me and _is_the_same(message, target, chunk, nonce):
                return (str(message.id),)
    except (discord.Forbidden, discord.NotFound) as error:
        raise Untraceable(f"the history cannot be read (code {error.code})") from error
    if seen >= limits.LOOKUP_MESSAGES_MAX:
        raise Untraceable("too much was said since")
    return None


def _is_the_same(message: discord.Message, target: DiscordTarget, chunk: DiscordPart, nonce: str) -> bool:
    """Compare the nonces if the history shows them, otherwise the words, the size of the file if there is one, and the
    message that is answered."""
    if message.nonce is not None:
        return str(message.nonce) == nonce
    answered = message.reference.message_id if message.reference else None
    if answered is not None and target.reply_to_message_id is not None and answered != int(target.reply_to_message_id):
        return False
    sizes = [attachment.size for attachment in message.attachments]
    if sizes != ([len(chunk.data)] if isinstance(chunk, DiscordFile) else []):
        return False
    mark = next(filter(message.content.startswith, MARKS), "")
    return message.content.removeprefix(mark).strip() in (chunk.content.strip(), chunk.plain.strip())


async def post(
    client: discord.Client, target: DiscordTarget, chunk: DiscordPart, *, send_id: str, plain: bool
) -> tuple[str, ...]:
    """Say it where the target is, as an answer to its message if it names one, and if Discord lets us: in a channel
    whose history is closed to us it does not. Raises what the SDK raises."""
    reference = _answered(target, chunk)
    try:
        return await _posted(client, target, chunk, reference, send_id=send_id, plain=plain)
    except discord.HTTPException as error:
        if reference is None or not _is_about_the_reference(error):
            raise
    return await _posted(client, target, chunk, None, send_id=send_id, plain=plain)


def is_silent(chunk: DiscordPart) -> bool:
    return isinstance(chunk, DiscordChunk) and chunk.is_silent


async def _posted(
    client: discord.Client,
    target: DiscordTarget,
    chunk: DiscordPart,
    reference: discord.MessageReference | None,
    *,
    send_id: str,
    plain: bool,
) -> tuple[str, ...]:
    """Post a message. None means nothing to the SDK, too, though its overloads do not say so. A message keeps its
    setting for embeds when its words change."""
    sent = await client.get_partial_messageable(int(target.channel_id)).send(
        chunk.plain if plain else chunk.content,
        nonce=nonce_of(send_id),
        allowed_mentions=discord.AllowedMentions.none(),
        reference=cast(discord.MessageReference, reference),
        view=cast(View, view_of(chunk.choices)),
        file=cast(discord.File, _attachment(chunk)),
        suppress_embeds=True,
        silent=is_silent(chunk),
    )
    return (str(sent.id),)


def _answered(target: DiscordTarget, chunk: DiscordPart) -> discord.MessageReference | None:
    """Refer to the message that is answered. That it may be gone by now is no reason to fail."""
    if target.reply_to_message_id is None or is_silent(chunk):
        return None
    return discord.MessageReference(
        message_id=int(target.reply_to_message_id), channel_id=int(target.channel_id), fail_if_not_exists=False
    )


def _is_about_the_reference(error: discord.HTTPException) -> bool:
    """Tell whether the words of an invalid form name the field of the reference."""
    return error.code == limits.REPLY_NEEDS_HISTORY or (
        error.code == limits.INVALID_FORM and "message_reference" in error.text
    )


def _attachment(chunk: DiscordPart) -> discord.File | None:
    return discord.File(io.BytesIO(chunk.data), filename=chunk.name) if isinstance(chunk, DiscordFile) else None


# Answers to commands chosen from the menu: through their link, for the person who asked.
#
# The first message of the answer fills the one that Discord shows since the command was taken; that is an edit, and may
# be repeated. Later messages are ordinary ones where everybody may read them, and follow-ups where only one person may:
# a follow-up is in no history and has no nonce, so nobody can find out whether it arrived.

_NO_REPLY: Final = "stopped"  # has the link in the place of a reply


class EphemeralReplies:
    """The ephemeral replies of one bot. All methods raise what the SDK raises, and `SendFailed` without the bus."""

    def __init__(self, interaction_tokens: InteractionTokens) -> None:
        self._interaction_tokens = interaction_tokens

    async def send(
        self, client: discord.Client, target: DiscordTarget, chunk: DiscordPart, *, send_id: str, plain: bool
    ) -> tuple[str, ...] | None:
        """Send a private reply and return the ids of the messages; None if it is to be an ordinary message."""
        reply_id, is_first = _parted(send_id)
        if target.link is None or not is_private_reply(target, send_id):
            return None
        token = await self._interaction_tokens.token_for(reply_id, target.link)
        if not token:
            return None
        hook = hook_of(client, token)
        text = chunk.plain if plain else chunk.content
        view = view_of(chunk.choices)
        try:
            if is_first and (shown := await _filled(hook, text, view, chunk)) is not None:
                return (shown,)
            if not target.is_aside:
                return None
            return (str((await _followed(hook, text, view, chunk)).id),)
        except discord.HTTPException as error:
            if _is_dead(error):
                return None
            raise

    async def release(self, client: discord.Client, target: DiscordTarget) -> None:
        """Take away what says that an answer comes, unless one has come. From now on the link is nobody's."""
        token = await self._interaction_tokens.token_for(_NO_REPLY, target.link) if target.link is not None else ""
        if token:
            try:
                await hook_of(client, token).delete_message(cast(int, ORIGINAL))
            except discord.HTTPException as error:
                if not _is_dead(error):
                    raise

    async def may_repeat(self, target: DiscordTarget, *, send_id: str) -> bool:
        """Tell whether sending once more shows nothing twice after any outcome, because it is an edit."""
        reply_id, is_first = _parted(send_id)
        return (
            target.link is not None
            and is_first
            and bool(await self._interaction_tokens.token_for(reply_id, target.link))
        )

    async def amend(
        self, client: discord.Client, target: DiscordTarget, chunk: DiscordPart, *, message_id: str, plain: bool
    ) -> bool:
        """Change a message of the answer that nobody else sees. False: it is gone, or out of reach by now."""
        token = await self._interaction_tokens.token(target.link) if target.link is not None else ""
        if not token:
            return False
        try:
            text = chunk.plain if plain else chunk.content
            await change(hook_of(client, token), message_id, text, view_of(chunk.choices))
        except discord.HTTPException as error:
            if _is_dead(error):
                return False
            raise
        return True


def is_private_reply(target: DiscordTarget, send_id: str) -> bool:
    """Tell whether this message of a reply goes to the person who chose a command, as long as there is a way."""
    return target.link is not None and (target.is_aside or _parted(send_id)[1])


async def _filled(hook: discord.Webhook, text: str, view: View | None, chunk: DiscordPart) -> str | None:
    """Fill the message. None: the person who asked has dismissed it."""
    try:
        return await change(hook, ORIGINAL, text, view, files=_files(chunk))
    except discord.NotFound as error:
        if error.code != limits.UNKNOWN_MESSAGE:
            raise
        return None


async def _followed(hook: discord.Webhook, text: str, view: View | None, chunk: DiscordPart) -> discord.WebhookMessage:
    return await hook.send(
        text,
        wait=True,
        ephemeral=True,
        suppress_embeds=True,
        files=_files(chunk),
        view=cast(View, view or discord.utils.MISSING),
        allowed_mentions=discord.AllowedMentions.none(),
    )


def _files(chunk: DiscordPart) -> list[discord.File]:
    return [discord.File(io.BytesIO(chunk.data), filename=chunk.name)] if isinstance(chunk, DiscordFile) else []


def _parted(send_id: str) -> tuple[str, bool]:
    """Return the reply (`channels.core.attempt` says how its messages are named), and whether this is its first
    message."""
    reply_id, _, step = send_id.removesuffix(AGAIN).rpartition(":")
    return reply_id, step == "0"


def _is_dead(error: discord.HTTPException) -> bool:
    """Tell whether the token has expired, Discord was never told that an answer comes, or this way is closed for
    another reason. It says nothing of the bot's own token, nor of the channel."""
    return error.status in (401, 403, 404)


# Threads that begin with a message which called us, and the channels in which we may not begin any.
#
# A thread has the id of its message, so that the address of an answer is known before the thread exists. Discord
# refuses to begin it twice, so after a crash the next process finds the one that is there.

_NOTICE = "notice:"


class ThreadOpener:
    """The threads that one bot begins."""

    def __init__(self, clock: Clock, *, is_wanted: bool) -> None:
        self.is_wanted = is_wanted
        self._clock = clock
        self.begun: BoundedDict[str, str] = BoundedDict(limits.THREADS_BEGUN_MAX)
        """The channels of the threads that we began, by the thread; Discord tells of them too, in its own time."""
        self._barred_s: dict[str, float] = {}

    def may_begin(self, channel_id: str) -> bool:
        """Tell whether nobody forbade threads there lately."""
        barred_s = self._barred_s.get(channel_id)
        return barred_s is None or self._clock.monotonic_s() - barred_s > limits.THREADS_BARRED_S

    async def where(self, client: discord.Client, target: DiscordTarget, *, send_id: str = "") -> DiscordTarget:
        """Return where to write now: in the thread, which is begun if need be, or in its channel where that cannot be.
        A text for a stranger begins no thread. Raises what the SDK raises."""
        if target.begun_in is None:
            return target
        if send_id.startswith(_NOTICE) or not await self._is_begun(client, target.begun_in, target.channel_id):
            return in_place(target)
        return replace(target, begun_in=None)

    async def _is_begun(self, client: discord.Client, channel_id: str, message_id: str) -> bool:
        if message_id in self.begun:
            return True
        if not self.may_begin(channel_id):
            return False
        try:
            await _begin(client, channel_id, message_id)
        except discord.RateLimited as error:
            self._bar(channel_id, str(error))  # an answer does not wait for minutes
            return False
        except discord.HTTPException as error:
            if error.status >= 500 or error.status == 401:
                raise
            if error.code != limits.THREAD_EXISTS and not await _exists(client, message_id):
                if error.code != limits.UNKNOWN_MESSAGE:
                    self._bar(channel_id, f"code {error.code}")
                return False
        self.begun[message_id] = channel_id
        return True

    def _bar(self, channel_id: str, reason: str) -> None:
        if channel_id not in self._barred_s:
            log.warning("discord: no thread can be begun in channel %s (%s): answers stay in it", channel_id, reason)
        self._barred_s[channel_id] = self._clock.monotonic_s()


async def _begin(client: discord.Client, channel_id: str, message_id: str) -> None:
    """Begin a thread. Its bucket lasts for minutes, and the SDK would take that for a limit that is used up; so each
    message has a route of its own, and Discord says itself when it is too much."""
    route = discord.http.Route("POST", f"/channels/{{channel_id}}/messages/{message_id}/threads", channel_id=channel_id)
    name = client.user.display_name if client.user else "…"
    payload = {"name": name, "auto_archive_duration": limits.THREAD_ARCHIVED_AFTER_MIN}
    await client.http.request(route, json=payload)


async def _exists(client: discord.Client, thread_id: str) -> bool:
    """Tell whether the thread exists. A thread begun before could perhaps not be begun now: the message was deleted, a
    permission taken away."""
    try:
        await client.http.get_channel(int(thread_id))
    except (discord.NotFound, discord.Forbidden):
        return False
    return True


def in_place(target: DiscordTarget) -> DiscordTarget:
    """Return the target that answers the message in its own channel."""
    if target.begun_in is None:
        return target
    return DiscordTarget(target.begun_in, reply_to_message_id=target.channel_id)


# The name of a thread that we began: the title of the conversation in it.


async def lacks_name(client: discord.Client, thread_id: str, title: CleanText) -> bool:
    """Tell whether the thread is ours to rename, and bears another name: not where somebody else began a thread from
    the message that called us. Raises what the SDK raises, and `SendFailed` while nobody may change it."""
    shown: Raw = mapping(await client.http.get_channel(int(thread_id)))
    if client.user is None or text(shown.get("owner_id")) != str(client.user.id):
        return False
    if mapping(shown.get("thread_metadata")).get("archived"):
        raise SendFailed("the thread is archived until somebody writes in it")
    return text(shown.get("name")) != _name(title)


async def rename(client: discord.Client, thread_id: str, title: CleanText) -> None:
    """Rename the thread. Raises what the SDK raises."""
    await client.http.edit_channel(int(thread_id), name=_name(title))


def _name(title: CleanText) -> str:
    return clipped(title, limits.THREAD_NAME_UNITS_MAX)
