"""Every key of the bus, spelled once: how it is named, what it holds, how long it lives, who owns it.

All keys of a shard carry its tag `{qN}`, so that on a Cluster one script may touch them together.
`DECLARED` says the same as data: a test fails on any key in the server that it does not describe."""

from __future__ import annotations

import re
import zlib
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


@dataclass(frozen=True, slots=True)
class ShardKeys:
    """The names of one shard. A property is one key, a method a family of keys."""

    number: int

    def _named(self, name: str) -> str:
        return f"{{q{self.number}}}:{name}"

    # --- lanes

    def mailbox(self, lane: str) -> str:
        return self._named(f"mb:{lane}")

    @property
    def ready(self) -> str:
        return self._named("ready")

    @property
    def delay(self) -> str:
        return self._named("delay")

    @property
    def own(self) -> str:
        return self._named("own")

    @property
    def past(self) -> str:
        return self._named("past")

    @property
    def user_counts(self) -> str:
        return self._named("ucnt")

    def parked(self, owner: str) -> str:
        return self._named(f"park:{owner}")

    @property
    def total(self) -> str:
        return self._named("tot")

    @property
    def fence(self) -> str:
        return self._named("fence")

    @property
    def wake(self) -> str:
        return self._named("wake")

    @property
    def dead_letters(self) -> str:
        return self._named("dlq")

    @property
    def untold(self) -> str:
        return self._named("untold")

    def seen(self, bucket: str) -> str:
        return self._named(f"dd:{bucket}")

    def rate(self, author: str) -> str:
        return self._named(f"rate:{author}")

    def pace(self, author: str) -> str:
        return self._named(f"pace:{author}")

    # --- workers

    @property
    def workers(self) -> str:
        return self._named("wk")

    def worker_lanes(self, worker: str) -> str:
        return self._named(f"wl:{worker}")

    def cancels(self, worker: str) -> str:
        return self._named(f"ctl:{worker}")

    # --- control, deliveries

    @property
    def control(self) -> str:
        return self._named("control")

    @property
    def receipts(self) -> str:
        return self._named("rcpt")

    @property
    def outbound_channels(self) -> str:
        return self._named("outs")

    def outbound(self, channel: str) -> str:
        return self._named(f"out:{channel}")

    def published(self, bucket: str) -> str:
        return self._named(f"ddo:{bucket}")

    @property
    def wanted(self) -> str:
        return self._named("want")

    def lent(self, file: str) -> str:
        return self._named(f"lent:{file}")

    def wished(self, channel: str) -> str:
        return self._named(f"wish:{channel}")

    def pieces(self, ticket: str) -> str:
        return self._named(f"piece:{ticket}")

    def taken(self, ticket: str) -> str:
        return self._named(f"taken:{ticket}")

    def ledger(self, reply_id: str) -> str:
        return self._named(f"dlv:{reply_id}")

    def previews(self, channel: str) -> str:
        return self._named(f"prv:{channel}")

    def fetched(self, message_id: str) -> str:
        return self._named(f"api:{message_id}")

    def hold(self, name: str) -> str:
        return self._named(f"hold:{name}")

    def tokens(self, account: str, bucket: str) -> str:
        return self._named(f"tb:{account}:{bucket}")

    # --- places

    def grave(self, place: str) -> str:
        return self._named(f"dead:{place}")

    def refusals(self, account: str) -> str:
        return self._named(f"ref:{account}")

    def doubt(self, account: str) -> str:
        return self._named(f"doubt:{account}")

    def sent_ids(self, place: str) -> str:
        return self._named(f"sent:{place}")

    def newest_ids(self, channel: str) -> str:
        return self._named(f"moved:{channel}")

    def first_ids(self, channel: str) -> str:
        return self._named(f"was:{channel}")

    def own_bots(self, platform: str) -> str:
        return self._named(f"bots:{platform}")

    def bot_turns(self, room: str) -> str:
        return self._named(f"spoke:{room}")

    def link(self, name: str) -> str:
        return self._named(f"link:{name}")

    def namer(self, place: str) -> str:
        return self._named(f"namer:{place}")

    @property
    def ambiguous(self) -> str:
        return self._named("ambiguous")

    # --- questions to people

    def question(self, code: str) -> str:
        return self._named(f"ask:{code}")

    def told(self, press_id: str) -> str:
        return self._named(f"told:{press_id}")

    # --- suggestions to people who type

    @property
    def asked(self) -> str:
        return self._named("asked")

    def suggested(self, question: str) -> str:
        return self._named(f"sugg:{question}")

    def asking(self, owner: str) -> str:
        return self._named(f"asking:{owner}")

    # --- secrets for tools

    def vault(self, owner: str) -> str:
        return self._named(f"vault:{owner}")

    # --- what intake and the operator read

    @property
    def positions(self) -> str:
        return self._named("pos")

    @property
    def grants(self) -> str:
        return self._named("grants")

    @property
    def place_rules(self) -> str:
        return self._named("places")

    @property
    def limit_rules(self) -> str:
        return self._named("limits")

    @property
    def access(self) -> str:
        return self._named("access")

    def staged_grants(self, mark: str) -> str:
        return self._named(f"staged:grants:{mark}")

    def staged_places(self, mark: str) -> str:
        return self._named(f"staged:places:{mark}")

    def staged_limits(self, mark: str) -> str:
        return self._named(f"staged:limits:{mark}")

    def pairing_code(self, code: str) -> str:
        return self._named(f"pair:code:{code}")

    def pairing_of(self, owner: str) -> str:
        return self._named(f"pair:of:{owner}")

    @property
    def pairings(self) -> str:
        return self._named("pair:pending")

    def pairing_tries(self, by: str) -> str:
        return self._named(f"pair:tries:{by}")

    @property
    def channel_reports(self) -> str:
        return self._named("chan")

    @property
    def model_troubles(self) -> str:
        return self._named("models")

    @property
    def tally(self) -> str:
        return self._named("tally")

    def tally_slot(self, number: int | str) -> str:
        """Name the counts of one span of TALLY_SLOT_S, numbered from 1970; "" is what all of them begin with."""
        return self._named(f"tally:{number}")

    @property
    def logs(self) -> str:
        return self._named("logs")

    @property
    def names(self) -> str:
        return self._named("names")

    @property
    def queue_past(self) -> str:
        return self._named("queued")

    @property
    def meta(self) -> str:
        return self._named("meta")


@dataclass(frozen=True, slots=True)
class InstallationNames:
    """The names that carry an installation. Pub/sub knows no databases: two Trivets on one server would hear each other
    if they called a channel the same, whereas keys are apart in databases of their own."""

    installation: str

    def named(self, name: str) -> str:
        """`name` as that of this installation: a worker, a holder of leases."""
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


class Lifetime(StrEnum):
    """The end of a key's life."""

    PERMANENT = "permanent"
    """Bounded by its own script or by what exists; never expires."""
    EXPIRES = "expires"
    """Always carries a TTL."""
    DRAINS = "drains"
    """Deleted when its last element is taken; an idle bus has none of them."""


@dataclass(frozen=True, slots=True)
class KeyKind:
    """One row of the key table. `name` is a pattern of the part behind the shard tag."""

    name: str
    type: str
    lifetime: Lifetime
    owner: str
    holds: str


_PERMANENT, _EXPIRES, _DRAINS = Lifetime.PERMANENT, Lifetime.EXPIRES, Lifetime.DRAINS

DECLARED: Final = (
    KeyKind("mb:.+", "list", _DRAINS, "lanes", "arrival time and envelope of each message, oldest first"),
    KeyKind("ready", "list", _DRAINS, "lanes", "handles of lanes that wait for a worker, round robin"),
    KeyKind("delay", "zset", _DRAINS, "lanes", "handles of lanes that settle or back off, by due time in ms"),
    KeyKind("own", "hash", _DRAINS, "lanes", "lane -> worker|fence|messages, while a turn runs"),
    KeyKind("past", "hash", _DRAINS, "lanes", "lane -> failed runs|restarts|stopped messages|last error, if any"),
    KeyKind("ucnt", "hash", _DRAINS, "lanes", "owner -> number of lanes that are ready or running, absent at zero"),
    KeyKind("park:.+", "list", _DRAINS, "lanes", "handles of an owner's lanes that wait for a free place"),
    KeyKind("tot", "string", _PERMANENT, "lanes", "messages in all mailboxes, for back-pressure"),
    KeyKind("fence", "string", _PERMANENT, "lanes", "the last fencing token; only grows"),
    KeyKind("wake", "list", _DRAINS, "lanes", "at most one token that wakes one idle worker"),
    KeyKind("dlq", "stream", _PERMANENT, "lanes", "dead letters with reason, newest DEAD_LETTERS_MAX"),
    KeyKind("untold", "zset", _DRAINS, "lanes", "dead letters whose authors do not know yet, by time in ms"),
    KeyKind(r"dd:\d+", "set", _EXPIRES, "intake", "digests of accepted message ids, per DEDUPE_BUCKET_H"),
    KeyKind("wk", "zset", _DRAINS, "leases", "worker -> end of its lease in ms"),
    KeyKind("wl:.+", "zset", _DRAINS, "leases", "handles of the lanes a worker owns, by fence"),
    KeyKind("ctl:.+", "set", _DRAINS, "control", "kind, lane and fence of turns to cancel, until a beat has heard"),
    KeyKind("control", "stream", _PERMANENT, "control", "control requests, read by the group of the agents"),
    KeyKind("rcpt", "stream", _PERMANENT, "deliveries", "ends of deliveries, read by the same group"),
    KeyKind("outs", "set", _PERMANENT, "deliveries", "channels that ever had a reply"),
    KeyKind(
        "out:.+",
        "stream",
        _PERMANENT,
        "deliveries",
        "replies to send, read by the group of the channels, emptied by finish",
    ),
    KeyKind(r"ddo:\d+", "set", _EXPIRES, "deliveries", "digests of published reply ids"),
    KeyKind("dlv:.+", "hash", _EXPIRES, "deliveries", "ledger row of one reply, LEDGER_TTL_S"),
    KeyKind("prv:.+", "hash", _EXPIRES, "previews", "reply id -> the messages that show its draft, LEDGER_TTL_S"),
    KeyKind("api:.+", "hash", _EXPIRES, "answers", "what was said to a program, FETCHED_ANSWERS_TTL_S"),
    KeyKind("want", "list", _EXPIRES, "lending", "files that channels wait for, newest WANTED_FILES_MAX"),
    KeyKind("lent:.+", "list", _EXPIRES, "lending", "the bytes of one file for whoever asked, LENT_TTL_S"),
    KeyKind("wish:.+", "list", _EXPIRES, "attachments", "files of a channel that turns need, ATTACHMENT_WISHES_MAX"),
    KeyKind("piece:.+", "list", _EXPIRES, "attachments", "pieces of one file on their way to a turn, a few at a time"),
    KeyKind("taken:.+", "list", _EXPIRES, "attachments", "a word for each piece that its reader has taken"),
    KeyKind("hold:.+", "string", _EXPIRES, "deliveries", "holder of a named lease"),
    KeyKind("tb:.+", "hash", _EXPIRES, "pacing", "tokens of a send bucket; absent when full"),
    KeyKind("dead:.+", "string", _EXPIRES, "places", "why a place takes nothing any more"),
    KeyKind("ref:.+", "string", _EXPIRES, "places", "refusals an account met, per REFUSALS_WINDOW_S"),
    KeyKind("doubt:.+", "string", _EXPIRES, "places", "there while an account sends carefully, DOUBT_TTL_S"),
    KeyKind("sent:.+", "zset", _EXPIRES, "places", "messages of ours in a place, newest SENT_IDS_MAX, by time in ms"),
    KeyKind("moved:.+", "hash", _PERMANENT, "places", "the id a chat had first -> the id it has now"),
    KeyKind("was:.+", "hash", _PERMANENT, "places", "chat id -> the id it had first"),
    KeyKind("bots:.+", "set", _PERMANENT, "places", "ids of our own bots on a platform, as many as ever connected"),
    KeyKind("spoke:.+", "set", _EXPIRES, "places", "messages of other bots since a person spoke, BOT_TURNS_MAX"),
    KeyKind("link:.+", "string", _EXPIRES, "places", "an address that a platform gave for a few answers to one person"),
    KeyKind("namer:.+", "string", _EXPIRES, "places", "digest of the conversation a place is named after, NAMER_TTL_S"),
    KeyKind("ambiguous", "hash", _PERMANENT, "places", "channel -> chunks sent although they may have arrived"),
    KeyKind("ask:.+", "hash", _EXPIRES, "questions", "a question to a person, its state, who settled it"),
    KeyKind("told:.+", "list", _EXPIRES, "questions", "what the one who pressed a button is told, TOLD_TTL_S"),
    KeyKind("asked", "list", _EXPIRES, "suggestions", "what people who type are to be suggested, SUGGESTIONS_TTL_S"),
    KeyKind("asking:.+", "hash", _EXPIRES, "suggestions", "how often a person may still ask; absent when always"),
    KeyKind("sugg:.+", "list", _EXPIRES, "suggestions", "what is suggested to one of them, SUGGESTIONS_TTL_S"),
    KeyKind("vault:.+", "hash", _EXPIRES, "vault", "sealed secrets of an owner, by lane, sender and placeholder"),
    KeyKind("pos", "hash", _PERMANENT, "intake", "intake positions by name"),
    KeyKind("grants", "hash", _PERMANENT, "access", "owner -> role, projected from SQL"),
    KeyKind("places", "hash", _PERMANENT, "access", "place -> who may speak there, projected from SQL"),
    KeyKind("limits", "hash", _PERMANENT, "access", "owner or role -> limits, projected from SQL"),
    KeyKind("access", "string", _PERMANENT, "access", "revision and mark of that projection; absent: nobody is let in"),
    KeyKind(
        "staged:(grants|places|limits):.+", "hash", _EXPIRES, "access", "a projection under way, PROJECTION_STAGED_S"
    ),
    KeyKind("pair:code:.+", "hash", _EXPIRES, "access", "the stranger a code was given to, and who took it"),
    KeyKind("pair:of:.+", "string", _EXPIRES, "access", "the pending code of a stranger; empty: turned down"),
    KeyKind("pair:pending", "zset", _EXPIRES, "access", "strangers with a pending code, by its end"),
    KeyKind("pair:tries:.+", "string", _EXPIRES, "access", "wrong codes of somebody, PAIRING_LOCKED_S"),
    KeyKind("rate:.+", "hash", _EXPIRES, "intake", "messages that a person may still send; absent when all"),
    KeyKind("pace:.+", "hash", _EXPIRES, "intake", "commands that a person may still give; absent when all"),
    KeyKind("chan", "hash", _EXPIRES, "figures", "channel -> end of the report in ms|state"),
    KeyKind("models", "hash", _EXPIRES, "figures", "model -> why it does not answer, MODEL_TROUBLES_TTL_S"),
    KeyKind("tally", "hash", _PERMANENT, "figures", "metric, labels -> how often; as many as models are configured"),
    KeyKind(r"tally:\d+", "hash", _EXPIRES, "figures", "the same of one TALLY_SLOT_S, for TALLY_PAST_S"),
    KeyKind("logs", "stream", _EXPIRES, "figures", "lines of all logs, newest LOG_LINES_KEPT, LOG_LINES_KEPT_S"),
    KeyKind("names", "hash", _PERMANENT, "figures", "owner -> display name, until the owner is erased"),
    KeyKind("queued", "stream", _EXPIRES, "figures", "how much waited, each QUEUE_NOTED_EVERY_S for QUEUE_PAST_S"),
    KeyKind(
        "meta", "hash", _PERMANENT, "connection", "whose the bus is, shards, version of the layout, a mark to copy"
    ),
)

_TAGGED: Final = re.compile(r"\{q\d+\}:(.+)", re.DOTALL)


def kind_of(key: str) -> KeyKind | None:
    """The row that describes a key found in the server, None for a key nobody declared."""
    match = _TAGGED.fullmatch(key)
    if match is None:
        return None
    return next((kind for kind in DECLARED if re.fullmatch(kind.name, match[1], re.DOTALL)), None)
