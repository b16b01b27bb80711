"""Where Discord's documents are unsure, or leave a choice to the owner of the bot: both behaviours, one switch each."""

from __future__ import annotations

from dataclasses import dataclass, field

from channels.emulators.discord.errors import Refused

RateTable = dict[str, tuple[int, float]]


def vendor_rates() -> RateTable:
    """Requests per seconds in one bucket, as third parties measured them; Discord announces, never promises them."""
    return {
        "create_message": (5, 5.0),
        "edit_message": (5, 5.0),
        "delete_message": (5, 1.0),
        "read_messages": (10, 5.0),
        "typing": (5, 5.0),
        "reaction": (1, 0.25),
        "create_thread": (50, 300.0),
        "rename": (2, 600.0),
        "open_dm": (10, 10.0),
        "webhook": (5, 2.0),
        "other": (50, 1.0),
    }


@dataclass(slots=True)
class Switches:
    """May be changed at any time; each is read where it matters.

    - `rates` by kind of request; empty it for no limits per route. `global_per_s` 0 means no global limit.
    - `nonce_window_s`: how long `enforce_nonce` remembers; Discord says only "the past few minutes".
    - `has_message_content`: the privileged intent is granted in the portal. Without it a session that asks for
      it ends with 4014, and REST and gateway blank what the bot may not read.
    - `sends_unfurls`: a message with a link is followed by a MESSAGE_UPDATE that is no edit.
    - `announces_dms`: CHANNEL_CREATE for direct chats, which API v6 sent to bots and v8 and later do not.
    - `strips_content`: leading and trailing white space of `content` is dropped, as the clients see it.
    - `refuses_replies`: how a message of the bot that names the one it answers is refused (160002 where the history
      is closed to it); None takes it.
    - `refuses_edits`: how a change of the bot's own message is refused; None takes it.
    - `refuses_links`: how whatever follows the first answer to an interaction is refused; None takes it.
    - `says_little`: the API answers of a message only its id, its place, its words and its nonce.
    - `hides_threads`: a session begins without a word of threads, as if all of them were asleep.
    - `moderates`: the bot may delete what others wrote, and change the threads of others.
    - `first_answer_s`, `token_life_s`: how long an interaction waits for its first answer, and for all others.
    - `heartbeat_ms`, `resume_window_s`: how long a gateway session lives without word from the client.
    - `sessions_left`: the IDENTIFY budget of the day.
    - `shards`: how many connections `GET /gateway/bot` recommends; `max_concurrency` of them may identify at a time.
    - `refuses_sockets` n: the next n websockets get no handshake, as from a server that is down.
    - `drops_after_hello` n: the next n websockets are closed (4000) right after HELLO.
    """

    rates: RateTable = field(default_factory=vendor_rates)
    global_per_s: int = 50
    nonce_window_s: float = 180.0
    has_message_content: bool = True
    sends_unfurls: bool = False
    announces_dms: bool = False
    strips_content: bool = True
    refuses_replies: Refused | None = None
    refuses_edits: Refused | None = None
    refuses_links: Refused | None = None
    says_little: bool = False
    hides_threads: bool = False
    moderates: bool = False
    first_answer_s: float = 3.0
    token_life_s: float = 15 * 60.0
    heartbeat_ms: int = 41_250
    resume_window_s: float = 180.0
    sessions_left: int = 1000
    shards: int = 1
    max_concurrency: int = 1
    refuses_sockets: int = 0
    drops_after_hello: int = 0
