"""Telegram's limits and ours, each with its source (the Bot API documentation unless another is named)."""

from __future__ import annotations

from typing import Final

from channels.core.adapter import StreamCadence

CHAT_PER_S: Final = 1.0  # "avoid sending more than one message per second" in one chat; short bursts pass
CHAT_BURST: Final = 5
GROUP_PER_S: Final = 20 / 60  # "not more than 20 messages per minute" in one group
GROUP_BURST: Final = 10
BOT_PER_S: Final = 30.0  # "about 30 messages per second" over all chats
BOT_BURST: Final = 500  # the server tolerates peaks, and its 429 has the last word

DRAFT_CADENCE: Final = StreamCadence(first_after_s=0.4, every_s=0.9, fades_after_s=20.0)
"""Nothing is published about drafts but that they fade after about 30 seconds; they count as requests."""
CALLBACK_BYTES_MAX: Final = 64
EDIT_CADENCE: Final = StreamCadence(first_after_s=1.0, every_s=1.5, stop_chars_max=CALLBACK_BYTES_MAX)
"""In private chats without drafts; edits every half second have led to a flood wait of two minutes (by others)."""
GROUP_CADENCE: Final = StreamCadence(first_after_s=2.0, every_s=3.5, stop_chars_max=CALLBACK_BYTES_MAX)
"""20 messages a minute, edits included, which a group shares among all that go on in it."""

TOPIC_NAME_UNITS_MAX: Final = 128  # characters
TOPIC_NAMES_PER_S: Final = 2 / 60  # of one topic; nothing is published, and each is a message in the topic
TOPIC_NAMES_BURST: Final = 3

TYPING_PERIOD_S: Final = 4.0  # a chat action is shown for 5 seconds or less

POLL_TIMEOUT_S: Final = 20  # the server takes up to 50, but only the end of a poll tells that the link lives
POLL_READ_MARGIN_S: Final = 10.0
POLL_BATCH_MAX: Final = 100
POLL_RETRY_FIRST_S: Final = 0.5
POLL_RETRY_CAP_S: Final = 30.0
EMPTY_POLL_PAUSE_S: Final = 0.25  # after a poll that was answered with nothing before it had waited
CONFLICT_FIRST_S: Final = 5.0  # two pollers end each other's requests: quarrelling fast helps nobody
CONFLICT_CAP_S: Final = 60.0

CALL_ANSWERED_WITHIN_S: Final = 25.0  # of ours to Telegram's call; the server waits for 60
WEBHOOK_CONNECTIONS_MAX: Final = 40  # calls at once: the server's own default, asked for by name
WEBHOOK_LOOK_EVERY_S: Final = 30.0
WEBHOOK_DOUBT_EVERY_S: Final = 5.0  # setWebhook is limited to about one a second

SEND_READ_TIMEOUT_S: Final = 45.0  # a busy server finishes late; giving up early makes the outcome unknown
DOWNLOAD_BYTES_MAX: Final = 20 * 1024 * 1024  # getFile says "file is too big" of anything larger
FILE_READ_TIMEOUT_S: Final = 45.0  # the server may fetch a file from its data centre before it answers getFile
UPLOAD_TIMEOUT_S: Final = 120.0  # ten megabytes over a poor line
CALL_TIMEOUT_S: Final = 15.0
CONNECT_TIMEOUT_S: Final = 10.0
CONNECTIONS_MAX: Final = 65  # one of them holds the poll that waits

LOST_IDS_MAX: Final = 12  # ids that are asked for when a send got lost; each is a request
SEARCHES_MAX: Final = 256  # that a 429 broke off and that are remembered

TOAST_CHARS_MAX: Final = 200  # of the answer to a callback query
TOAST_LATE_S: Final = 15.0  # after which a query counts as too old, or its author has looked away

NEW_UPDATES: Final = ("stopped_message_generation",)
"""Kinds that came with Bot API 10.3: an older server drops them from the list."""

ALLOWED_UPDATES: Final = (
    "message",
    "edited_message",
    "channel_post",
    "edited_channel_post",
    "callback_query",
    *NEW_UPDATES,
)
"""Always sent: the server remembers the list of the last request."""

ROW_BUTTONS_MAX: Final = 2  # buttons side by side; on a phone a third leaves none of them room for a word
ROW_LABEL_CHARS_MAX: Final = 18  # of a label that has only half a row
