"""Buttons under messages, and the presses that come back: acknowledged when the bus has them, answered in private."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import count
from typing import Any

from slack_sdk.webhook.async_client import AsyncWebhookClient

from channels.adapter import Door
from channels.errands import Errands
from channels.normalized import Ignored
from channels.proxies import goes_direct
from channels.slack import limits
from channels.slack.normalize import SlackIdentity
from channels.slack.presses import is_press, normalize_press, response_url_of
from channels.slack.render import SlackChunk, render
from channels.slack.socket import Hear, sdk_log
from gateway.contracts.messages import CleanText

Block = dict[str, Any]


def blocks_of(chunk: SlackChunk, *, plain: bool) -> list[Block]:
    """The chunk's text with a row of buttons below it; nothing for a chunk without any."""
    if not chunk.choices:
        return []
    words, kind = (chunk.plain, "plain_text") if plain else (chunk.text, "mrkdwn")
    parts = [words[at : at + limits.SECTION_CHARS_MAX] for at in range(0, len(words), limits.SECTION_CHARS_MAX)]
    buttons = [
        {
            "type": "button",
            "action_id": f"choice-{number}",
            "text": {"type": "plain_text", "text": choice.label},
            "value": choice.command,
        }
        for number, choice in zip(count(1), chunk.choices, strict=False)
    ]
    sections: list[Block] = [{"type": "section", "text": {"type": kind, "text": part}} for part in parts]
    return [*sections, {"type": "actions", "elements": buttons}]


class Presses:
    """The presses that come over one socket."""

    def __init__(self, me: SlackIdentity, door: Door, errands: Errands) -> None:
        self._me = me
        self._door = door
        self._errands = errands

    def before(self, hear: Hear) -> Hear:
        """Take the presses, leave everything else to `hear`. Raises `BusUnavailable`: then nothing is acknowledged."""

        async def hear_both(body: Mapping[str, Any]) -> None:
            await (self._take(body) if is_press(body) else hear(body))

        return hear_both

    async def _take(self, body: Mapping[str, Any]) -> None:
        press = normalize_press(body, self._me)
        if isinstance(press, Ignored):
            return
        word = await self._door.press(press)

        async def pass_on() -> None:
            await _whisper(response_url_of(body), await self._door.told(press) if word is None else word)

        self._errands.start(pass_on())


async def _whisper(url: str, word: CleanText) -> None:
    """Shown to the one who pressed, and to nobody else."""
    chunks = render(word)
    if not chunks or not url:
        return
    webhook = AsyncWebhookClient(url, timeout=int(limits.CALL_TIMEOUT_S), logger=sdk_log, retry_handlers=[])
    if goes_direct(url):
        webhook.proxy = None  # the SDK takes HTTP_PROXY for every address and knows no NO_PROXY
    await webhook.send(text=chunks[0].text, response_type="ephemeral", replace_original=False)
