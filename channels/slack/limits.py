"""Slack's limits and ours, each with its source (docs.slack.dev unless another is named)."""

from __future__ import annotations

from typing import Final

CHANNEL_PER_S: Final = 1.0  # chat.postMessage: "one message per second per channel", short bursts pass
CHANNEL_BURST: Final = 5
WORKSPACE_PER_S: Final = 10.0  # "several hundred messages per minute" for a workspace
WORKSPACE_BURST: Final = 500  # the number is not published: peaks are tried, and the 429 has the last word

OPTION_CHARS_MAX: Final = 75  # of a line in a list
SECTION_CHARS_MAX: Final = 3_000  # of the text in one section block

TITLES_PER_S: Final = 100 / 60  # assistant.threads.setTitle, for the whole app: tier 4
TITLES_BURST: Final = 20
TITLE_UNITS_MAX: Final = 250  # nowhere documented; far more than the list of threads shows
STATUS_PERIOD_S: Final = 60.0  # assistant.threads.setStatus fades after two minutes

CALL_TIMEOUT_S: Final = 30.0
UPLOAD_TIMEOUT_S: Final = 120.0  # ten megabytes over a poor line
CONNECT_TIMEOUT_S: Final = 20.0
PING_EVERY_S: Final = 5.0
WATCH_EVERY_S: Final = 1.0
CALL_ANSWERED_WITHIN_S: Final = 2.7  # of ours to Slack's request; it waits for 3
API_LOOK_EVERY_S: Final = 60.0  # auth.test allows several hundred a minute
EVENTS_KNOWN_MAX: Final = 10_000  # Slack repeats an event within six minutes
SILENCE_S: Final = 400.0  # an event that Slack gave up was tried for six minutes
LOOK_BACK_EVERY_S: Final = 60.0  # after an outage every event comes as a repetition
DEAD_AFTER_S: Final = 12.0  # the SDK looks every ping; what it has not mended by then we build anew
LOSSES_MAX: Final = 5  # of sockets that lived no longer than LOSSES_WITHIN_S: more are not the network's doing
LOSSES_WITHIN_S: Final = 30.0
RETRY_FIRST_S: Final = 1.0
RETRY_CAP_S: Final = 60.0

HISTORY_PAGE: Final = 100
HISTORY_PAGES_MAX: Final = 5
HISTORY_PLACES_MAX: Final = 1_000  # Tier 3 allows some 50 calls a minute; rooms that do not lag go on meanwhile
HISTORY_THREADS_MAX: Final = 20  # in one channel
HISTORY_RATE_LIMITS_MAX: Final = 3
HISTORY_AGE_MAX_S: Final = 24 * 3600  # as long as Telegram would have kept it; older talk is over
LOOKUP_PAGES_MAX: Final = 3
LOOKUP_SETTLES_S: Final = 3.0  # a post whose connection was cut may still be on its way into the history
LOOKUP_MARGIN_S: Final = 60  # between our clock and Slack's
SAME_LETTERS: Final = 40  # of two texts that begin alike: addresses of links may be missing further on

STREAM_LIFE_S: Final = 240.0  # a stream ends by itself some five minutes after its beginning (306 s measured)
STREAM_FIRST_S: Final = 1.0  # an answer that is quicker is one post
STREAMS_PER_MINUTE: Final = 16  # chat.startStream and chat.stopStream: Tier 2, 20 a minute for the whole workspace
STREAMS_WINDOW_S: Final = 60.0
APPEND_EVERY_S: Final = 0.8
APPEND_SHARE_S: Final = 0.65  # for each live answer: chat.appendStream is Tier 4, 100 a minute for the workspace
CHANGE_SHARE_S: Final = 1.5  # likewise for chat.update, Tier 3: 50 a minute
CHANGE_EVERY_MAX_S: Final = 12.0  # slower than this nobody sees an answer grow
LIVE_MAX: Final = 500

LINK_TTL_S: Final = 29 * 60.0  # a response_url is good for half an hour, by Slack's clock

PEOPLE_WAIT_S: Final = 0.8  # for names, before a message is on the bus; Slack waits three seconds for that
PEOPLE_AT_ONCE: Final = 12  # users.info: Tier 4, 100 a minute
PEOPLE_KNOWN_MAX: Final = 5_000
PERSON_TTL_S: Final = 3600.0  # a changed name or language is known within the hour
STRANGER_TTL_S: Final = 60.0

THREAD_WAIT_S: Final = 1.2  # for what was said in a thread, likewise
THREAD_PAGE: Final = 200
THREAD_PAGES_MAX: Final = 3
THREAD_QUOTES_MAX: Final = 40

BUTTON_LABEL_CHARS_MAX: Final = 75
BUTTON_VALUE_CHARS_MAX: Final = 2_000
ACTIONS_MAX: Final = 25  # buttons and lists in one block of actions
