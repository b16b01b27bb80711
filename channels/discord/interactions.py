"""Discord's interactions, from its gateway or by HTTP: commands, suggestions, presses of buttons.

With HTTP, the first answer to an interaction is the response to the request; all later ones are sent to Discord's
API as usual. So the SDK's interaction is built from the payload, and the first answer that the SDK would post is
caught on the way."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import re
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, cast

import aiohttp
import discord
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from discord import app_commands
from discord.http import MultipartParameters, handle_message_parameters
from discord.ui import Button, View
from discord.webhook.async_ import AsyncWebhookAdapter, async_context

from channels.core import notices
from channels.core.adapter import (
    AdapterTasks,
    CallSignature,
    InboundHandler,
    WebhookAnswer,
    WebhookCall,
    unavailable_answer,
)
from channels.core.message import Ignored, Incoming, Raw, mapping
from channels.discord import limits, normalize
from channels.discord.events import roles_of, whole
from channels.discord.render import render
from gateway.bus.deliveries import Deliveries
from gateway.bus.places import Places
from gateway.contracts.errors import BusUnavailable, SendFailed
from gateway.contracts.messages import Choice, CleanText
from gateway.contracts.ports import Clock
from gateway.i18n import words_for

log = logging.getLogger(__name__)

# Calls by HTTP (developer documentation, "Interactions Overview", "Validating Security Request Headers").


def signature_by(public_key: str) -> CallSignature:
    """Return how Discord signs the calls of the application with this public key, in hexadecimal."""

    def is_genuine(timestamp: str, signature: str, body: bytes) -> bool:
        try:
            key = Ed25519PublicKey.from_public_bytes(bytes.fromhex(public_key))
            key.verify(bytes.fromhex(signature), timestamp.encode() + body)
        except (InvalidSignature, ValueError):  # ValueError: no point of the curve
            return False
        return True

    form = re.compile(r"[0-9a-fA-F]{128}")
    return CallSignature("x-signature-timestamp", "x-signature-ed25519", form, is_genuine)


_PING: Final = 1
_JSON: Final = "application/json"
Payload = dict[str, Any]


class _FirstAnswer(AsyncWebhookAdapter):
    """An HTTP session for the SDK that catches the first answer to one interaction."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.caught: asyncio.Future[Payload] = asyncio.get_running_loop().create_future()
        self.is_sent = asyncio.Event()

    def create_interaction_response(
        self, interaction_id: int, token: str, *, params: MultipartParameters, **how: Any
    ) -> Any:
        """Catch the first answer to an interaction. Files cannot be in an answer to a request: then it is posted as
        ever."""
        if params.files or self.caught.done():
            return super().create_interaction_response(interaction_id, token, params=params, **how)
        return self._catch(interaction_id, dict(params.payload or {}))

    async def _catch(self, interaction_id: int, payload: Payload) -> Payload:
        """Catch the first answer and hold its caller until Discord has the answer: Discord would refuse anything
        earlier."""
        self.caught.set_result(payload)
        await self.is_sent.wait()
        await asyncio.sleep(limits.FIRST_ANSWER_SETTLES_S)
        return {"interaction": {"id": str(interaction_id), "type": payload.get("type", 0)}}


class InteractionWebhook:
    """The interactions of one application."""

    def __init__(self, public_key: str, clock: Clock) -> None:
        self._signature = signature_by(public_key)
        self._clock = clock
        self._inside: tuple[discord.Client, Callable[[discord.Interaction], object]] | None = None

    @contextlib.contextmanager
    def open(self, client: discord.Client, heard: Callable[[discord.Interaction], object]) -> Iterator[None]:
        """Hear interactions inside the context, by a client that is logged in."""
        self._inside = client, heard
        try:
            yield
        finally:
            self._inside = None

    async def called(self, call: WebhookCall) -> WebhookAnswer:
        """Answer as `SupportsWebhooks` says. Discord tries wrong signatures, too: they are refused."""
        body = await self._signature.body_of(call, self._clock.now_ms() // 1000)
        if body is None:
            return WebhookAnswer(401)
        try:
            payload = mapping(json.loads(body))
        except (ValueError, RecursionError):
            return WebhookAnswer(400)
        if payload.get("type") == _PING:
            return WebhookAnswer(200, json.dumps({"type": _PING}), _JSON)
        return unavailable_answer() if self._inside is None else await self._hear(payload, *self._inside)

    async def _hear(
        self, payload: Raw, client: discord.Client, heard: Callable[[discord.Interaction], object]
    ) -> WebhookAnswer:
        """Return a hearer's answer to the interaction. Raises `TimeoutError` when nobody answers."""
        try:
            told = whole("INTERACTION_CREATE", payload)
            interaction = discord.Interaction(data=cast(Any, told), state=client._connection)
        except Exception:  # named boundary, adapter callback: a payload of a shape that the SDK does not know
            log.exception("discord: an interaction cannot be understood")
            return WebhookAnswer(400)
        answer = _FirstAnswer()
        token = async_context.set(answer)
        try:
            heard(interaction)  # the tasks that it starts remember the way
        finally:
            async_context.reset(token)
        async with asyncio.timeout(limits.CALL_ANSWERED_WITHIN_S):
            said = await answer.caught
        return WebhookAnswer(200, json.dumps(said), _JSON, sent=answer.is_sent.set)


# The SDK's webhook for one interaction, which does not sleep through a long rate limit as the SDK's own would.
#
# For the bot's own requests discord.py has a limit to that (`max_ratelimit_timeout`), for webhooks it has none: a
# call would be cut while it sleeps, and nobody could say whether it had arrived.

ORIGINAL: Final = "@original"
"""Takes the place of the id of the first message, wherever the API asks for one."""

_TOO_MANY: Final = 429


class _RateLimitedSession:
    """The HTTP session that the SDK needs. Raises `discord.RateLimited` where Discord wants us to wait for long."""

    def __init__(self, session: aiohttp.ClientSession) -> None:
        self._session = session

    @contextlib.asynccontextmanager
    async def request(self, method: str, url: str, **options: Any) -> AsyncIterator[aiohttp.ClientResponse]:
        async with self._session.request(method, url, **options) as response:
            if response.status == _TOO_MANY and (wait_s := _asked_to_wait_s(response)) > limits.RATE_LIMIT_WAIT_MAX_S:
                raise discord.RateLimited(wait_s)
            yield response


def hook_of(client: discord.Client, token: str) -> discord.Webhook:
    """Build the webhook of an interaction; the SDK's own maker of webhooks makes none that may whisper."""
    payload: Any = {"id": client.application_id, "type": discord.WebhookType.application.value, "token": token}
    made = discord.Webhook.from_state(payload, client._connection)
    made.session = cast(aiohttp.ClientSession, _RateLimitedSession(made.session))
    return made


async def change(
    hook: discord.Webhook,
    message_id: str,
    content: str,
    view: View | None,
    *,
    files: Sequence[discord.File] = discord.utils.MISSING,
) -> str:
    """Put these words into a message of an interaction, with `files` in the place of what it has; its id. As the SDK's
    `Webhook.edit_message`, which has no word for embeds. Raises what the SDK raises."""
    with handle_message_parameters(
        content=content,
        attachments=files,
        view=view,
        flags=discord.MessageFlags(suppress_embeds=True),
        allowed_mentions=discord.AllowedMentions.none(),
    ) as made:
        changed = await async_context.get().edit_webhook_message(
            hook.id,
            hook.token or "",
            cast(int, message_id),
            session=hook.session,
            proxy=hook.proxy,
            proxy_auth=hook.proxy_auth,
            payload=made.payload,
            multipart=made.multipart,
            files=made.files,
            with_components=bool(view),
        )
    return str(changed["id"])


def _asked_to_wait_s(response: aiohttp.ClientResponse) -> float:
    """Return the seconds that Discord asks to wait, 0 where the header does not say: the SDK reads the body."""
    try:
        return float(response.headers.get("Retry-After", "0"))
    except ValueError:
        return 0.0


# The way back to the person who chose a command: the token of the interaction, good for a quarter of an hour.
#
# Anybody with the token can speak in our name, so it is on the bus only for as long as it is good, and addresses only
# name the interaction. It is kept before the command is on the bus, and is open once Discord was told that an answer
# comes; an answer that is faster than that waits. The first reply that asks has the link for itself: later words at the
# same address, such as a reminder, must not take the place of the answer.

_DUE, _OPEN = "due", "open"
LOOK_EVERY_S: Final = 0.05


class InteractionTokens:
    """Tokens of one bot's interactions; `account` names the bot."""

    def __init__(self, places: Places, leases: Deliveries, account: Callable[[], str]) -> None:
        self._places = places
        self._leases = leases
        self._account = account

    async def keep(self, link: str, token: str, *, is_open: bool) -> None:
        """Keep the token of a link. Raises `BusUnavailable`."""
        state = _OPEN if is_open else _DUE
        await self._places.keep_link(self._name(link), f"{state} {token}", ttl_s=limits.LINK_TTL_S)

    async def token(self, link: str) -> str:
        """Find the token, empty once it is good no more. Raises `SendFailed` without the bus."""
        return (await self._found(link))[1]

    async def token_for(self, reply_id: str, link: str) -> str:
        """Find the token, if the link is this reply's; waits until it is open. A link that never opens may be good all
        the same: the process that opens links may have died in between. Raises `SendFailed` without the bus."""
        state, token = await self._found(link)
        if not token or not await self._is_of(reply_id, link):
            return ""
        until_s = asyncio.get_running_loop().time() + limits.LINK_OPENS_WITHIN_S
        while state == _DUE and asyncio.get_running_loop().time() < until_s:
            await asyncio.sleep(LOOK_EVERY_S)
            state, token = await self._found(link)
        return token

    async def _is_of(self, reply_id: str, link: str) -> bool:
        try:
            return await self._leases.hold(f"link:{self._name(link)}", reply_id, ttl_s=limits.LINK_TTL_S)
        except BusUnavailable as error:
            raise SendFailed("the bus is away, and with it the way to the one who asked") from error

    async def _found(self, link: str) -> tuple[str, str]:
        try:
            kept = await self._places.link(self._name(link))
        except BusUnavailable as error:
            raise SendFailed("the bus is away, and with it the way to the one who asked") from error
        state, _, token = kept.partition(" ")
        return state, token

    def _name(self, link: str) -> str:
        return f"{self._account()}:{link}"


# Buttons under messages, and the interactions that come back from them, from the menu, and while a command is typed.
#
# Discord gives three seconds, and lets us go on for fifteen minutes. As soon as the bus has a press it is acknowledged,
# which shows nothing, and a word follows in private for the person who pressed. As soon as it has a command Discord is
# told that its answer comes, which shows that we think; the answer finds its way by the link. A person who is turned
# away is told so at once, in private.

_ALREADY_ANSWERED: Final = 40060


def view_of(choices: Sequence[Choice]) -> View | None:
    """Build rows of five buttons. The SDK keeps nothing of them: another process may hear of a press."""
    if not choices:
        return None
    view = View(timeout=None)
    for choice in choices[: limits.BUTTONS_MAX]:
        view.add_item(Button(label=choice.label[: limits.BUTTON_LABEL_CHARS_MAX], custom_id=choice.command))
    view.stop()
    return view


@dataclass(eq=False, repr=False)
class InteractionHandler:
    """The presses and the commands that one session hears."""

    me: normalize.DiscordIdentity
    handler: InboundHandler
    interaction_tokens: InteractionTokens
    background: AdapterTasks

    def heard(self, interaction: discord.Interaction) -> None:
        """Handle any interaction; those that are no presses and no commands are ignored."""
        match interaction.type:
            case discord.InteractionType.component:
                self.background.start(self._take_press(interaction))
            case discord.InteractionType.application_command:
                self.background.start(self._take_command(interaction))
            case discord.InteractionType.autocomplete:
                self.background.start(self._suggest(interaction))
            case _:
                pass

    async def _take_press(self, interaction: discord.Interaction) -> None:
        press = normalize.normalize_press(_lifted(interaction), self.me)
        if isinstance(press, Ignored):
            await _defer(interaction)
            return
        try:
            async with asyncio.timeout(limits.PRESS_TAKEN_WITHIN_S):
                if press.is_aside:
                    await self.interaction_tokens.keep(str(interaction.id), interaction.token, is_open=False)
                word = await self.handler.press(press)
        except (BusUnavailable, TimeoutError):
            await _tell(interaction, words_for(press.language).say(notices.NOT_NOW))
            return
        if press.is_aside and word is None:
            await self._await_answer(interaction, press)
            return
        await _defer(interaction)
        for chunk in render(await self.handler.told(press) if word is None else word):
            await interaction.followup.send(chunk.content, **_IN_PRIVATE)

    async def _await_answer(self, interaction: discord.Interaction, press: Incoming) -> None:
        """Fill a message that only the person who pressed sees: with the answer, by the link, or with the reason why
        there will be none."""
        await _defer(interaction, ephemeral=True, thinking=True)
        await self.interaction_tokens.keep(str(interaction.id), interaction.token, is_open=True)
        if word := await self.handler.told(press):
            first, *_ = render(word)
            await change(hook_of(interaction.client, interaction.token), ORIGINAL, first.content, None)

    async def _take_command(self, interaction: discord.Interaction) -> None:
        chosen = normalize.normalize_invocation(_lifted(interaction), self.me)
        if isinstance(chosen, Ignored):
            await _tell(interaction, words_for(interaction.locale.value).say(notices.NOT_FOR_ME))
            return
        link, is_aside = str(interaction.id), normalize.parse_target(chosen.address.target).is_aside
        try:
            async with asyncio.timeout(limits.PRESS_TAKEN_WITHIN_S):
                await self.interaction_tokens.keep(link, interaction.token, is_open=False)
                word = await self.handler.invoke(chosen)
        except (BusUnavailable, TimeoutError):
            await _tell(interaction, words_for(chosen.language).say(notices.NOT_NOW))
            return
        if word is not None:
            await _tell(interaction, word or words_for(chosen.language).say(notices.NOT_FOR_ME))
            return
        await _promise(interaction, is_aside=is_aside)
        await self.interaction_tokens.keep(link, interaction.token, is_open=True)

    async def _suggest(self, interaction: discord.Interaction) -> None:
        typing = normalize.normalize_invocation(_lifted(interaction), self.me)
        found = await self.handler.suggest(typing) if isinstance(typing, Incoming) else ()
        choices = [app_commands.Choice[str | int | float](name=each.label, value=str(each.value)) for each in found]
        await interaction.response.autocomplete(choices)


_IN_PRIVATE: Final[Mapping[str, Any]] = {
    "ephemeral": True,
    "suppress_embeds": True,
    "allowed_mentions": discord.AllowedMentions.none(),
}


async def _tell(interaction: discord.Interaction, word: CleanText) -> None:
    first, *_ = render(word)
    await interaction.response.send_message(first.content, **_IN_PRIVATE)


async def _defer(interaction: discord.Interaction, **how: bool) -> None:
    """Tell Discord that the interaction was taken. A server that answers with no content (204), as Discord does where
    nobody asks for more, has understood; the SDK reads on and fails."""
    with contextlib.suppress(TypeError):
        await interaction.response.defer(**how)


async def _promise(interaction: discord.Interaction, *, is_aside: bool) -> None:
    """Promise that an answer comes. Discord hands out a command again after a lost connection: then it knows by now."""
    try:
        await _defer(interaction, ephemeral=is_aside, thinking=True)
    except discord.HTTPException as error:
        if error.code != _ALREADY_ANSWERED:
            raise


def _lifted(interaction: discord.Interaction) -> normalize.DiscordInteraction:
    told = cast(Mapping[str, Any], interaction.data or {})
    argument = next((option["value"] for option in told.get("options") or () if "value" in option), "")
    typed = f"/{told.get('name', '')} {str(argument).strip()}".strip()
    thread = interaction.channel if isinstance(interaction.channel, discord.Thread) else None
    return normalize.DiscordInteraction(
        id=str(interaction.id),
        channel_id=str(interaction.channel_id or ""),
        user_id=str(interaction.user.id),
        user_name=interaction.user.display_name,
        said=str(told["custom_id"]) if "custom_id" in told else typed,
        created_at_ms=int(interaction.created_at.timestamp() * 1000),
        guild_id=str(interaction.guild_id or ""),
        parent_id=str(thread.parent_id) if thread else "",
        is_direct=interaction.guild_id is None and not interaction.context.private_channel,
        is_bot=interaction.user.bot,
        locale=interaction.locale.value,
        roles=roles_of(interaction.user),
        is_aside=interaction.message is not None and interaction.message.flags.ephemeral,
    )
