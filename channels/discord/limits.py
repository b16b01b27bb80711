"""Discord's limits and ours, each with its source (the developer documentation unless another is named)."""

from __future__ import annotations

from typing import Final

from channels.core.adapter import StreamCadence

CHANNEL_PER_S: Final = 1.0  # commonly 5 messages per 5 seconds and channel; the headers have the last word
CHANNEL_BURST: Final = 5
BOT_PER_S: Final = 50.0  # requests per second for the whole bot
BOT_BURST: Final = 500  # discord.py waits out what is too much; this only flattens what would come after

CADENCE: Final = StreamCadence(first_after_s=1.0, every_s=1.2, stop_chars_max=100)
"""Edits share a bucket of about five in five seconds per channel, and leave a quarter of it."""

TYPING_PERIOD_S: Final = 8.0  # the indicator lasts 10 seconds

LINK_TTL_S: Final = 14.5 * 60  # the token of an interaction is good for fifteen minutes, by Discord's clock
LINK_OPENS_WITHIN_S: Final = 3.0  # or never: until then Discord waits to be told that an answer comes
UNKNOWN_MESSAGE: Final = 10008  # the error code for a message that was deleted
INVALID_FORM: Final = 50035  # the error code for a request with a field that is not as it should be
REPLY_NEEDS_HISTORY: Final = 160002  # the error code for a reply where we may not read what was said
PRESS_TAKEN_WITHIN_S: Final = 2.0  # an interaction is to be acknowledged within three seconds

CALL_ANSWERED_WITHIN_S: Final = 2.7  # of ours to an interaction that came by HTTP; Discord waits for 3
FIRST_ANSWER_SETTLES_S: Final = 0.25  # until Discord knows the answer to its request, a follow-up is refused

NONCE_CHARS: Final = 24  # at most 25
CALL_TIMEOUT_S: Final = 60.0  # discord.py retries inside a call, up to five times
RATE_LIMIT_WAIT_MAX_S: Final = 30.0  # the least that discord.py accepts; longer waits are ours

READY_TIMEOUT_S: Final = 60.0
LOST_AFTER_S: Final = 45.0  # discord.py may wait 17 minutes before it tries again; we build a new client
SILENT_AFTER_S: Final = 15.0  # three probes without an answer, and not a single other frame: the link is dead
PROBES_PER_SILENCE: Final = 3  # 12 frames a minute, of 120 that a client may send
LOSSES_MAX: Final = 5  # of the gateway, within LOSSES_WITHIN_S: more are not the network's doing
LOSSES_WITHIN_S: Final = 30.0
WATCH_EVERY_S: Final = 0.25  # a session that has begun is told of at once
LEFT_SESSION_TIMEOUT_S: Final = 10.0  # to learn what the last session missed; nobody is listened to meanwhile
SESSION_RECORD_EVERY_S: Final = 2.0  # an older sequence number only makes the gateway repeat more
CLOSE_RESUMABLE: Final = 4000  # 1000 and 1001 end the session, any other code lets it be resumed
RETRY_FIRST_S: Final = 2.0
RETRY_CAP_S: Final = 300.0  # an IDENTIFY each: 1,000 a day are allowed
HEALTHY_AFTER_S: Final = 120.0  # even if every session ended just then, a day would have 720 IDENTIFYs

THREAD_QUOTES_MAX: Final = 40  # one request; what is older has mostly been said again
THREAD_WAIT_S: Final = 3.0  # for them: a rate limit is not waited for, and nobody is listened to meanwhile
THREAD_ARCHIVED_AFTER_MIN: Final = 1440  # a day without a word; the next one wakes it
THREADS_BARRED_S: Final = 3600.0  # where we may not begin one, we ask again within the hour
THREADS_BEGUN_MAX: Final = 5_000  # remembered; to begin one again is refused and does no harm
THREAD_EXISTS: Final = 160004  # the error code for a message that has a thread
THREAD_NAME_UNITS_MAX: Final = 100  # characters, as JavaScript counts them
THREAD_NAMES_MAX: Final = 2  # of one thread within THREAD_NAMES_WITHIN_S; not announced, and 429 for minutes beyond it
THREAD_NAMES_WITHIN_S: Final = 600.0
ORIGINS_MAX: Final = 1_000  # threads that nobody told us of, remembered: two ids each
READ_AGAIN_AFTER_S: Final = 60.0  # a message whose files are fetched one after the other: addresses live for a day
READ_LATELY_MAX: Final = 16  # such messages at a time
HISTORY_PAGE: Final = 100  # the most that one request gives
HISTORY_MESSAGES_MAX: Final = 1_000  # of one place: ten requests; of busier places the newest count
HISTORY_PLACES_MAX: Final = 2_000  # a request each: a minute or two, while rooms that do not lag go on
HISTORY_AGE_MAX_S: Final = 24 * 3600  # as long as Telegram would have kept it; older talk is over
NONCE_HOLDS_S: Final = 100.0  # "the past few minutes"; measured by others as two at least
LOOKUP_MESSAGES_MAX: Final = 300
LOOKUP_MARGIN_S: Final = 60  # between our clock and Discord's
GUILDS_WITHIN_S: Final = 1.0  # how long the SDK waits for the next guild before it calls itself ready

BUTTONS_MAX: Final = 25  # five rows of five
BUTTON_LABEL_CHARS_MAX: Final = 80
