"""Texts that people read from the agent: endings, failures, what /status and /where say. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Final

from agent.limits import MODEL_RETRY_AFTER_MAX_S, USUAL_ANSWER_TOKENS
from agent.models.requests import StopReason, TokenCount, price_usd
from gateway.contracts import errors
from gateway.contracts.messages import CleanText, DeliveryProgress, DeliveryState, RemovedSecrets, literal_text
from gateway.contracts.sessions import Session
from gateway.contracts.subagents import SubTask
from gateway.i18n import Words, sentence
from gateway.scrub.known import WHOLE_TEXT, WHOLE_TEXT_KIND

DEAD_NOTE: Final = literal_text("(This message could not be answered, after several tries.)")
STOPPED_NOTE: Final = literal_text("(Stopped by the user before an answer was given.)")
"""The note in the transcript, for the model."""

CUT_NOTE: Final = sentence("> The answer was longer than a chat can take; the rest was left out.")
YIELDED_WORD: Final = sentence("I am waiting for my sub-agents, and go on when they are done.")
UNREAD_NOTE: Final = sentence(
    "> I could not look through what you wrote for secrets, so I did not read all of it. Please send it again, or in "
    "smaller parts."
)
UNCHECKED_NOTE: Final = sentence(
    "> A part of my answer could not be looked through for secrets, so it is left out. Please ask again."
)

_CALL_CUT: Final = sentence(
    "> What I wanted to do was longer than the model may write at once, so it was not done. Please ask for it in "
    "smaller parts."
)
_ENDED: Final = {
    StopReason.CUT: sentence(
        "> The answer ends here because the model may not write more at once. Say “go on” to read the rest."
    ),
    StopReason.FILTERED: sentence("> The provider of the model stopped this answer: its filter did not let it pass."),
    StopReason.REFUSED: sentence("> The model refused to answer this."),
}
_DELIVERY: Final = {
    DeliveryState.PENDING: sentence("on its way"),
    DeliveryState.SENDING: sentence("being sent"),
    DeliveryState.SENT: sentence("delivered"),
    DeliveryState.RETRY: sentence("will be tried again"),
    DeliveryState.FAILED: sentence("could not be delivered"),
    DeliveryState.UNKNOWN: sentence("sent, but nobody confirmed it"),
}


def ending_note(ending: StopReason, words: Words, *, has_calls: bool = False) -> CleanText:
    """Write what a reader is told under an answer that did not come to an end of its own; `has_calls`: it was
    interrupted in the middle of calls, which were not run."""
    return words.say(_CALL_CUT) if ending is StopReason.CUT and has_calls else words.say(_ENDED[ending])


def failure_sentence(error: Exception, reference: str, words: Words) -> str:
    """Write one sentence for a turn that failed."""
    if isinstance(error, errors.ContextTooLong):
        return words.say(
            "This conversation has become too long for the model. Begin a new one with /new. (Reference {reference})",
            reference=reference,
        )
    if isinstance(error, errors.ModelError) and error.needs_operator:
        return words.say(
            "I cannot answer at the moment: the operator has to mend something first. (Reference {reference})",
            reference=reference,
        )
    if isinstance(error, errors.ModelRejected):
        return words.say(
            "The provider of the model does not take this request, so asking again will not help. Begin a new "
            "conversation with /new, or ask the operator. (Reference {reference})",
            reference=reference,
        )
    if isinstance(error, errors.ModelUnavailable) and (error.retry_after_s or 0.0) > MODEL_RETRY_AFTER_MAX_S:
        return words.say(
            "The model takes no more requests for now. Send /retry in {time}. (Reference {reference})",
            time=words.lasting((error.retry_after_s or 0.0) * 1000),
            reference=reference,
        )
    if isinstance(error, errors.EmptyAnswer):
        return words.say(
            "The model ended without saying anything. /retry asks it once more. (Reference {reference})",
            reference=reference,
        )
    if isinstance(error, TimeoutError | errors.ModelTooSlow):
        return words.say(
            "That took too long, so I stopped. /retry tries it once more. (Reference {reference})", reference=reference
        )
    return words.say(
        "I could not answer that just now. In a moment, /retry tries it once more. (Reference {reference})",
        reference=reference,
    )


def dead_sentence(reference: str, words: Words) -> str:
    """Tell the author of a message that it was given up after several tries."""
    return words.say(
        "I tried several times and could not answer your message. The operator can look it up. (Reference {reference})",
        reference=reference,
    )


def removed_note(removed: Iterable[RemovedSecrets], words: Words) -> str:
    """Tell the author which secrets were taken out of the message; empty if none were. Kinds and counts only. A text
    that could not be scanned is no secret: `UNREAD_NOTE` tells of it."""
    found: Counter[str] = Counter()
    for item in removed:
        if item.kind != WHOLE_TEXT_KIND:
            found[item.kind] += item.count
    if not found:
        return ""
    note = words.say("> I removed what looked like a secret from your message ({kinds}).", kinds=_listed(found))
    return f"{note}\n{words.say('> Please replace it: it was sent in a chat.')}"


def unchecked_notes(answer: CleanText, removed: Iterable[RemovedSecrets], words: Words) -> tuple[CleanText, ...]:
    """Tell what the scrubber could not scan, in words that need no scrubbing."""
    is_unread = any(item.kind == WHOLE_TEXT_KIND for item in removed)
    return (
        *((words.say(UNREAD_NOTE),) if is_unread else ()),
        *((words.say(UNCHECKED_NOTE),) if WHOLE_TEXT in answer else ()),
    )


def _listed(counts: Counter[str]) -> str:
    return ", ".join(f"{count} × {kind}" for kind, count in sorted(counts.items()))


PricesOf = Callable[[Session], Mapping[str, float]]
"""Looks up what a token costs in a conversation; empty where nobody knows."""


def next_message_text(session: Session, prices_usd: Mapping[str, float], words: Words) -> str:
    """Write what the next message costs, roughly: what the last prompt held, and a usual answer. Empty as long as the
    provider has counted none. The least is what it costs where all of that is read from the provider's cache."""
    if not session.prompt_tokens:
        return ""
    tokens = words.number(session.prompt_tokens)
    most = price_usd(TokenCount(session.prompt_tokens, USUAL_ANSWER_TOKENS), prices_usd)
    if not most:
        return words.say("The next message reads about {tokens} tokens.", tokens=tokens)
    cached = TokenCount(session.prompt_tokens, USUAL_ANSWER_TOKENS, cached=session.prompt_tokens)
    if not prices_usd.get("cached"):
        return words.say(
            "The next message costs about ${most}: {tokens} tokens are read.", most=words.number(most, 4), tokens=tokens
        )
    return words.say(
        "The next message costs about ${least} to ${most}: {tokens} tokens are read, cheaper if cached.",
        least=words.number(price_usd(cached, prices_usd), 4),
        most=words.number(most, 4),
        tokens=tokens,
    )


def status_text(
    session: Session | None,
    words: Words,
    *,
    waiting: int,
    is_running: bool,
    now_ms: int,
    prices_of: PricesOf,
    tasks: Sequence[SubTask] = (),
) -> str:
    """Write the answer to /status. Of `tasks` the live ones are named."""
    live = live_text(tasks, words, now_ms=now_ms)
    if is_running:
        work = words.say("a turn is running")
    else:
        work = words.say("only sub-agents are running") if live else words.say("nothing is running")
    lines: list[str] = [words.say("Work: {work}, {waiting}.", work=work, waiting=_waiting(waiting, words))]
    if session is not None:
        lines.insert(0, words.say("Conversation {number}: **{title}**", number=session.number, title=session.title))
        lines.append(
            words.say(
                "Messages: {messages} · tokens: {tokens} · cost: ${cost}",
                messages=session.message_count,
                tokens=session.tokens,
                cost=words.number(session.cost_usd, 4),
            )
        )
        lines.append(next_message_text(session, prices_of(session), words))
    return "\n\n".join(filter(None, (*lines, live)))


def _waiting(count: int, words: Words) -> CleanText:
    return words.count("{count} message waiting", "{count} messages waiting", count)


def live_text(tasks: Sequence[SubTask], words: Words, *, now_ms: int) -> str:
    """Write how many of `tasks` are not over, which, and since when each of them works or waits; empty if none."""
    live = [task for task in tasks if not task.state.is_over]
    if not live:
        return ""
    heading = words.count("{count} sub-agent is not done yet:", "{count} sub-agents are not done yet:", len(live))
    return heading + "\n\n" + "\n".join(_live_line(task, words, now_ms=now_ms) for task in live)


def _live_line(task: SubTask, words: Words, *, now_ms: int) -> str:
    label = " ".join(task.label.split())
    if task.started_at_ms:
        since = words.say("at work for {time}", time=words.lasting(now_ms - task.started_at_ms))
    else:
        since = words.say("waits for its turn, for {time} so far", time=words.lasting(now_ms - task.created_at_ms))
    return f"- {task.sub_type}{': ' if label else ''}{label} ({since})"


def where_text(
    replies: Sequence[DeliveryProgress],
    words: Words,
    *,
    waiting: int,
    is_running: bool,
    began_ms: int | None,
    now_ms: int,
    tasks: Sequence[SubTask] = (),
) -> str:
    """Write the answer to /where: what waits, what is in work and for how long, how far the last answers came. Of
    `tasks` the live ones are named."""
    live = live_text(tasks, words, now_ms=now_ms)
    if not is_running:
        work = words.say("Only sub-agents are in work.") if live else words.say("Nothing is in work.")
    elif began_ms is None:
        work = words.say("In work.")
    else:
        work = words.say("In work for {time}.", time=words.lasting(now_ms - began_ms))
    lines = list(filter(None, (f"{work} {_waiting(waiting, words)}.", live)))
    if replies:
        said = "\n".join(_progress_line(reply, words) for reply in replies)
        lines.append(words.say("Your last answers:") + "\n\n" + said)
    return "\n\n".join(lines)


def _progress_line(reply: DeliveryProgress, words: Words) -> str:
    moment = datetime.fromtimestamp(reply.created_at_ms / 1000, UTC)
    end = words.say(_DELIVERY[reply.state])
    if reply.chunks > 1:
        end = words.say("{end}, {sent} of {parts} parts", end=end, sent=reply.chunks_sent, parts=reply.chunks)
    return f"- {moment:%H:%M:%S} UTC: {end}"


def stopped_sentence(words: Words, *, was_running: bool, dropped: int, ended: int = 0) -> str:
    """Acknowledge /stop; `ended` sub-agents were at work."""
    if not was_running and not dropped and not ended:
        return words.say("There was nothing to stop.")
    said: list[str] = [words.say("Stopped.")]
    if ended:
        said.append(_ended(ended, words))
    if dropped:
        said.append(
            words.count("{count} waiting message was dropped.", "{count} waiting messages were dropped.", dropped)
        )
    return " ".join(said)


def telling_of_ended(text: str, ended: int, words: Words) -> str:
    """Write what a command did, and that it `ended` so many sub-agents, if any."""
    return f"{text} {_ended(ended, words)}" if ended else text


def _ended(count: int, words: Words) -> CleanText:
    return words.count("{count} sub-agent was ended.", "{count} sub-agents were ended.", count)
