"""What a title is: the request for one and what is made of the answer. Pure (agent.md section 5)."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from typing import Final

import regex

from agent.limits import TITLE_GRAPHEMES_MAX, TITLE_INPUT_CHARS_MAX, TITLE_LINE_CHARS_MAX, TITLE_OUTPUT_CHARS_MAX
from agent.model.client import PromptMessage
from gateway.contracts.entries import Role
from gateway.contracts.messages import CleanText, clipped, joined, own_words

Scrub = Callable[[str], CleanText]

_NOTHING: Final = own_words("")
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
    """The titler's whole input: the first user text, bounded, nothing else."""
    return (PromptMessage(Role.USER, clipped(text, TITLE_INPUT_CHARS_MAX)),)


def sanitize_title(raw: str, scrub: Scrub) -> CleanText:
    """A title out of whatever a model wrote: one line, no marks, no secret, at most 60 graphemes; empty if
    nothing is left. Idempotent."""
    title = _first_line(scrub(raw))
    for _ in range(_PASSES_MAX):
        clean = shorten(scrub(title))
        title = _first_line(clean)
        if title == clean:
            return clean
    return _NOTHING


def wanted_title(argument: str, scrub: Scrub) -> CleanText:
    """The title that a user asks for with /title: their own words, on one line, clean and short enough."""
    return shorten(scrub(" ".join(_INVISIBLE.sub(r"\1", argument).split())))


def shorten(text: CleanText) -> CleanText:
    """At most 60 grapheme clusters: longer ones are cut to 59 and an ellipsis. No placeholder of a secret is cut
    in two: the title ends before it."""
    graphemes = regex.findall(r"\X", text)
    if len(graphemes) <= TITLE_GRAPHEMES_MAX:
        return text
    end = sum(map(len, graphemes[: TITLE_GRAPHEMES_MAX - 1]))
    parted = _PARTED_PLACEHOLDER.search(text, 0, end)
    return clipped(text, parted.start()) if parted else joined(clipped(text, end), own_words("…"))


def _first_line(text: str) -> str:
    """The first line that says something, once the model's thoughts are gone; "" if there is none."""
    bare = _STRAY_END.sub("", _OPEN_THOUGHT.sub("", _CLOSED_THOUGHT.sub("", text[:TITLE_OUTPUT_CHARS_MAX])))
    lines = (_strip_line(line[:TITLE_LINE_CHARS_MAX]) for line in bare.splitlines() if not _FENCE.fullmatch(line))
    return next(filter(None, lines), "")


def _strip_line(line: str) -> str:
    """Take marks, labels, quotes and closing punctuation off until nothing changes; "" if only those were there."""
    visible = _INVISIBLE.sub(r"\1", line)
    stripped = unicodedata.normalize("NFC", " ".join(visible.split()))
    while True:
        before = stripped
        stripped = _PAIRED.sub(r"\2\4", _LINK.sub(r"\1", _TAG.sub(" ", stripped)))
        stripped = _LABEL.sub("", _MARKS.sub("", stripped.strip(_EDGES))).strip(_EDGES)
        stripped = " ".join(_without_endings(stripped).split())
        if stripped == before:
            return stripped if _VISIBLE.search(stripped) else ""


def _without_endings(text: str) -> str:
    """No closing punctuation, except the ellipsis that says a title was cut."""
    is_cut = text.endswith("…") and len(regex.findall(r"\X", text)) == TITLE_GRAPHEMES_MAX
    return text if is_cut else text.rstrip(_ENDINGS)
