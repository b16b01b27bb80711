"""What the agent itself says to people: short, plain, never an exception text, a URL or a model's name."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Final

from gateway.contracts.entries import Session
from gateway.contracts.errors import ContextTooLong, ModelTooSlow
from gateway.contracts.messages import CleanText, DeliveryState, RemovedSecrets, Whereabouts, own_words
from gateway.contracts.subagents import SubTask
from gateway.scrub.placeholder import WHOLE_TEXT, WHOLE_TEXT_KIND

CUT_NOTE: Final = own_words("> The answer was longer than a chat can take; the rest was left out.")
DEAD_NOTE: Final = own_words("(This message could not be answered, after several tries.)")
STOPPED_NOTE: Final = own_words("(Stopped by the user before an answer was given.)")
YIELDED_WORD: Final = own_words("I am waiting for my sub-agents, and go on when they are done.")

_DELIVERY: Final = {
    DeliveryState.PENDING: "on its way",
    DeliveryState.SENDING: "being sent",
    DeliveryState.SENT: "delivered",
    DeliveryState.RETRY: "will be tried again",
    DeliveryState.FAILED: "could not be delivered",
    DeliveryState.UNKNOWN: "sent, but nobody confirmed it",
}


def failure_sentence(error: Exception, reference: str) -> str:
    """One sentence for a turn that failed."""
    if isinstance(error, ContextTooLong):
        return (
            f"This conversation has become too long for the model. Begin a new one with /new. (Reference {reference})"
        )
    if isinstance(error, TimeoutError | ModelTooSlow):
        return f"That took too long, so I stopped. /retry tries it once more. (Reference {reference})"
    return f"I could not answer that just now. In a moment, /retry tries it once more. (Reference {reference})"


def dead_sentence(reference: str) -> str:
    """For the author of a message that was given up after several tries."""
    return (
        f"I tried several times and could not answer your message. The operator can look it up. (Reference {reference})"
    )


UNREAD_NOTE: Final = own_words(
    "> I could not look through what you wrote for secrets, so I did not read all of it. Please send it again, or in "
    "smaller parts."
)
UNCHECKED_NOTE: Final = own_words(
    "> A part of my answer could not be looked through for secrets, so it is left out. Please ask again."
)


def removed_note(removed: Iterable[RemovedSecrets]) -> str:
    """Tells the author which secrets were taken out of what he wrote; empty if none were. Kinds and counts only.
    A text that could not be looked through is no secret: `UNREAD_NOTE` tells of it."""
    in_one: Counter[str] = Counter()
    together: Counter[str] = Counter()
    for item in removed:
        if item.kind != WHOLE_TEXT_KIND:
            (together if item.is_joined else in_one)[item.kind] += item.count
    notes = []
    if in_one:
        notes.append(f"> I removed what looked like a secret from your message ({_listed(in_one)}).")
    if together:
        notes.append(
            f"> Your last messages together held what looked like a secret ({_listed(together)}). I removed its parts."
        )
    return "\n".join([*notes, "> Please replace it: it was sent in a chat."]) if notes else ""


def unchecked_notes(answer: CleanText, removed: Iterable[RemovedSecrets]) -> tuple[CleanText, ...]:
    """Tells of what the scrubber could not look through, in words that need no scrubbing."""
    is_unread = any(item.kind == WHOLE_TEXT_KIND for item in removed)
    return (*((UNREAD_NOTE,) if is_unread else ()), *((UNCHECKED_NOTE,) if WHOLE_TEXT in answer else ()))


def _listed(counts: Counter[str]) -> str:
    return ", ".join(f"{count} × {kind}" for kind, count in sorted(counts.items()))


def status_text(session: Session | None, *, waiting: int, is_running: bool, tasks: Sequence[SubTask] = ()) -> str:
    """The answer to /status. Of `tasks` the live ones are named."""
    work = "a turn is running" if is_running else "nothing is running"
    lines = [f"Work: {work}, {waiting} message(s) waiting."]
    if session is not None:
        lines.insert(0, f"Conversation {session.number}: **{session.title}**")
        lines.append(f"Messages: {session.message_count} · tokens: {session.tokens} · cost: ${session.cost_usd:.4f}")
    if live := [task for task in tasks if not task.state.is_over]:
        lines.append("Sub-agents:\n\n" + "\n".join(map(_live_line, live)))
    return "\n\n".join(lines)


def _live_line(task: SubTask) -> str:
    label = " ".join(task.label.split())
    return f"- {task.sub_type}{': ' if label else ''}{label} ({task.state.value})"


def where_text(replies: Sequence[Whereabouts], *, waiting: int, is_running: bool, running_for_s: float | None) -> str:
    """The answer to /where: what waits, what is in work and for how long, how far the last answers came."""
    since = "" if running_for_s is None else f" for {max(running_for_s, 0):.0f} s"
    work = f"In work{since}." if is_running else "Nothing is in work."
    lines = [f"{work} {waiting} message(s) waiting."]
    if replies:
        lines.append("Your last answers:\n\n" + "\n".join(map(_whereabouts_line, replies)))
    return "\n\n".join(lines)


def _whereabouts_line(reply: Whereabouts) -> str:
    moment = datetime.fromtimestamp(reply.created_at_ms / 1000, UTC)
    parts = f", {reply.chunks_sent} of {reply.chunks} parts" if reply.chunks > 1 else ""
    return f"- {moment:%H:%M:%S} UTC: {_DELIVERY[reply.state]}{parts}"


def stopped_sentence(*, was_running: bool, dropped: int, ended: int = 0) -> str:
    """The acknowledgement of /stop; `ended` sub-agents were at work."""
    if not was_running and not dropped and not ended:
        return "There was nothing to stop."
    sub_agents = f" {ended} sub-agent(s) were ended." if ended else ""
    waiting = f" {dropped} waiting message(s) were dropped." if dropped else ""
    return f"Stopped.{sub_agents}{waiting}"
