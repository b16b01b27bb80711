"""Where Slack's documents are unsure, or leave a choice to the workspace: both behaviours, one switch each."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, Literal

EVERY_SCOPE: Final = frozenset(
    {
        "app_mentions:read",
        "channels:history",
        "channels:join",
        "channels:manage",
        "channels:read",
        "chat:write",
        "chat:write.public",
        "commands",
        "files:read",
        "files:write",
        "groups:history",
        "groups:read",
        "im:history",
        "im:read",
        "im:write",
        "mpim:history",
        "mpim:read",
        "reactions:read",
        "reactions:write",
        "users:read",
        "assistant:write",
    }
)
EVERY_EVENT: Final = frozenset(
    {
        "app_mention",
        "channel_id_changed",
        "message.channels",
        "message.groups",
        "message.im",
        "message.mpim",
        "reaction_added",
        "reaction_removed",
        "member_joined_channel",
        "member_left_channel",
        "app_home_opened",
        "assistant_thread_started",
        "file_shared",
    }
)


@dataclass(frozen=True, slots=True)
class SlashCommand:
    """As the app's owner wrote it into the manifest."""

    name: str
    description: str
    usage_hint: str = ""


@dataclass(slots=True)
class Switches:
    """May be changed at any time; each is read where it matters.

    - `scopes`, `subscriptions` and `slash_commands` as granted at installation.
    - `is_rate_limited`; `posts_per_s` and `posts_burst` are what one channel takes of chat.postMessage.
    - `splits_long_text`: a `text` over 4040 characters becomes several messages of about 4000, of which the answer
      names one, the last if `split_names_last`.
    - `knows_markdown`: this workspace takes `markdown` blocks and `markdown_text`.
    - `has_streams`: this workspace knows chat.startStream.
    - `stream_life_s`: measured by third parties, about five minutes whatever the appends do.
    - `status_anywhere`: setStatus works in every thread, not only in assistant threads.
    - `forgets_ts` n: the next n answers to a post, or to the beginning of a stream, are `ok` and name no message.
    - `link_uses_max`: how many answers a `response_url` takes.
    - `history_page_max`: 15 for commercial apps outside the marketplace.
    - `dedupes_client_msg_id`: a second post with the same `client_msg_id` gives the first one back; undocumented.
    - `echoes_streams`: every append of a stream comes back as `message_changed`, not only its end.
    - `unfurls_links`: what stands behind a link is fetched and shown below the message, unless its post declines that,
      which a stream cannot; a change fetches nothing.
    - `ack_within_s`, `retry_after_s`: redelivery of events that nobody acknowledged; scale them down in tests.
    - `hides_files`: though files.info answers, a download gives the page to log in at (`page`), or leads to it
      (`redirect`).
    - `refusals`: the word with which a method is refused, by its name, as long as it stands there.
    - `refuses_sockets` n: the next n websockets get no handshake though their ticket was good; it is spent.
    - `connection_life_s`: after so long, minus `warning_s`, a socket is warned, then asked to refresh. 0: never.
    """

    scopes: frozenset[str] = EVERY_SCOPE
    subscriptions: frozenset[str] = EVERY_EVENT
    slash_commands: tuple[SlashCommand, ...] = (SlashCommand("trivet", "Talk to Trivet, or give it a command", "help"),)
    is_rate_limited: bool = True
    posts_per_s: float = 1.0
    posts_burst: int = 5
    splits_long_text: bool = True
    split_names_last: bool = True
    knows_markdown: bool = True
    has_streams: bool = True
    stream_life_s: float = 306.0
    status_anywhere: bool = True
    forgets_ts: int = 0
    link_uses_max: int = 5
    history_page_max: int = 999
    dedupes_client_msg_id: bool = False
    echoes_streams: bool = True
    unfurls_links: bool = False
    ack_within_s: float = 3.0
    retry_after_s: tuple[float, ...] = (0.0, 60.0, 300.0)
    connection_life_s: float = 0.0
    warning_s: float = 10.0
    sockets_max: int = 10
    hides_files: Literal["", "page", "redirect"] = ""
    refusals: dict[str, str] = field(default_factory=dict)
    refuses_sockets: int = 0
    tier_per_minute: dict[str, int] = field(default_factory=lambda: {"1": 30, "2": 20, "3": 50, "4": 100, "5": 300})
