"""Commands about which answer, which conversation, which model: /retry, /resume, /model."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from agent.commands.table import Asked, CommandRow, Converse, Done, Outcome
from agent.models import Models
from agent.offering import Offer
from agent.sentences import telling_of_ended
from agent.subagents.runs import SubagentStopper
from gateway.contracts.alongside import words_in
from gateway.contracts.entries import UNTITLED, Entry, GrantRole, ResumeSession, Session, SetModel
from gateway.contracts.ids import SessionKey
from gateway.contracts.messages import joined
from gateway.store import Store

DEFAULT: Final = "default"
"""The word that takes a choice of model back."""

_NOBODY_KNOWN: Final = "unknown"
"""Stands for whoever wrote in a shared place before authors were kept: the name of nobody, so a guest."""
_TURN: Final = re.compile(r"t_[0-9a-f]{20}")


def choice_commands(store: Store, models: Models, ending: SubagentStopper) -> tuple[CommandRow, ...]:
    """The rows, in the order of /help."""

    async def retry(asked: Asked) -> Outcome:
        if _TURN.fullmatch(asked.argument) and not await _is_newest(store, asked):
            return Done(asked.words.say("This conversation has gone on since then. /retry answers its last message."))
        said = await store.transcript.retake(asked.session.id, fence=asked.fence, key=asked.session.key)
        if not said:
            return Done(
                asked.words.say("There is nothing to try again: you have not said anything in this conversation yet.")
            )
        await ending.end_since(asked.session, said[0].created_at_ms)
        return Converse(
            joined(*(words_in(entry.text) for entry in said), by="\n\n"),
            is_stored=True,
            authors=tuple(_author(entry, asked.session.key) for entry in said),
            has_foreign=any(words_in(entry.text) != entry.text for entry in said),
        )

    async def resume(asked: Asked) -> Done:
        words = asked.words
        if not (asked.argument.isdecimal() and asked.argument.isascii()):
            return Done(words.say("Write /resume and the number of a conversation; /sessions lists them."))
        number = int(asked.argument)
        found = await _numbered(store, asked.session, number)
        if found is None:
            return Done(words.say("You have no conversation {number}. /sessions lists them.", number=number))
        if found.is_current:
            return Done(
                words.say("You are in conversation {number} already: **{title}**.", number=number, title=found.title)
            )
        ended = await ending.ask(asked.session.key)
        back = words.say("Back in conversation {number}: **{title}**.", number=number, title=found.title)
        title = None if found.title == UNTITLED else found.title
        return Done(telling_of_ended(back, ended, words), (ResumeSession(number),), title=title)

    async def model(asked: Asked) -> Done:
        wanted, words = asked.argument, asked.words
        if not wanted:
            return Done(_shown(asked, models), offers=tuple(Offer(name, f"/model {name}") for name in models.choosable))
        if wanted.lower() == DEFAULT:
            return Done(words.say("This conversation uses `{model}` again.", model=models.default), (SetModel(""),))
        if wanted in models.choosable or (asked.role is GrantRole.ADMIN and models.is_callable(wanted)):
            return Done(words.say("This conversation uses `{model}` from now on.", model=wanted), (SetModel(wanted),))
        return Done(_not_chosen(asked, models))

    return (
        CommandRow("retry", retry),
        CommandRow("resume", resume),
        CommandRow("model", model),
    )


def _author(entry: Entry, key: SessionKey) -> SessionKey:
    """Return who wrote a user entry of this lane."""
    if key.user:
        return SessionKey(key.channel, key.user)
    return SessionKey.parse(entry.author) if entry.author else SessionKey(key.channel, _NOBODY_KNOWN)


async def _is_newest(store: Store, asked: Asked) -> bool:
    """Whether the turn that a button names is the last of this conversation."""
    newest = await store.transcript.newest_view(asked.session.id, chars_max=1)
    return bool(newest.entries) and newest.entries[-1].turn_id == asked.argument


async def _numbered(store: Store, session: Session, number: int) -> Session | None:
    """Of the same key only: nobody resumes what another has said. A number no database can hold is nobody's."""
    return await store.sessions.numbered(session.key, number) if number < 2**31 else None


def _not_chosen(asked: Asked, models: Models) -> str:
    """What there is none of is told apart from what is not for everybody."""
    words = asked.words
    if models.is_callable(asked.argument):
        return words.say("Only an admin may choose that model. You may choose:") + "\n\n" + _listed(models.choosable)
    unknown = words.say("I know no model of that name. You may choose:")
    return "\n\n".join((unknown, _listed(models.choosable), *_of_admins(asked)))


def _shown(asked: Asked, models: Models) -> str:
    current, words = models.of_session(asked.session), asked.words
    used = (
        words.say("This conversation uses `{model}`. You may choose:", model=current)
        if current == asked.session.model
        else words.say("This conversation uses `{model}`, the default. You may choose:", model=current)
    )
    back = words.say("`/model default` takes a choice back.")
    return "\n\n".join((used, _listed(models.choosable), *_of_admins(asked), back))


def _of_admins(asked: Asked) -> tuple[str, ...]:
    if asked.role is not GrantRole.ADMIN:
        return ()
    return (
        asked.words.say("As an admin you may choose any other model by its name, too, as in `openai/gpt-4o-mini`."),
    )


def _listed(names: Iterable[str]) -> str:
    return "\n".join(f"- `{name}`" for name in names)
