"""Whatever a channel takes for a command is one for the agent, and the reverse, on every platform."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from agent.engine import Batch
from agent.runtime.run import first_batch
from channels.core.message import Incoming
from channels.core.sanitize import Sanitizer
from channels.discord.normalize import DiscordIdentity, DiscordMessage
from channels.discord.normalize import normalize as normalize_discord
from channels.slack.normalize import SlackIdentity
from channels.slack.normalize import normalize as normalize_slack
from channels.telegram.normalize import TelegramIdentity
from channels.telegram.normalize import normalize as normalize_telegram
from gateway.clock import SystemClock
from gateway.contracts.commands import COMMANDS, find_command
from gateway.contracts.ids import SessionScope
from gateway.scrub import Scrubber
from tests.parts.texts import anything, patient

CLEANER = Sanitizer(Scrubber(), SystemClock(), SessionScope.PLACE)
NAMES = sorted({spec.name for spec in COMMANDS} | {"trivet", "unknown", "base64", "set_title", "set-title"})
GAPS = st.text(" \t\n\r\u00a0\u200b\u200e\u2060\u3000\ufeff", max_size=3)
MARKS = st.sampled_from(("/", "!", "//", "\uff0f", "\u2044", "\u2215", "\\", "", "/trivet ", "/trivet /"))
SPELLINGS = (str, str.upper, str.title)
COMMAND_LIKE = st.builds(
    "{}{}{}{}{}{}".format,
    GAPS,
    MARKS,
    st.builds(lambda name, spell: spell(name), st.sampled_from(NAMES), st.sampled_from(SPELLINGS)),
    st.sampled_from(("", "@TrivetBot", "@trivetbot", "@OtherBot", "@", ",", "!", "\u200b")),
    GAPS,
    anything,
)


def from_telegram(text: str) -> Iterator[Any]:
    """Said, and written under a photo; with what Telegram marks as a command, where it does."""
    word = text.split(" ")[0]
    marked = [{"type": "bot_command", "offset": 0, "length": len(word)}] if word.isascii() else []
    person = {"id": 9, "is_bot": False, "first_name": "A"}
    message = {"message_id": 7, "date": 1, "chat": {"id": 9, "type": "private"}, "from": person}
    for said in ({"text": text, "entities": marked}, {"caption": text, "caption_entities": marked, "photo": PHOTO}):
        yield normalize_telegram({"update_id": 1, "message": {**message, **said}}, TelegramIdentity(42, "TrivetBot"))


PHOTO = [{"file_id": "f", "file_unique_id": "u", "width": 1, "height": 1}]


def from_discord(text: str) -> Iterator[Any]:
    """Said, and behind a mention of the bot."""
    for content in (text, f"<@42> {text}"):
        yield normalize_discord(DiscordMessage("5", "6", "7", "A", content, 1), DiscordIdentity("42"))


def from_slack(text: str) -> Iterator[Any]:
    """Said in a direct message, and in a thread behind a mention of the bot."""
    me = SlackIdentity("T1", "U0")
    direct = {"channel": "D1", "channel_type": "im", "text": text}
    thread = {"channel": "C1", "channel_type": "channel", "thread_ts": "0.000001", "text": f"<@U0> {text}"}
    for where in (direct, thread):
        event = {"type": "message", "user": "U1", "ts": "1.000001", **where}
        yield normalize_slack({"team_id": "T1", "event": event}, me, takes_part=lambda *_: True)


@patient
@given(st.one_of(COMMAND_LIKE, anything))
@example("/trivet stop")
@example("/base64 x")
@example("/new@OtherBot")
@example("\uff0fnew")
@example("\u200b/new\u200b")
@example("!stop")
def test_channels_and_agents_take_the_same_for_a_command(text: str) -> None:
    for read in (from_telegram, from_discord, from_slack):
        for incoming in read(text):
            if isinstance(incoming, Incoming):
                message = CLEANER.clean(incoming)
                assert find_command(message.text) == incoming.command
                is_command = Batch("t", message.key, 1, (message,)).is_command
                assert is_command == (incoming.command is not None)
                assert (len(first_batch((message, message))) == 1) == is_command
