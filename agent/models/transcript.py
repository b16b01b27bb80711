"""A session's transcript as a model reads it: turns, tool-call groups, the view, its budget. Pure."""

from __future__ import annotations

import re
import tomllib
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from enum import StrEnum
from importlib import resources
from itertools import groupby
from typing import Final
from zoneinfo import ZoneInfo

from agent import limits
from agent.models.requests import ModelFacts, PromptMessage
from agent.tokens import entries_tokens
from gateway.contracts.context_blocks import Image, images_in, on_one_line, words_in
from gateway.contracts.messages import CleanText, clipped, joined, literal_text
from gateway.contracts.sessions import Entry, EntryKind, Role, Session

_LOST_RESULT: Final = literal_text("(no result: the call was interrupted)")


def summary_of(view: Sequence[Entry]) -> CleanText | None:
    """Return the summary in front of a view, if it has one."""
    return view[0].text if view and view[0].kind is EntryKind.COMPACTION else None


def said_in(view: Sequence[Entry]) -> tuple[Entry, ...]:
    """Return a view without its summary."""
    return tuple(entry for entry in view if entry.kind is not EntryKind.COMPACTION)


def is_said(entry: Entry) -> bool:
    """Tell whether a person said the entry."""
    return entry.role is Role.USER and entry.kind is EntryKind.MESSAGE


def last_said(view: Sequence[Entry]) -> CleanText:
    """Return what a person said last; empty where nobody has."""
    return next((words_in(entry.text) for entry in reversed(view) if is_said(entry)), literal_text(""))


def has_images(view: Sequence[Entry], turn_id: str) -> bool:
    """Tell whether images came with what was said in that turn."""
    return any(images_in(entry.text) for entry in view if entry.turn_id == turn_id and is_said(entry))


def shown_images(entries: Sequence[Entry]) -> frozenset[Image]:
    """Choose the images that a prompt of these entries shows; of the others it only names the paths.

    Images of a turn are shown with it. When there would be too many, all but a few of the earlier ones are dropped at
    once, so that the beginning of the prompt changes seldom. The choice does not depend on the caller, since turns are
    counted in their order."""
    shown: list[Image] = []
    for turn in turns_of(entries):
        new = [*_images(turn)][-limits.IMAGES_SHOWN_MAX :]
        if len(shown) + len(new) > limits.IMAGES_SHOWN_MAX:
            shown = shown[max(len(shown) - min(limits.IMAGES_KEPT, limits.IMAGES_SHOWN_MAX - len(new)), 0) :]
        shown += new
    return frozenset(shown)


def turns_of(entries: Iterable[Entry]) -> tuple[tuple[Entry, ...], ...]:
    """Group entries into user-led turns: user messages, then everything up to the next user message.

    Consecutive user messages (a batch, or one whose turn failed) belong to one turn; a note begins none. Entries before
    the first user message form a turn of their own."""
    turns: list[list[Entry]] = []
    for entry in entries:
        follows_user = bool(turns) and turns[-1][-1].role is Role.USER
        if not turns or (is_said(entry) and not follows_user):
            turns.append([])
        turns[-1].append(entry)
    return tuple(map(tuple, turns))


def with_whole_groups(entries: Iterable[Entry]) -> tuple[Entry, ...]:
    """Put every assistant tool call directly before its results, in call order: providers refuse anything else.

    Results without a call are dropped; calls without a result (a run that was killed) get one that says so."""
    whole: list[Entry] = []
    # Each entry that is no result, with the results that follow it by call id (ids repeat between turns).
    groups: list[tuple[Entry, dict[str, Entry]]] = []
    for entry in entries:
        if entry.role is not Role.TOOL:
            groups.append((entry, {}))
        elif groups:
            groups[-1][1][entry.tool_call_id] = entry
    for speech, results in groups:
        whole.append(speech)
        whole.extend(results.get(call.id) or _lost(call.id, speech) for call in speech.tool_calls)
    return tuple(whole)


def as_prompt(entries: Iterable[Entry]) -> tuple[PromptMessage, ...]:
    """Convert entries to prompt messages; neighbouring user entries become one message, as providers expect.

    In such a message our notes come before what people said, so that their words come last."""
    messages: list[PromptMessage] = []
    whole = with_whole_groups(entries)
    shown = shown_images(whole)
    for is_said_to_us, group in groupby(whole, lambda entry: entry.role is Role.USER):
        if is_said_to_us:
            ordered = sorted(group, key=lambda entry: entry.kind is not EntryKind.NOTE)
            text = joined(*(entry.text for entry in ordered), by="\n\n")
            images = tuple(image for image in _images(ordered) if image in shown) if shown else ()
            messages.append(PromptMessage(Role.USER, text, images=images))
        else:
            messages.extend(PromptMessage(one.role, one.text, one.tool_calls, one.tool_call_id) for one in group)
    return tuple(messages)


def _images(entries: Iterable[Entry]) -> Iterator[Image]:
    """List the images that people sent, and those that came with a tool's result and are noted after it."""
    for entry in entries:
        if entry.role is Role.USER:
            yield from images_in(entry.text)


def _lost(call_id: str, entry: Entry) -> Entry:
    return Entry(Role.TOOL, _LOST_RESULT, seq=entry.seq, tool_call_id=call_id, is_error=True)


# How a message sounds, as one hint for the model. Pure (agent.md section 3).
#
# Whole words only: "hello" is not "hell", "planet" is not "plan". Words and phrases are in `tone.toml`, for
# several languages; scripts that do not part their words are searched as they are.


class Tone(StrEnum):
    """The tone of a message, the first that fits."""

    FRUSTRATED_ERROR = "frustrated+error"
    FRUSTRATED = "frustrated"
    ERROR = "error"
    BRAINSTORMING = "brainstorming"
    NONE = "none"


TONE_HINTS: Final[Mapping[Tone, CleanText]] = {
    Tone.FRUSTRATED_ERROR: literal_text(
        "The person sounds frustrated, and something fails. Acknowledge that in a few words, then go straight to the "
        "cause and the fix. No lecture."
    ),
    Tone.FRUSTRATED: literal_text("The person sounds frustrated. Be calm, brief and concrete; no lecture, no cheer."),
    Tone.ERROR: literal_text("The person reports that something fails. Find the cause first, then give the fix."),
    Tone.BRAINSTORMING: literal_text("The person is thinking aloud. Offer several different ideas before judging any."),
}

_ERROR_NAMES: Final = re.compile(r"(?<!\w)[A-Z]\w*(?:Error|Exception)(?!\w)")


def tone_of(text: str) -> Tone:
    """Detect the tone of the beginning of a message: frustration and errors before ideas, the first match wins."""
    plain, is_error = _beginning(text).lower(), reports_failure(text)
    if _FRUSTRATED.search(plain):
        return Tone.FRUSTRATED_ERROR if is_error else Tone.FRUSTRATED
    if is_error:
        return Tone.ERROR
    return Tone.BRAINSTORMING if _BRAINSTORMING.search(plain) is not None else Tone.NONE


def reports_failure(text: str) -> bool:
    """Tell whether the beginning of a message says that something fails."""
    beginning = _beginning(text)
    return _ERROR.search(_TERMS.sub(" ", beginning.lower())) is not None or _ERROR_NAMES.search(beginning) is not None


def _beginning(text: str) -> str:
    return unicodedata.normalize("NFC", text[: limits.TONE_CHARS_MAX]).replace("’", "'")


_WORDS: Final[Mapping[str, Mapping[str, Sequence[str]]]] = tomllib.loads(
    resources.files(__package__).joinpath("tone.toml").read_text("utf-8")
)


def _compiled(tone: str) -> re.Pattern[str]:
    """Compile a pattern of whole words in small letters, or signs anywhere: one that ignores case takes three times as
    long. A hyphen or an apostrophe is part of a word."""
    spaced, unspaced = "|".join(_WORDS[tone]["spaced"]).replace(" ", r"\s+"), "|".join(_WORDS[tone]["unspaced"])
    return re.compile(rf"(?<![\w'-])(?:{spaced})(?![\w'-])|(?:{unspaced})")


_FRUSTRATED: Final = _compiled("frustrated")
_ERROR: Final = _compiled("error")
_TERMS: Final = _compiled("no_failure")
_BRAINSTORMING: Final = _compiled("brainstorming")


# The model's view of a session: which part of the transcript, in which form. Pure.
#
# system prompt (byte-stable inside a session) [history, oldest first, always user-led; the summary folded into its
# first message] the newest user message, with a preamble of what changes from turn to turn
#
# Providers keep what they have read of a prompt and charge a tenth for it, as long as the next prompt begins with the
# same bytes. So a preamble is stored with its turn, as a note, and is in every later prompt at the place it had in
# the first: a preamble that only the newest message had would void all that came after it.


_OUTPUT_SHARE_UNKNOWN: Final = 4  # a model whose output limit is unknown: leave a quarter of what is planned
_BEFORE: Final = literal_text("(The conversation began before this.)")
_OUTPUT_SHARE_MAX: Final = 2  # never more than half, however much a model may write


@dataclass(frozen=True, slots=True)
class PromptBudget:
    """Tokens of one prompt: `window` is what the model can read, `planned` what a prompt and its answer are to fill of
    it, `usable` the prompt's part, `an_image` what each image that is shown takes of it: nothing where the model sees
    none. What cannot be made shorter may exceed `planned`, never `window`."""

    window: int
    planned: int
    usable: int
    an_image: int = 0


def budget_of(facts: ModelFacts, *, window_override: int = 0, context_budget: int = 0) -> PromptBudget:
    """Compute `usable = planned - min(20 000, the model's output limit)`, but never less than half of `planned`.

    `planned` is `context_budget`, or (0) the smaller of 100,000 tokens and 60 % of the window; windows of up to 32,000
    are used whole."""
    window = window_override or facts.context_window or limits.UNKNOWN_WINDOW_TOKENS
    usual = min(
        limits.CONTEXT_BUDGET_TOKENS, max(int(window * limits.CONTEXT_BUDGET_SHARE), limits.CONTEXT_BUDGET_TOKENS_MIN)
    )
    planned = min(context_budget or usual, window)
    output = facts.output_max or planned // _OUTPUT_SHARE_UNKNOWN
    usable = planned - min(limits.RESERVE_TOKENS_MAX, output, planned // _OUTPUT_SHARE_MAX)
    return PromptBudget(window, planned, usable, limits.IMAGE_TOKENS if facts.sees else 0)


def next_prompt_tokens(fixed_tokens: int, view: Sequence[Entry], session: Session, *, an_image: int = 0) -> int:
    """Estimate the size of the next prompt: the provider's count of the last one plus an estimate of what came after
    it; where nothing was counted (or a compaction made the count void), an estimate of it all. `fixed_tokens` are the
    system prompt and the tools, which every count holds; each image shown takes `an_image`."""
    newest_seq = view[0].seq if summary_of(view) is not None else 0
    if session.prompt_tokens and session.prompt_seq > newest_seq:
        added = [entry for entry in view if entry.seq > session.prompt_seq]
        return session.prompt_tokens + entries_tokens(added) + an_image * len(shown_images(added))
    return fixed_tokens + entries_tokens(view) + an_image * len(shown_images(view))


def build_prompt(entries: Sequence[Entry]) -> tuple[PromptMessage, ...]:
    """Build the prompt from a view and from the entries of the turn so far; the summary is folded into its first
    message.

    Nothing in view is ever left out of a prompt. It is always user-led, and the next prompt begins with the same
    messages."""
    summary = summary_of(entries)
    messages = list(as_prompt(said_in(entries)))
    if not messages or messages[0].role is not Role.USER:
        messages.insert(0, PromptMessage(Role.USER, _BEFORE))
    if summary is not None:
        folded = joined(literal_text("<summary>\n"), summary, literal_text("\n</summary>\n\n"), messages[0].text)
        messages[0] = replace(messages[0], text=folded)
    return tuple(messages)


def preamble(
    now_ms: int,
    *,
    tone: Tone = Tone.NONE,
    memory: CleanText | None = None,
    advice: Sequence[CleanText] = (),
    lost: CleanText | None = None,
    unseen: CleanText | None = None,
    name: CleanText | None = None,
    zone: str = "",
) -> CleanText:
    """Write what changes from turn to turn and therefore must not be in the system prompt: the time (also on the clock
    of the person, whose `zone` is known), the person's `name` and tone, a block of `memory` that marks itself as data,
    the `advice` of plug-ins, what is `lost` of an earlier attempt, and that an image is `unseen`."""
    parts = [memory] if memory else []
    parts += (joined(literal_text("<advice>\n"), each, literal_text("\n</advice>")) for each in advice)
    if tone is not Tone.NONE:
        parts.append(joined(literal_text("<tone>\n"), TONE_HINTS[tone], literal_text("\n</tone>")))
    if lost:
        parts.append(joined(literal_text("<interrupted>\n"), lost, literal_text("\n</interrupted>")))
    if unseen:
        parts.append(joined(literal_text("<unseen>\n"), unseen, literal_text("\n</unseen>")))
    moment = CleanText(_moment(now_ms, zone))
    if name:
        moment = joined(
            moment, literal_text(', from "'), clipped(on_one_line(name), limits.NAME_CHARS_MAX), literal_text('"')
        )
    parts.append(joined(literal_text("<now>\n"), moment, literal_text("\n</now>")))
    return joined(*parts, by="\n\n")


def _moment(now_ms: int, zone: str) -> str:
    moment = datetime.fromtimestamp(now_ms / 1000, UTC)
    utc = f"{moment:%A %Y-%m-%d %H:%M} UTC"
    return f"{utc} ({moment.astimezone(ZoneInfo(zone)):%A %H:%M} in {zone})" if zone else utc
