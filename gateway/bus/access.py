"""Access on the bus: the projection of what operators decided, strangers who wait to be let in, open questions, and
suggestions for people who type. The truth about access is in SQL."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields, replace
from itertools import count, takewhile
from secrets import token_hex
from typing import Any, Final

from gateway.bounded_dict import BoundedDict
from gateway.bus.scripts import Command
from gateway.bus.shards import Shard, Shards, bounded
from gateway.contracts import access
from gateway.contracts.budgets import LIMITED_ROLES, Limited, LimitRule
from gateway.contracts.commands import (
    Suggestion,
    SuggestionRequest,
    decode_suggestion_request,
    decode_suggestions,
    encode_suggestion_request,
    encode_suggestions,
)
from gateway.contracts.envelope import decode_as
from gateway.contracts.errors import BadEnvelope, BusUnavailable
from gateway.contracts.ids import SessionKey
from gateway.contracts.messages import CleanText, ControlRequest, InboundMessage, PutQuestion, QuestionState, Reply
from gateway.contracts.sessions import Grant
from gateway.limits import BUS_WAIT_MAX_S, PROJECTION_STAGED_S, SUGGESTIONS_TTL_S, VIEWS_KEPT

_CHUNK: Final = 1000  # fields per command of a projection
_OPEN: Final = b"open"


class Access:
    """The projection that intake reads, and strangers who wait to be let in. Raises `BusUnavailable`.

    Where no projection is (a new bus, or one that lost its memory), nobody can say who is blocked: looking raises
    `BusUnavailable` until an agent process has shown what SQL holds, which takes it seconds. A grant is in the shard of
    its owner, rules are in every one, all pairing codes in the first.

    A view is kept until another projection is seen in its shard. It may be used where something tells that its
    projection is shown still: the script that takes a message in, or leases a lane. On a Cluster that holds for people
    whose shard is that of the lane; others are looked up each time."""

    def __init__(self, shards: Shards) -> None:
        self._shards = shards
        self._kept = [_KeptViews() for _ in shards]

    async def view(
        self, owner: SessionKey, places: Sequence[SessionKey] = (), *, shown: access.ShownAccess | None = None
    ) -> access.AccessView:
        """Return what was decided about a user and about these places, all of one moment. With the projection that is
        `shown` now, the bus is asked only for what is not kept of it. Raises `BusUnavailable` where nobody has shown
        any yet."""
        shard = self._shards.of(owner)
        if shown is not None and (view := self._kept[shard.number].find(owner, places)) and view.shown == shown:
            return view
        keys = shard.keys
        found = await shard.run_script(
            "view_access",
            (keys.access, keys.grants, keys.place_rules, keys.limit_rules),
            (str(owner), *LIMITED_ROLES, *map(str, places)),
        )
        if found is None:
            raise BusUnavailable("the bus does not know who is let in: an agent process tells it within seconds")
        limited: tuple[Limited, ...] = (owner, *LIMITED_ROLES)
        mark, role, limits, rules = found[0], found[1], found[2 : 2 + len(limited)], found[2 + len(limited) :]
        view = access.AccessView(
            role.decode() or None,
            {place: _rule(text) for place, text in zip(places, rules, strict=True) if text},
            {whom: _limits(text) for whom, text in zip(limited, limits, strict=True) if text},
            access.ShownAccess(shard.number, mark),
        )
        self._kept[shard.number].keep(owner, places, view)
        return view

    def kept(self, owner: SessionKey, places: Sequence[SessionKey], *, lane: SessionKey) -> access.AccessView | None:
        """Return the last view of a user and these places, which may be old by now: `Inbound.enqueue` for this lane
        tells. None where it could not tell, or nothing is kept."""
        shard = self._shards.of(owner)
        return self._kept[shard.number].find(owner, places) if shard is self._shards.of(lane) else None

    async def project(self, projection: access.Projection, *, is_forced: bool = False) -> bool:
        """Replace the whole projection, so that no reader ever sees half of it. False: a later one is there, which is
        replaced only if that `is_forced`."""
        groups: list[list[Grant]] = [[] for _ in self._shards]
        for grant in projection.grants:
            groups[self._shards.of(grant.key).number].append(grant)
        shown = await self._shards.ask_all(
            lambda shard: self._project(shard, replace(projection, grants=groups[shard.number]), is_forced=is_forced)
        )
        return all(shown)

    async def projected(self) -> int | None:
        """Return the revision that is shown; None where none is, or not everywhere the same."""
        shown = await self._shards.ask_all(lambda shard: shard.line.call("GET", shard.keys.access))
        found = {None if text is None else int(text.partition(b":")[0]) for text in shown}
        return found.pop() if len(found) == 1 else None

    async def ask_pairing(self, pairing: access.Pairing, *, ttl_s: int, pending_max: int) -> access.PairingOffer:
        """Return the pending code of a stranger, which is that of `pairing` if there was none yet."""
        first, owner = self._shards.first, pairing.owner
        answer = await first.run_script(
            "ask_pairing",
            (first.keys.pairing_of(str(owner)), first.keys.pairing_code(pairing.code), first.keys.pairings),
            (
                *(str(owner), owner.channel, pairing.code, bounded(pairing.welcome), pairing.name),
                *(pairing.asked_at_ms, ttl_s * 1000, pending_max),
            ),
        )
        if answer is None:
            return access.PairingOffer()
        code, left_ms = answer
        return access.PairingOffer(code.decode(), is_denied=not code, left_ms=left_ms)

    async def take_pairing(self, code: str, *, by: str, taker: str) -> access.PairingResult:
        """Take a code, once: the same `taker` may ask again and is told the same. `by` is who enters it: who errs
        `PAIRING_TRIES_MAX` times is not listened to for `PAIRING_LOCKED_S`."""
        first = self._shards.first
        verdict, found = await first.run_script(
            "take_pairing",
            (first.keys.pairing_code(code), first.keys.pairing_tries(by), first.keys.pairings),
            (first.keys.pairing_of(""), taker),
        )
        match verdict:
            case 1:
                return access.PairingResult(_pairing(code, found))
            case 0:
                return access.PairingResult(tries_left=found)
            case _:
                return access.PairingResult(is_locked=True, wait_s=found / 1000)

    async def deny_pairing(self, code: str) -> SessionKey | None:
        """Turn a stranger down and return who it is: the code is worth nothing, and there is no other for as long as it
        would have held."""
        first = self._shards.first
        answer = await first.run_script(
            "deny_pairing", (first.keys.pairing_code(code), first.keys.pairings), (first.keys.pairing_of(""),)
        )
        return None if answer is None else SessionKey.parse(answer.decode())

    async def forget_pairing(self, owner: SessionKey) -> None:
        """Take back the code of one about whom it was decided otherwise."""
        line, keys = self._shards.first.line, self._shards.first.keys
        if code := await line.call("GET", of_owner := keys.pairing_of(str(owner))):
            of_code = keys.pairing_code(code.decode())
            await line.call_all([("DEL", of_owner, of_code), ("ZREM", keys.pairings, str(owner))])

    async def pairings(self) -> Sequence[access.Pairing]:
        """Return who waits, oldest first."""
        first = self._shards.first
        found = await first.run_script(
            "list_pairings", (first.keys.pairings,), (first.keys.pairing_of(""), first.keys.pairing_code(""))
        )
        return [_pairing(code.decode(), words) for code, words in found if words]

    async def _project(self, shard: Shard, projection: access.Projection, *, is_forced: bool) -> bool:
        """Stage a projection under names of its own, then rename it."""
        keys, mark = shard.keys, token_hex(8)
        staged = (keys.staged_grants(mark), keys.staged_places(mark), keys.staged_limits(mark))
        grants = {str(grant.key): grant.role.value for grant in projection.grants}
        places = {str(place): _text(rule) for place, rule in projection.places.items()}
        limits = {str(whom): _limits_text(rule) for whom, rule in projection.limits.items()}
        commands = [
            words for key, texts in zip(staged, (grants, places, limits), strict=True) for words in _filling(key, texts)
        ]
        if commands:
            await shard.pool.transaction(commands)
        answer = await shard.run_script(
            "swap_access",
            (keys.access, keys.grants, keys.place_rules, keys.limit_rules, *staged),
            (f"{projection.revision}:{mark}", int(is_forced)),
        )
        return bool(answer)


class _KeptViews:
    """Views of one projection, those of the newest VIEWS_KEPT people and places."""

    def __init__(self) -> None:
        self._shown: access.ShownAccess | None = None
        self._views: BoundedDict[tuple[SessionKey, ...], access.AccessView] = BoundedDict(VIEWS_KEPT)

    def find(self, owner: SessionKey, places: Sequence[SessionKey]) -> access.AccessView | None:
        """Return the view of a user and these places."""
        return self._views.get((owner, *places))

    def keep(self, owner: SessionKey, places: Sequence[SessionKey], view: access.AccessView) -> None:
        """Keep a view; those of another projection go."""
        if view.shown != self._shown:
            self._views.clear()
            self._shown = view.shown
        self._views[(owner, *places)] = view


class Questions:
    """Questions to people while they are open, and the words that go back to the one who pressed a button. What is
    forgotten by itself is no truth. A question is in the shard of its code. Raises `BusUnavailable`."""

    def __init__(self, shards: Shards) -> None:
        self._shards = shards

    async def put(self, question: PutQuestion, *, ttl_s: float) -> None:
        """Open a question, unless its code is known; it is forgotten after `ttl_s`."""
        shard = self._shards.named(question.code)
        await shard.run_script(
            "put_question",
            (shard.keys.question(question.code),),
            (
                int(ttl_s * 1000),
                str(question.key),
                str(question.asked_by or ""),
                question.fence,
                question.digest,
                question.task_id,
                *map(bounded, question.replies),
            ),
        )

    async def standing(self, code: str) -> QuestionState | None:
        """Return the state of a question; None for a code that nobody knows (any more)."""
        shard = self._shards.named(code)
        found = await shard.line.call("HGETALL", shard.keys.question(code))
        return _standing(code, found) if found else None

    async def settle(self, code: str, answer: ControlRequest | None) -> QuestionState | None:
        """Settle an open question, or close it without an answer (None). The first one counts.
        Return the question's state now."""
        shard, envelope = self._shards.named(code), b"" if answer is None else bounded(answer)
        found = await shard.run_script("settle_question", (shard.keys.question(code),), (envelope,))
        return _standing(code, dict(zip(found[::2], found[1::2], strict=True))) if found else None

    async def told(self, press: InboundMessage, *, wait_s: float) -> Reply | None:
        """Return what the one who pressed a button is told, once; None if nobody said anything within `wait_s`."""
        shard = self._shards.of(press.key)
        found = await shard.pool.call("BLPOP", shard.keys.told(press.id), min(wait_s, BUS_WAIT_MAX_S))
        return decode_as(Reply, found[1]) if found else None


class Suggestions:
    """Questions of people who type, and what agent processes suggest. Lossy on purpose: both are gone within seconds.
    All of it is in the first shard: an answer is a kilobyte, and is read as soon as it is there."""

    def __init__(self, shards: Shards) -> None:
        self._first = shards.first

    async def ask(self, wanted: SuggestionRequest, *, wait_s: float) -> Sequence[Suggestion]:
        """Return what an agent process suggests; nothing if none of them says anything within `wait_s`, and at once
        nothing to one who asks too often."""
        entry = encode_suggestion_request(wanted)
        keys = (self._first.keys.asked, self._first.keys.asking(str(wanted.owner)))
        if not await self._first.run_script("ask_suggestions", keys, (entry,)):
            return ()
        said = await self._first.pop(self._first.keys.suggested(_name_of(entry)), wait_s=wait_s)
        try:
            return () if said is None else decode_suggestions(said)
        except BadEnvelope:
            return ()

    async def wanted(self, *, wait_s: float) -> SuggestionRequest | None:
        """Return a question that waits for an answer, each to one caller; None when nobody asked any within
        `wait_s`."""
        asked = await self._first.pop(self._first.keys.asked, wait_s=wait_s)
        try:
            return None if asked is None else decode_suggestion_request(asked)
        except BadEnvelope:
            return None

    async def suggest(self, wanted: SuggestionRequest, suggestions: Sequence[Suggestion]) -> None:
        """Answer the asking process. One that asks the same again may be given what an earlier one did not wait for."""
        suggested = self._first.keys.suggested(_name_of(encode_suggestion_request(wanted)))
        await self._first.pool.transaction(
            [("RPUSH", suggested, encode_suggestions(suggestions)), ("PEXPIRE", suggested, SUGGESTIONS_TTL_S * 1000)]
        )


def _filling(key: str, texts: Mapping[str, str]) -> list[Command]:
    words = [word for pair in texts.items() for word in pair]
    chunks = (words[start : start + 2 * _CHUNK] for start in range(0, len(words), 2 * _CHUNK))
    return [("HSET", key, *chunk) for chunk in chunks] + ([("EXPIRE", key, PROJECTION_STAGED_S)] if words else [])


def _text(rule: access.PlaceRule) -> str:
    """Return as much of a rule as intake has to know."""
    said = {"audience": rule.audience, "lets_guests": rule.lets_guests, "roles": rule.roles}
    return json.dumps({name: word for name, word in said.items() if word is not None}, separators=(",", ":"))


def _limits_text(rule: LimitRule) -> str:
    return json.dumps({name: number for name, number in asdict(rule).items() if number is not None})


def _limits(text: bytes) -> LimitRule:
    said: Mapping[str, int] = json.loads(text)
    return LimitRule(**{each.name: said[each.name] for each in fields(LimitRule) if each.name in said})


def _rule(text: bytes) -> access.PlaceRule:
    """Read a rule. A word that this release does not know closes the place."""
    said: Mapping[str, Any] = json.loads(text)
    audience = said.get("audience")
    known = access.Audience(audience) if audience in set(access.Audience) else access.Audience.NOBODY
    roles = said.get("roles")
    return access.PlaceRule(
        None if audience is None else known, said.get("lets_guests"), roles=None if roles is None else tuple(roles)
    )


def _pairing(code: str, words: Sequence[bytes]) -> access.Pairing:
    found: Mapping[bytes, Any] = dict(zip(words[::2], words[1::2], strict=True))
    return access.Pairing(
        code,
        SessionKey.parse(found[b"owner"].decode()),
        CleanText(found[b"name"].decode()),
        decode_as(Reply, found[b"welcome"]),
        int(found[b"asked_at"]),
    )


def _standing(code: str, found: Mapping[bytes, Any]) -> QuestionState:
    asked_by, answer = found[b"asked_by"].decode(), found.get(b"answer", b"")
    envelopes = takewhile(bool, (found.get(b"reply%d" % number) for number in count(1)))
    question = PutQuestion(
        code=code,
        key=SessionKey.parse(found[b"key"].decode()),
        replies=tuple(decode_as(Reply, envelope) for envelope in envelopes if envelope),
        asked_by=SessionKey.parse(asked_by) if asked_by else None,
        fence=int(found[b"fence"]),
        digest=found[b"digest"].decode(),
        task_id=found[b"task_id"].decode(),
    )
    return QuestionState(question, found[b"state"] == _OPEN, decode_as(ControlRequest, answer) if answer else None)


def _name_of(entry: bytes) -> str:
    return hashlib.blake2b(entry, digest_size=16).hexdigest()
