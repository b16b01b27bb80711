"""Titles of sessions: made while the reply is, sent to the place that may bear one."""

from __future__ import annotations

import asyncio
import re
import unicodedata
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Final

import regex
import structlog

from agent import limits
from agent.models.metering import usage_of
from agent.models.requests import ModelAnswer, ModelProvider, ModelRequest, Permit, PromptMessage, StopReason, ask
from agent.models.selection import Models
from agent.prompts.library import PROMPTS
from gateway.contracts.errors import BudgetSpent, BusError, ModelError, StoreError
from gateway.contracts.ids import ReplyAddress, SessionKey
from gateway.contracts.messages import (
    TITLE_PREFIX,
    CleanText,
    InboundMessage,
    Reply,
    ReplyKind,
    clipped,
    joined,
    literal_text,
)
from gateway.contracts.ports import Clock
from gateway.contracts.sessions import UNTITLED, Role, Session, UsagePurpose
from gateway.scrub import Scrubber
from gateway.store import Store


def nameable(message: InboundMessage) -> ReplyAddress | None:
    """Return the place that the conversation of this message may name, if places have names there. A person's private
    conversation may not name a place that others read: its title may come from direct messages."""
    is_others = message.key.is_private and not message.is_private
    return message.address if message.is_nameable and not is_others else None


def title_reply(title: CleanText, *, turn_id: str, key: SessionKey, address: ReplyAddress, now_ms: int) -> Reply:
    """Build the reply that tells the channel the title; it is the same for every attempt at the turn that made the
    title."""
    return Reply(
        id=f"{TITLE_PREFIX}{turn_id}",
        turn_id=turn_id,
        key=key,
        address=address,
        text=literal_text(""),
        kind=ReplyKind.TITLE,
        created_at_ms=now_ms,
        title=title,
    )


# Titles as text: the request for one, and the title in the answer. Pure (agent.md section 5).


Scrub = Callable[[str], CleanText]

_NOTHING: Final = literal_text("")
_PASSES_MAX: Final = 8  # stripping may bare a secret, and its placeholder may have to be stripped: once, in practice

_THOUGHT: Final = r"(?:seed:)?(?:thinking|think|thoughts?|reasoning|reflection)"
_CLOSED_THOUGHT: Final = re.compile(rf"[<◁]({_THOUGHT})\b[^>▷]*[>▷].*?[<◁]/\1\s*[>▷]", re.DOTALL | re.IGNORECASE)
_OPEN_THOUGHT: Final = re.compile(rf"[<◁]{_THOUGHT}(?:\s[^>▷]*)?(?:[>▷]|\Z).*", re.DOTALL | re.IGNORECASE)
_STRAY_END: Final = re.compile(rf"\A.*[<◁]/{_THOUGHT}\s*[>▷]", re.DOTALL | re.IGNORECASE)
_FENCE: Final = re.compile(r"\s*(?:```|~~~)\s*\w*\s*")

_LABEL_WORDS: Final = (
    "title|titel|überschrift|titre|título|titulo|titolo|titlu|tytuł|název|názov|naslov|cím|otsikko|rubrik|tittel|başlık"
    "|judul|tiêu đề|заголовок|название|тема|назва|τίτλος|العنوان|عنوان|כותרת|शीर्षक|标题|標題|题目"
    "|タイトル|題名|件名|제목"
)
_LABEL: Final = re.compile(
    rf"\A(?:sure\W{{1,3}})?(?:here(?:'s|’s| is)\s+(?:a|the|your)\s+)?"
    r"(?:(?:chat|conversation|session|suggested|short)\s+)?"
    rf"(?:{_LABEL_WORDS})[\s*_`~\"'”’»」』】）)\]]*[:：﹕][\s*_`~]*",
    re.IGNORECASE,
)
_TAG: Final = re.compile(r"</?(?:title|titel|h[1-6]|b|i|strong|em|p)>", re.IGNORECASE)
_MARKS: Final = re.compile(r"\A(?:#{1,6}\s+|>\s*|[-*+•]\s+(?:\[[ xX]\]\s+)?|1[.)]\s+)")
_PAIRED: Final = re.compile(r"(\*\*\*|\*\*|~~|`+)(?=\S)(.+?)(?<=\S)\1|(?<!\w)([*_]{1,3})(?=\S)(.+?)(?<=\S)\3(?!\w)")
_LINK: Final = re.compile(r"!?\[([^\[\]]*)\]\([^()]*\)")
_INVISIBLE: Final = regex.compile(
    r"(🏴[\U000E0030-\U000E0039\U000E0061-\U000E007A]{1,6}\U000E007F)|[[\p{Cc}\p{Cf}\p{Cs}]--[\u200C\u200D\s]]",
    regex.V1,
)
_VISIBLE: Final = regex.compile(r"[\p{L}\p{N}\p{S}]")
_EDGES: Final = " \t*_`~\"'“”„‟«»‹›‘’‚‛「」『』《》〈〉【】〝〞"
_ENDINGS: Final = " \t.!?,;:…‥⋯·・‧-–—|。．！？，、；：｡､﹒﹐﹑﹔﹕﹖﹗؟،؛۔।॥։።"
_PARTED_PLACEHOLDER: Final = re.compile(r"\[(?:r(?:e(?:d(?:a(?:c(?:t(?:e(?:d(?::[^\[\]]*)?)?)?)?)?)?)?)?)?\Z")


def first_request(text: CleanText) -> tuple[PromptMessage, ...]:
    """Build the titler's whole input: the first user text, bounded, nothing else."""
    return (PromptMessage(Role.USER, clipped(text, limits.TITLE_INPUT_CHARS_MAX)),)


def sanitize_title(raw: str, scrub: Scrub) -> CleanText:
    """Reduce a model's answer to a title: one line, no marks, no secret, at most 60 graphemes; empty if nothing is
    left. Idempotent."""
    title = _first_line(scrub(raw))
    for _ in range(_PASSES_MAX):
        clean = shorten(scrub(title))
        title = _first_line(clean)
        if title == clean:
            return clean
    return _NOTHING


def wanted_title(argument: str, scrub: Scrub) -> CleanText:
    """Clean the title that a user asks for with /title: the user's own words, on one line, short enough."""
    return shorten(scrub(" ".join(_INVISIBLE.sub(r"\1", argument).split())))


def shorten(text: CleanText) -> CleanText:
    """Shorten to at most 60 grapheme clusters: a longer title is cut to 59 and an ellipsis. No placeholder of a secret
    is cut in two: the title ends before it."""
    graphemes = regex.findall(r"\X", text)
    if len(graphemes) <= limits.TITLE_GRAPHEMES_MAX:
        return text
    end = sum(map(len, graphemes[: limits.TITLE_GRAPHEMES_MAX - 1]))
    parted = _PARTED_PLACEHOLDER.search(text, 0, end)
    return clipped(text, parted.start()) if parted else joined(clipped(text, end), literal_text("…"))


def _first_line(text: str) -> str:
    """Return the first line that says something, once the model's thoughts are removed; "" if there is none."""
    bare = _STRAY_END.sub("", _OPEN_THOUGHT.sub("", _CLOSED_THOUGHT.sub("", text[: limits.TITLE_OUTPUT_CHARS_MAX])))
    lines = (
        _strip_line(line[: limits.TITLE_LINE_CHARS_MAX]) for line in bare.splitlines() if not _FENCE.fullmatch(line)
    )
    return next(filter(None, lines), "")


def _strip_line(line: str) -> str:
    """Take marks, labels, quotes and closing punctuation off until nothing changes; "" if only those were there."""
    visible = _INVISIBLE.sub(r"\1", line)
    stripped = unicodedata.normalize("NFC", " ".join(visible.split()))
    while True:
        before = stripped
        stripped = _PAIRED.sub(r"\2\4", _LINK.sub(r"\1", _TAG.sub(" ", stripped)))
        stripped = _LABEL.sub("", _MARKS.sub("", stripped.strip(_EDGES))).strip(_EDGES)
        is_cut = stripped.endswith("…") and len(regex.findall(r"\X", stripped)) == limits.TITLE_GRAPHEMES_MAX
        stripped = " ".join((stripped if is_cut else stripped.rstrip(_ENDINGS)).split())
        if stripped == before:
            return stripped if _VISIBLE.search(stripped) else ""


# Gives a session its title, alongside the reply and never delaying it (agent.md section 5).


_log = structlog.get_logger(__name__)


@dataclass(eq=False, repr=False)
class Titler:
    """The built-in sub-agent that names conversations, all or only those in places that show a title. Its failures are
    logged, never shown."""

    client: ModelProvider
    models: Models
    store: Store
    scrubber: Scrubber
    clock: Clock
    publish: Callable[[Sequence[Reply]], Awaitable[None]]
    _: KW_ONLY
    is_for_all: bool = True

    async def title(
        self, session: Session, *, turn_id: str, permit: Permit, address: ReplyAddress | None = None
    ) -> None:
        """Title `session` alongside that turn, if it still has no title, and tell the place at `address`. Two workers
        never pay for the same title."""
        if session.title != UNTITLED or session.title_tries >= limits.TITLE_TRIES_MAX:
            return
        if address is None and not self.is_for_all:
            return
        try:
            first_text = await self.store.transcript.first_said(session.id)
            if first_text and await self._claim(session):
                title = await self._try(session, first_text, turn_id, permit)
                if title is None or not await self._give(session, title, first_text, turn_id, address):
                    await self.store.sessions.release_title(session.id)
        except StoreError as error:
            _log.warning("title.failed", session_id=session.id, reason=str(error))

    async def _claim(self, session: Session) -> bool:
        return await self.store.sessions.claim_title(
            session.id,
            tries_max=limits.TITLE_TRIES_MAX,
            held_ms=int(limits.TITLE_CLAIM_S * 1000),
            now_ms=self.clock.now_ms(),
        )

    async def _try(self, session: Session, first_text: CleanText, turn_id: str, permit: Permit) -> CleanText | None:
        try:
            model = self.models.utility(session)
            is_reasoning = self.models.client.facts(model).is_reasoning
            request = ModelRequest(
                model=model,
                purpose=UsagePurpose.TITLE,
                key=session.key,
                system=PROMPTS.title,
                messages=first_request(first_text),
                completion_tokens_max=limits.TITLE_REASONING_TOKENS_MAX if is_reasoning else limits.TITLE_TOKENS_MAX,
                temperature=limits.TITLE_TEMPERATURE,
                timeout_s=limits.TITLE_TIMEOUT_S,
                turn_id=turn_id,
                permit=permit,
                otherwise=self.models.of_session(session),
            )
            async with asyncio.timeout(limits.TITLE_TIMEOUT_S):
                answer = await ask(self.client, request)
            usage = usage_of(answer, session.key, UsagePurpose.TITLE, now_ms=self.clock.now_ms())
            await self.store.sessions.charge([usage], session_id=session.id)
            title = sanitize_title(_whole_lines(answer), self.scrubber.for_chat(str(session.key)).scrub)
        except BudgetSpent:
            _log.info("title.skipped", session_id=session.id)  # the turn itself says why
            return None
        except (ModelError, TimeoutError) as error:
            _log.warning("title.failed", session_id=session.id, reason=f"{type(error).__name__}: {error}")
            return None
        if title in ("", UNTITLED):
            _log.warning("title.failed", session_id=session.id, reason="nothing was left of the model's answer")
            return None
        return title

    async def _give(
        self, session: Session, title: CleanText, made_of: CleanText, turn_id: str, address: ReplyAddress | None
    ) -> bool:
        """Commit the title and the reply about it together; if the bus does not take the reply now, the relay delivers
        it later. Return False if the session has a title by now, or its source is gone."""
        now_ms = self.clock.now_ms()
        telling = (
            title_reply(title, turn_id=turn_id, key=session.key, address=address, now_ms=now_ms) if address else None
        )
        is_given = await self.store.transcript.set_title_if_untitled(
            session.id, title, made_of=made_of, telling=telling
        )
        if is_given and telling:
            try:
                await self.publish([telling])
            except BusError as error:
                _log.info("title.told_later", session_id=session.id, reason=str(error))
        return is_given


def _whole_lines(answer: ModelAnswer) -> str:
    """Return the part of an answer that can be a title: of one that was cut off, the complete lines; of a failed one,
    nothing."""
    match answer.ending:
        case StopReason.OWN:
            return answer.text
        case StopReason.CUT:
            return answer.text.rpartition("\n")[0]
    return ""
