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
from agent.memory.knowledge import Memory
from agent.subagents.runs import SubagentStopper
from gateway.contracts.ids import SessionKey
from gateway.contracts.memories import Fact
from gateway.store.export import PeopleStore
from gateway.store.memory import MemoryStore
from gateway.words import Words, sentence

Forgotten = Callable[[SessionKey], Awaitable[object]]
"""Told that facts of an owner are gone: whatever was made of them has to go, too."""

_SHARING: Final = re.compile(r"(share|private)\s+(\d{1,9})", re.IGNORECASE | re.ASCII)
_NUMBERS: Final = re.compile(r"\d{1,20}(?:[\s,]+\d{1,20})*", re.ASCII)
_ALL: Final = re.compile(r"all(\s+yes)?", re.IGNORECASE)
_LISTED_CHARS_MAX: Final = 200

_NO_SUCH_FACT: Final = sentence("There is no such fact. /memory lists them.")
_SURE_OF_YOU: Final = sentence(
    "This forgets everything I remember of you ({facts}), and that I can look up what we said in earlier "
    "conversations. Write `/forget all yes` if you mean it."
)
_SURE_OF_HERE: Final = sentence(
    "This forgets everything I remember from here ({facts}), and that I can look up what we said in earlier "
    "conversations. Write `/forget all yes` if you mean it."
)


def memory_commands(
    memory: Memory,
    store: MemoryStore,
    people: PeopleStore,
    ending: SubagentStopper,
    *,
    forgotten: Sequence[Forgotten] = (),
) -> tuple[CommandRow, ...]:
    """The rows, in the order of /help."""

    async def show(asked: Asked) -> Done:
        key, words = asked.session.key, asked.words
        if sharing := _SHARING.fullmatch(asked.argument):
            return await _share(store, key, int(sharing[2]), words, is_shared=sharing[1].lower() == "share")
        facts = await memory.recall(key, asked.argument, limit=FACTS_LISTED_MAX)
        if not facts:
            return Done(words.say("I remember nothing like that.") if asked.argument else _nothing(key, words))
        title = words.say("What fits best:") if asked.argument else _everything(key, words)
        hint = words.say(
            "/forget NUMBER makes me forget one of them, /memory share NUMBER lets me use it wherever you talk to me."
        )
        return Done(f"{title}\n\n{_listed(facts, key, words)}\n\n{hint}")

    async def forget(asked: Asked) -> Done:
        key, what, words = asked.session.key, asked.argument, asked.words
        if not what:
            return Done(words.say("Write /forget and a number from /memory, some words, or `all`."))
        if everything := _ALL.fullmatch(what):
            if everything[1]:  # what works for him may be about to remember something
                await ending.end_all(await people.keys(key.owner))
            return await _forget_all(memory, store, key, words, is_sure=bool(everything[1]), forgotten=forgotten)
        if _NUMBERS.fullmatch(what):
            numbers = [int(number) for number in re.findall(r"\d+", what)]
        else:
            found = await memory.recall(key, what, limit=FACTS_LISTED_MAX)
            if len(found) != 1:
                return Done(_which_of(found, key, words))
            numbers = [fact.number for fact in found]
        gone = await store.forget(key, [number for number in numbers if number < 2**31])
        for tell in forgotten if gone else ():
            await tell(key.owner)
        return Done(f"{words.say('Forgotten:')}\n\n{_listed(gone, key, words)}" if gone else words.say(_NO_SUCH_FACT))

    return (
        CommandRow("memory", show),
        CommandRow("forget", forget),
    )


async def _share(store: MemoryStore, key: SessionKey, number: int, words: Words, *, is_shared: bool) -> Done:
    fact = await store.share(key, number, is_shared=is_shared) if number < 2**31 else None
    if fact is None:
        return Done(words.say(_NO_SUCH_FACT))
    where = (
        words.say("I use this wherever you talk to me:")
        if is_shared
        else words.say("I use this only where I learned it, and in our direct messages:")
    )
    return Done(f"{where}\n\n{_listed([fact], key, words)}")


async def _forget_all(
    memory: Memory, store: MemoryStore, key: SessionKey, words: Words, *, is_sure: bool, forgotten: Sequence[Forgotten]
) -> Done:
    if not is_sure:
        count = len(await memory.recall(key, "", limit=FACTS_LISTED_MAX))
        many = words.count("{count} fact", "{count} facts", count)
        if count == FACTS_LISTED_MAX:
            many = words.count("{count} or more facts", "{count} or more facts", count)
        return Done(words.say(_SURE_OF_YOU if key.is_private else _SURE_OF_HERE, facts=many))
    count = await store.forget_all(key)
    for tell in forgotten:
        await tell(key.owner)
    return Done(
        words.count(
            "I have forgotten {count} fact and cannot look up earlier conversations any more. "
            "What this conversation holds is gone from my sight with /new.",
            "I have forgotten {count} facts and cannot look up earlier conversations any more. "
            "What this conversation holds is gone from my sight with /new.",
            count,
        )
    )


def _which_of(found: Sequence[Fact], key: SessionKey, words: Words) -> str:
    if not found:
        return words.say("I remember nothing like that. /memory lists what I remember.")
    return f"{words.say('Which of these? Write /forget and its number.')}\n\n{_listed(found, key, words)}"


def _nothing(key: SessionKey, words: Words) -> str:
    if key.is_private:
        return words.say("I remember nothing of you yet.")
    return words.say("I remember nothing from here yet.")


def _everything(key: SessionKey, words: Words) -> str:
    if key.is_private:
        return words.say("What I remember of you, newest first:")
    return words.say("What I remember from here, newest first:")


def _listed(facts: Sequence[Fact], key: SessionKey, words: Words) -> str:
    return "\n".join(_line(fact, key, words) for fact in facts)


def _line(fact: Fact, key: SessionKey, words: Words) -> str:
    text = " ".join(fact.text.split())
    shown = text if len(text) <= _LISTED_CHARS_MAX else f"{text[:_LISTED_CHARS_MAX]}…"
    day = f"{datetime.fromtimestamp(fact.created_at_ms / 1000, UTC):%Y-%m-%d}"
    notes = [day]
    if fact.place and key.is_private:
        notes.append(words.say("from a group"))
    if fact.is_shared:
        notes.append(words.say("shared"))
    return f"- **{fact.number}** {shown} ({', '.join(notes)})"
