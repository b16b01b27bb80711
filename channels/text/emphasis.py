"""Marks as signs around text, for the platforms whose format is text.

Signs never enclose white space at their edges, never span lines, are always closed, and two signs that
would run together are kept apart by a zero-width space.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from channels.text.tree import Mark

ZERO_WIDTH_SPACE: Final = "\u200b"
_SIGNS: Final = "*_~`"


@dataclass(frozen=True, slots=True)
class Piece:
    """Text of the dialect, escaped already. An atom (code) carries signs of its own at its edges."""

    body: str
    marks: frozenset[Mark] = frozenset()
    is_atom: bool = False


def weave(pieces: Iterable[Piece], signs: Mapping[Mark, str], *, needs_border: Callable[[str], bool]) -> str:
    """One line of text with its signs. `signs` is ordered: the first stands outermost.

    `needs_border(char)` says that a sign does not work directly beside `char`.
    """
    weaver = _Weaver(signs, needs_border)
    for piece in pieces:
        weaver.add(piece)
    return weaver.finish()


class _Weaver:
    def __init__(self, signs: Mapping[Mark, str], needs_border: Callable[[str], bool]) -> None:
        self._signs = signs
        self._needs_border = needs_border
        self._out: list[str] = []
        self._open: list[Mark] = []
        self._last = ""  # the last character written, empty at the start and after white space
        self._is_after_sign = False  # a sign was closed, or an atom ended, right here
        self._pending = ""  # white space that may turn out to follow a closing sign

    def add(self, piece: Piece) -> None:
        core = piece.body.strip()
        if not core:
            self._pending += piece.body
            return
        lead, trail = piece.body[: len(piece.body) - len(piece.body.lstrip())], piece.body[len(piece.body.rstrip()) :]
        wanted = [mark for mark in self._signs if mark in piece.marks]
        kept = 0
        while kept < min(len(wanted), len(self._open)) and self._open[kept] is wanted[kept]:
            kept += 1
        self._close(kept)
        self._space(lead)
        self._open_signs(wanted[kept:])
        self._text(core, is_atom=piece.is_atom)
        self._pending = trail

    def finish(self) -> str:
        self._close(0)
        self._space("")
        return "".join(self._out)

    def _close(self, kept: int) -> None:
        while len(self._open) > kept:
            self._write(self._signs[self._open.pop()])
            self._is_after_sign = True

    def _open_signs(self, marks: Iterable[Mark]) -> None:
        for mark in marks:
            sign = self._signs[mark]
            if self._last and (self._is_after_sign or self._clashes(sign)):
                self._write(ZERO_WIDTH_SPACE)
            self._write(sign)
            self._open.append(mark)
            self._last = ""
            self._is_after_sign = False

    def _text(self, core: str, *, is_atom: bool) -> None:
        touches = self._is_after_sign and (self._needs_border(core[0]) or core[0] in _SIGNS)
        if self._last and (touches or (is_atom and self._clashes(core[0]))):
            self._write(ZERO_WIDTH_SPACE)
        self._write(core)
        self._is_after_sign = is_atom

    def _clashes(self, sign: str) -> bool:
        return self._needs_border(self._last) or self._last in _SIGNS

    def _space(self, text: str) -> None:
        text = self._pending + text
        self._pending = ""
        if text:
            self._out.append(text)
            self._last = ""
            self._is_after_sign = False

    def _write(self, text: str) -> None:
        self._out.append(text)
        self._last = text[-1]
