"""What is remembered of a person, in his own hands: /memory, /forget.

In a group both show and touch only what may be read there; in a direct message, all of it.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime
from typing import Final

from agent.commands.table import Asked, CommandRow, Done
from agent.limits import FACTS_LISTED_MAX
from agent.memory import Memory
from gateway.contracts.ids import SessionKey
from gateway.contracts.memories import Fact
from gateway.contracts.ports import MemoryStore

Forgotten = Callable[[SessionKey], Awaitable[object]]
"""Told that facts of an owner are gone: whatever was made of them has to go, too."""

_SHARING: Final = re.compile(r"(share|private)\s+(\d{1,9})", re.IGNORECASE | re.ASCII)
_NUMBERS: Final = re.compile(r"\d{1,20}(?:[\s,]+\d{1,20})*", re.ASCII)
_ALL: Final = re.compile(r"all(\s+yes)?", re.IGNORECASE)
_LISTED_CHARS_MAX: Final = 200


def memory_commands(
    memory: Memory, store: MemoryStore, *, forgotten: Sequence[Forgotten] = ()
) -> tuple[CommandRow, ...]:
    """The rows, in the order of /help."""

    async def show(asked: Asked) -> Done:
        key = asked.session.key
        if sharing := _SHARING.fullmatch(asked.argument):
            return await _share(store, key, int(sharing[2]), is_shared=sharing[1].lower() == "share")
        facts = await memory.recall(key, asked.argument, limit=FACTS_LISTED_MAX)
        if not facts:
            return Done("I remember nothing like that." if asked.argument else f"I remember nothing{_here(key)} yet.")
        title = "What fits best" if asked.argument else f"What I remember{_here(key)}, newest first"
        return Done(f"{title}:\n\n{_listed(facts, key)}\n\n/forget NUMBER makes me forget one of them.")

    async def forget(asked: Asked) -> Done:
        key, what = asked.session.key, asked.argument
        if not what:
            return Done("Write /forget and a number from /memory, some words, or `all`.")
        if everything := _ALL.fullmatch(what):
            return await _forget_all(memory, store, key, is_sure=bool(everything[1]), forgotten=forgotten)
        if _NUMBERS.fullmatch(what):
            numbers = [int(number) for number in re.findall(r"\d+", what)]
        else:
            found = await memory.recall(key, what, limit=FACTS_LISTED_MAX)
            if len(found) != 1:
                return Done(_which_of(found, key))
            numbers = [fact.number for fact in found]
        gone = await store.forget(key, [number for number in numbers if number < 2**31])
        for tell in forgotten if gone else ():
            await tell(key.owner)
        return Done(f"Forgotten:\n\n{_listed(gone, key)}" if gone else "There is no such fact. /memory lists them.")

    return (
        CommandRow("memory", "what I remember: /memory WORDS, /memory share NUMBER, /memory private NUMBER", show),
        CommandRow("forget", "make me forget: /forget NUMBER, /forget WORDS, /forget all", forget),
    )


async def _share(store: MemoryStore, key: SessionKey, number: int, *, is_shared: bool) -> Done:
    fact = await store.share(key, number, is_shared=is_shared) if number < 2**31 else None
    if fact is None:
        return Done("There is no such fact. /memory lists them.")
    where = "wherever you talk to me" if is_shared else "only where I learned it, and in our direct messages"
    return Done(f"I use this {where}:\n\n{_listed([fact], key)}")


async def _forget_all(
    memory: Memory, store: MemoryStore, key: SessionKey, *, is_sure: bool, forgotten: Sequence[Forgotten]
) -> Done:
    if not is_sure:
        count = len(await memory.recall(key, "", limit=FACTS_LISTED_MAX))
        many = f"{count} or more" if count == FACTS_LISTED_MAX else str(count)
        return Done(
            f"This forgets everything I remember{_here(key)} ({many} facts), and that I can look up what we said in "
            "earlier conversations. Write `/forget all yes` if you mean it."
        )
    count = await store.forget_all(key)
    for tell in forgotten:
        await tell(key.owner)
    return Done(
        f"I have forgotten {count} facts and cannot look up earlier conversations any more. "
        "What this conversation holds is gone from my sight with /new."
    )


def _which_of(found: Sequence[Fact], key: SessionKey) -> str:
    if not found:
        return "I remember nothing like that. /memory lists what I remember."
    return f"Which of these? Write /forget and its number.\n\n{_listed(found, key)}"


def _here(key: SessionKey) -> str:
    return " of you" if key.is_private else " from here"


def _listed(facts: Sequence[Fact], key: SessionKey) -> str:
    return "\n".join(_line(fact, key) for fact in facts)


def _line(fact: Fact, key: SessionKey) -> str:
    text = " ".join(fact.text.split())
    shown = text if len(text) <= _LISTED_CHARS_MAX else f"{text[:_LISTED_CHARS_MAX]}…"
    day = f"{datetime.fromtimestamp(fact.created_at_ms / 1000, UTC):%Y-%m-%d}"
    notes = [day, *(["from a group"] if fact.place and key.is_private else ()), *(["shared"] if fact.is_shared else ())]
    return f"- **{fact.number}** {shown} ({', '.join(notes)})"
