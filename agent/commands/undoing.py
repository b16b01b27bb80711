"""/undo: takes the newest turns back."""

from __future__ import annotations

from typing import Final

from agent.commands.table import Asked, CommandRow, Done
from agent.limits import UNDO_SHOWN_CHARS, UNDO_TURNS_MAX
from agent.sentences import telling_of_ended
from agent.subagents.runs import SubagentStopper
from gateway.contracts.entries import Undo
from gateway.contracts.messages import CleanText
from gateway.store import Store
from gateway.words import sentence

_NOTHING: Final = sentence("There is nothing to take back.")


def undo_command(store: Store, ending: SubagentStopper) -> CommandRow:
    """Its row."""

    async def undo(asked: Asked) -> Done:
        wanted, words = asked.argument or "1", asked.words
        if not (wanted.isascii() and wanted.isdigit() and 1 <= int(wanted[:9]) <= UNDO_TURNS_MAX):
            usage = words.say("Write /undo, or /undo N for the last N exchanges (1 to {most}).", most=UNDO_TURNS_MAX)
            return Done(usage)
        turns = await store.transcript.newest_turns(asked.session.id, limit=int(wanted))
        if not turns:
            return Done(words.say(_NOTHING))
        oldest, ended = turns[-1], 0
        for entry in await store.transcript.page(asked.session.id, after_seq=oldest.first_seq - 1, limit=1):
            ended += await ending.end_since(asked.session, entry.created_at_ms)
        what = words.count(
            "I took back this exchange:", "I took back the last {count} exchanges, from here on:", len(turns)
        )
        text = telling_of_ended(f"{what}\n\n> {first_words(oldest.text)}", ended, words)
        return Done(text, (Undo(oldest.first_seq),))

    return CommandRow("undo", undo)


def first_words(text: CleanText) -> str:
    """One short line of what somebody said."""
    line = " ".join(text.split()) or "(a file)"
    return line if len(line) <= UNDO_SHOWN_CHARS else line[: UNDO_SHOWN_CHARS - 1].rstrip() + "…"
