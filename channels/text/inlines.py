"""From the parser's inline tokens to runs: marks counted, links checked, images and footnotes named."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from markdown_it.token import Token

from channels.text.syntax import FOOTNOTE_REF, MATH
from channels.text.tree import Mark, Run, Runs, is_visible, plain_text

URL_CHARS_MAX: Final = 1500  # longer ones are shown as text, which can be split; a link cannot
_MARK_TOKENS: Final = {"strong": Mark.BOLD, "em": Mark.ITALIC, "s": Mark.STRIKE}


class _RunWriter:
    """Collects runs from inline tokens. Bold within bold is bold, so marks count how often they are open."""

    def __init__(self) -> None:
        self._runs: list[Run] = []
        self._open: dict[Mark, int] = {}
        self._label_start = 0

    def add(self, text: str, *marks: Mark, url: str = "") -> None:
        if not text:
            return
        run = Run(text, frozenset((*marks, *(mark for mark, depth in self._open.items() if depth))), url)
        last = self._runs[-1] if self._runs else None
        if last and len(self._runs) > self._label_start and (last.marks, last.url) == (run.marks, run.url):
            self._runs[-1] = replace(last, text=last.text + text)
        else:
            self._runs.append(run)

    def shift(self, mark: Mark, by: int) -> None:
        self._open[mark] = self._open.get(mark, 0) + by

    def open_link(self) -> None:
        self._label_start = len(self._runs)

    def close_link(self, url: str, *, is_auto: bool) -> None:
        label = self._runs[self._label_start :]
        shown = plain_text(label)
        if not _is_linkable(url):
            if shown != url and not is_auto:
                self.add(f" ({url})" if shown else url)
        elif is_auto or shown == url or not is_visible(shown):
            del self._runs[self._label_start :]
            self.add(shown if is_visible(shown) else url, Mark.BARE_URL, url=url)
        else:
            self._runs[self._label_start :] = [replace(run, url=url) for run in label]
        self._label_start = len(self._runs)

    def runs(self) -> Runs:
        return tuple(self._runs)


def _is_linkable(url: str) -> bool:
    return url.lower().startswith(("http://", "https://")) and len(url) <= URL_CHARS_MAX


def to_runs(tokens: Sequence[Token]) -> Runs:
    writer = _RunWriter()
    url, is_auto = "", False
    for token in tokens:
        kind, _, end = token.type.rpartition("_")
        if kind in _MARK_TOKENS and end in ("open", "close"):
            writer.shift(_MARK_TOKENS[kind], token.nesting)
        elif token.type in ("softbreak", "hardbreak"):
            writer.add("\n")
        elif token.type in ("code_inline", MATH):
            writer.add(token.content, Mark.CODE)
        elif token.type == "link_open":
            url, is_auto = str(token.attrs.get("href", "")), token.info == "auto"
            writer.open_link()
        elif token.type == "link_close":
            writer.close_link(url, is_auto=is_auto)
            url = ""
        elif token.type == "image":
            _add_image(writer, token, url)
        elif token.type in ("text", "text_special", FOOTNOTE_REF):
            writer.add(token.content)
    return writer.runs()


def _add_image(writer: _RunWriter, token: Token, link: str) -> None:
    source = str(token.attrs.get("src", ""))
    alt = plain_text(to_runs(token.children or ())).replace("\n", " ").strip()
    if link:
        writer.add(alt or "image", Mark.IMAGE)  # the image is the link's label
    elif _is_linkable(source):
        writer.add(alt or "image", Mark.IMAGE, url=source)
    elif source.startswith("data:"):
        writer.add(alt or "image")
    else:
        writer.add(f"{alt} ({source})" if alt else source)
