"""Every key of the bus, spelled once: how it is named, what it holds, how long it lives, who owns it.

All keys of a shard carry its tag `{qN}`, so that on a Cluster one script may touch them together. A test fails on any
key in the server that `ShardKeys` does not describe."""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from gateway.contracts.ids import SessionKey
from gateway.limits import DEDUPE_BUCKET_H, DEDUPE_WINDOW_H

CLUSTER_SHARDS: Final = 16
"""A single server is one shard, a Cluster this many. The number is stored in `meta`: another one would
scatter the lanes."""

HANDLE_SEPARATOR: Final = "\x1f"
DEDUPE_BUCKETS: Final = -(-DEDUPE_WINDOW_H // DEDUPE_BUCKET_H) + 1
"""The number of buckets that a look-up visits: those the window spans, and the one it begins in."""


def shard_number(key: SessionKey, shards: int) -> int:
    """Return the shard of a lane. It follows the owner, so that all lanes of one user are in one shard."""
    return zlib.crc32(str(key.owner).encode()) % shards


def lane_handle(key: SessionKey) -> str:
    """Return the element of the ready list: the lane and its owner."""
    return f"{key}{HANDLE_SEPARATOR}{key.owner}"


class Lifetime(StrEnum):
    """The end of a key's life."""

    PERMANENT = "permanent"
    """Bounded by its own script or by what exists; never expires."""
    EXPIRES = "expires"
    """Always carries a TTL."""
    DRAINS = "drains"
    """Deleted when its last element is taken; an idle bus has none of them."""


@dataclass(frozen=True)
class KeyKind:
    """One row of the key table: how the key is called after the shard tag, its type, the end of its life, who writes
    it, and what it holds."""

    name: str
    type: str
    lifetime: Lifetime
    owner: str
    holds: str

    @property
    def pattern(self) -> str:
        """Return the pattern of its names after the shard tag."""
        return re.escape(self.name)


class Key(KeyKind):
    """One key; of the keys of a shard it is the name there."""

    def __get__(self, shard: ShardKeys, _: type[ShardKeys]) -> str:
        return f"{{q{shard.number}}}:{self.name}"


@dataclass(frozen=True)
class Keys(KeyKind):
    """Keys whose names end with an id that `ids` matches; with "" it is what the names of all of them begin with."""

    ids: str = ".+"

    @property
    def pattern(self) -> str:
        return re.escape(self.name) + self.ids

    def __get__(self, shard: ShardKeys, _: type[ShardKeys]) -> Callable[[object], str]:
        beginning = f"{{q{shard.number}}}:{self.name}"
        return lambda of: f"{beginning}{of}"


_PERMANENT, _EXPIRES, _DRAINS = Lifetime.PERMANENT, Lifetime.EXPIRES, Lifetime.DRAINS


@dataclass(frozen=True, slots=True)
class ShardKeys:
    """The keys of one shard, which is the key table: each is named, and described, here and nowhere else."""

    number: int

    # --- lanes
    mailbox = Keys("mb:", "list", _DRAINS, "lanes", "arrival time and envelope of each message, oldest first")
    ready = Key("ready", "list", _DRAINS, "lanes", "handles of lanes that wait for a worker, round robin")
    delay = Key("delay", "zset", _DRAINS, "lanes", "handles of lanes that settle or back off, by due time in ms")
    own = Key("own", "hash", _DRAINS, "lanes", "lane -> worker|fence|messages, while a turn runs")
    past = Key("past", "hash", _DRAINS, "lanes", "lane -> failed runs|restarts|stopped messages|last error, if any")
    user_counts = Key(
        "ucnt", "hash", _DRAINS, "lanes", "owner -> number of lanes that are ready or running, absent at zero"
    )
    parked = Keys("park:", "list", _DRAINS, "lanes", "handles of an owner's lanes that wait for a free place")
    total = Key("tot", "string", _PERMANENT, "lanes", "messages in all mailboxes, for back-pressure")
    fence = Key("fence", "string", _PERMANENT, "lanes", "the last fencing token; only grows")
    wake = Key("wake", "list", _DRAINS, "lanes", "at most one token that wakes one idle worker")
    dead_letters = Key("dlq", "stream", _PERMANENT, "lanes", "dead letters with reason, newest DEAD_LETTERS_MAX")
    untold = Key("untold", "zset", _DRAINS, "lanes", "dead letters whose authors do not know yet, by time in ms")
    seen = Keys("dd:", "set", _EXPIRES, "intake", "digests of accepted message ids, per DEDUPE_BUCKET_H", ids=r"\d+")
    rate = Keys("rate:", "hash", _EXPIRES, "intake", "messages that a person may still send; absent when all")
    pace = Keys("pace:", "hash", _EXPIRES, "intake", "commands that a person may still give; absent when all")

    met = Keys("met:", "zset", _EXPIRES, "intake", "keyed hashes of secrets found in a lane, newest MET_SECRETS_MAX")

    # --- workers
    workers = Key("wk", "zset", _DRAINS, "leases", "worker -> end of its lease in ms")
    worker_lanes = Keys("wl:", "zset", _DRAINS, "leases", "handles of the lanes a worker owns, by fence")
    cancels = Keys("ctl:", "set", _DRAINS, "control", "kind, lane and fence of turns to cancel, until a beat has heard")

    # --- control, deliveries
    control = Key("control", "stream", _PERMANENT, "control", "control requests, read by the group of the agents")
    receipts = Key("rcpt", "stream", _PERMANENT, "deliveries", "ends of deliveries, read by the same group")
    outbound_channels = Key("outs", "set", _PERMANENT, "deliveries", "channels that ever had a reply")
    outbound = Keys(
        "out:",
        "stream",
        _PERMANENT,
        "deliveries",
        "replies to send, read by the group of the channels, emptied by finish",
    )
    published = Keys("ddo:", "set", _EXPIRES, "deliveries", "digests of published reply ids", ids=r"\d+")
    wanted = Key("want", "list", _EXPIRES, "lending", "files that channels wait for, newest WANTED_FILES_MAX")
    lent = Keys("lent:", "list", _EXPIRES, "lending", "the bytes of one file for the process that asked, LENT_TTL_S")
    wished = Keys("wish:", "list", _EXPIRES, "attachments", "files of a channel that turns need, ATTACHMENT_WISHES_MAX")
    pieces = Keys(
        "piece:", "list", _EXPIRES, "attachments", "pieces of one file on their way to a turn, a few at a time"
    )
    taken = Keys("taken:", "list", _EXPIRES, "attachments", "a word for each piece that its reader has taken")
    ledger = Keys("dlv:", "hash", _EXPIRES, "deliveries", "ledger row of one reply, LEDGER_TTL_S")
    previews = Keys("prv:", "hash", _EXPIRES, "previews", "reply id -> the messages that show its draft, LEDGER_TTL_S")
    fetched = Keys("api:", "hash", _EXPIRES, "answers", "what was said to a program, FETCHED_ANSWERS_TTL_S")
    hold = Keys("hold:", "string", _EXPIRES, "deliveries", "holder of a named lease")
    _bucket = Keys("tb:", "hash", _EXPIRES, "pacing", "tokens of a send bucket; absent when full")

    def tokens(self, account: str, bucket: str) -> str:
        return self._bucket(f"{account}:{bucket}")

    # --- places
    dead_place = Keys("dead:", "string", _EXPIRES, "places", "why a place takes nothing any more")
    refusals = Keys("ref:", "string", _EXPIRES, "places", "refusals an account met, per REFUSALS_WINDOW_S")
    unsure = Keys("doubt:", "string", _EXPIRES, "places", "there while an account sends carefully, UNSURE_TTL_S")
    sent_ids = Keys(
        "sent:", "zset", _EXPIRES, "places", "messages of ours in a place, newest SENT_IDS_MAX, by time in ms"
    )
    newest_ids = Keys("moved:", "hash", _PERMANENT, "places", "the id a chat had first -> the id it has now")
    first_ids = Keys("was:", "hash", _PERMANENT, "places", "chat id -> the id it had first")
    own_bots = Keys(
        "bots:", "set", _PERMANENT, "places", "ids of our own bots on a platform, as many as ever connected"
    )
    bot_turns = Keys("spoke:", "set", _EXPIRES, "places", "messages of other bots since a person spoke, BOT_TURNS_MAX")
    link = Keys(
        "link:", "string", _EXPIRES, "places", "an address that a platform gave for a few answers to one person"
    )
    namer = Keys(
        "namer:", "string", _EXPIRES, "places", "digest of the conversation a place is named after, NAMER_TTL_S"
    )
    ambiguous = Key("ambiguous", "hash", _PERMANENT, "places", "channel -> chunks sent although they may have arrived")

    # --- questions to people
    question = Keys("ask:", "hash", _EXPIRES, "questions", "a question to a person, its state, who settled it")
    told = Keys("told:", "list", _EXPIRES, "questions", "what the one who pressed a button is told, TOLD_TTL_S")

    # --- suggestions to people who type
    asked = Key("asked", "list", _EXPIRES, "suggestions", "what people who type are to be suggested, SUGGESTIONS_TTL_S")
    suggested = Keys("sugg:", "list", _EXPIRES, "suggestions", "what is suggested to one of them, SUGGESTIONS_TTL_S")
    asking = Keys("asking:", "hash", _EXPIRES, "suggestions", "how often a person may still ask; absent when always")

    # --- secrets for tools
    vault = Keys("vault:", "hash", _EXPIRES, "vault", "sealed secrets of an owner, by lane, sender and placeholder")

    # --- what intake and the operator read
    positions = Key("pos", "hash", _PERMANENT, "intake", "intake positions by name")
    grants = Key("grants", "hash", _PERMANENT, "access", "owner -> role, projected from SQL")
    place_rules = Key("places", "hash", _PERMANENT, "access", "place -> who may speak there, projected from SQL")
    limit_rules = Key("limits", "hash", _PERMANENT, "access", "owner or role -> limits, projected from SQL")
    access = Key(
        "access", "string", _PERMANENT, "access", "revision and mark of that projection; absent: nobody is let in"
    )
    staged_grants = Keys("staged:grants:", "hash", _EXPIRES, "access", "a projection under way, PROJECTION_STAGED_S")
    staged_places = Keys("staged:places:", "hash", _EXPIRES, "access", "a projection under way, PROJECTION_STAGED_S")
    staged_limits = Keys("staged:limits:", "hash", _EXPIRES, "access", "a projection under way, PROJECTION_STAGED_S")
    pairing_code = Keys("pair:code:", "hash", _EXPIRES, "access", "the stranger a code was given to, and who took it")
    pairing_of = Keys("pair:of:", "string", _EXPIRES, "access", "the pending code of a stranger; empty: turned down")
    pairings = Key("pair:pending", "zset", _EXPIRES, "access", "strangers with a pending code, by its end")
    pairing_tries = Keys("pair:tries:", "string", _EXPIRES, "access", "wrong codes of somebody, PAIRING_LOCKED_S")
    channel_reports = Key("chan", "hash", _EXPIRES, "figures", "channel -> end of the report in ms|state")
    model_troubles = Key("models", "hash", _EXPIRES, "figures", "model -> why it does not answer, MODEL_TROUBLES_TTL_S")
    tally = Key("tally", "hash", _PERMANENT, "figures", "metric, labels -> how often; as many as models are configured")
    tally_slot = Keys(
        "tally:",
        "hash",
        _EXPIRES,
        "figures",
        "the same of one TALLY_SLOT_S, numbered from 1970, for TALLY_PAST_S",
        ids=r"\d+",
    )
    logs = Key("logs", "stream", _EXPIRES, "figures", "lines of all logs, newest LOG_LINES_KEPT, LOG_LINES_KEPT_S")
    names = Key("names", "hash", _PERMANENT, "figures", "owner -> display name, until the owner is erased")
    queue_past = Key(
        "queued", "stream", _EXPIRES, "figures", "how much waited, each QUEUE_NOTED_EVERY_S for QUEUE_PAST_S"
    )
    meta = Key(
        "meta", "hash", _PERMANENT, "connection", "whose the bus is, shards, version of the layout, a mark to copy"
    )


DECLARED: Final = tuple(each for each in vars(ShardKeys).values() if isinstance(each, KeyKind))


@dataclass(frozen=True, slots=True)
class InstallationNames:
    """The names that carry an installation. Pub/sub knows no databases: two Trivets on one server would hear each other
    if they called a channel the same, whereas keys are apart in databases of their own."""

    installation: str

    def named(self, name: str) -> str:
        """Return `name` as that of this installation: a worker, a holder of leases."""
        return f"{self.installation}:{name}"

    # --- consumer groups

    @property
    def agents(self) -> str:
        return self.named("agents")

    @property
    def channels(self) -> str:
        return self.named("channels")

    # --- pub/sub

    def news(self, key: str) -> str:
        """Return the channel that tells of news under a key; of no key, the beginning of all these channels."""
        return self.named(key)

    def activity(self, channel: str) -> str:
        return self.named(f"activity:{channel}")

    def draft(self, channel: str) -> str:
        return self.named(f"draft:{channel}")


_TAGGED: Final = re.compile(r"\{q\d+\}:(.+)", re.DOTALL)


def kind_of(key: str) -> KeyKind | None:
    """Return the row that describes a key found in the server, None for a key nobody declared."""
    match = _TAGGED.fullmatch(key)
    if match is None:
        return None
    return next((kind for kind in DECLARED if re.fullmatch(kind.pattern, match[1], re.DOTALL)), None)
