"""Unified diffs as models write them: read leniently, applied exactly. Pure.

The counts in a hunk's header are often wrong, so the body alone is believed; its lines must be found in the
file as they are, nearest to where the header says. Whatever a patch says, the work is bounded in lines."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from agent.limits import PATCH_LINES_MAX, PATCH_LOOKS_MAX
from gateway.contracts.errors import ToolError

_HUNK: Final = re.compile(r"@@ -(\d{1,9})(?:,\d+)? \+\d+(?:,\d+)? @@")
_NOWHERE: Final = "/dev/null"


@dataclass(frozen=True, slots=True)
class Hunk:
    """Lines to find and lines to put there, with their line ends; `start` is the line the header names."""

    start: int
    old: tuple[str, ...]
    new: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class FilePatch:
    """The hunks of one file; None stands for no file before (a new one) or after (a deleted one)."""

    source: str | None
    target: str | None
    hunks: tuple[Hunk, ...]


@dataclass(slots=True)
class ComparisonBudget:
    """The number of lines that the hunks of one patch may still be compared with, away from their headers' places."""

    left: int = PATCH_LOOKS_MAX

    def spend(self, lines: int) -> None:
        """Raise `ToolError` when it is too much."""
        self.left -= lines
        if self.left < 0:
            raise ToolError("too many hunks are elsewhere than their line numbers say: read the files again")


def parse_patch(text: str) -> tuple[FilePatch, ...]:
    """Parse a unified diff into its files. Raises `ToolError` for text that holds none."""
    patches = tuple(_files(_lines(text)))
    if not patches:
        raise ToolError("this is no unified diff: it needs lines with ---, +++ and @@ -1,2 +1,3 @@")
    return patches


def apply_hunks(path: str, text: str, hunks: Sequence[Hunk], budget: ComparisonBudget) -> str:
    """Apply every hunk to the text. Raises `ToolError` if one does not fit; then nothing is changed."""
    if text.count("\n") > PATCH_LINES_MAX:
        raise ToolError(f"{path} has more than {PATCH_LINES_MAX} lines: too long to be patched")
    lines = _lines(text)
    shift = 0
    for number, hunk in enumerate(hunks, 1):
        wanted = max(hunk.start - 1, 0) + shift
        at = _find(lines, hunk.old, wanted, budget) if hunk.old else min(hunk.start + shift, len(lines))
        if at is None:
            raise ToolError(f"{path}: hunk {number} (line {hunk.start}) does not fit the file: read it again")
        lines[at : at + len(hunk.old)] = hunk.new
        shift += len(hunk.new) - len(hunk.old)
    return "".join(lines)


def _lines(text: str) -> list[str]:
    """Split the text into lines with their ends. `splitlines` would also cut at form feeds and the like."""
    lines = [f"{line}\n" for line in text.split("\n")]
    last = lines.pop().removesuffix("\n")
    return [*lines, last] if last else lines


def _find(lines: list[str], old: tuple[str, ...], wanted: int, budget: ComparisonBudget) -> int | None:
    if wanted >= 0 and tuple(lines[wanted : wanted + len(old)]) == old:
        return wanted
    budget.spend(len(lines) + len(old))
    return min(_places(lines, old), key=lambda at: abs(at - wanted), default=None)


def _places(lines: list[str], old: tuple[str, ...]) -> Iterator[int]:
    """Yield where `old` is in `lines`, from the top (Knuth, Morris and Pratt: no line is gone back to)."""
    fallback, matched = [0] * len(old), 0
    for at in range(1, len(old)):
        while matched and old[at] != old[matched]:
            matched = fallback[matched - 1]
        matched += old[at] == old[matched]
        fallback[at] = matched
    matched = 0
    for at, line in enumerate(lines):
        while matched and (matched == len(old) or line != old[matched]):
            matched = fallback[matched - 1]
        matched += line == old[matched]
        if matched == len(old):
            yield at + 1 - matched


def _files(lines: list[str]) -> Iterator[FilePatch]:
    at = 0
    while at < len(lines):
        if not (lines[at].startswith("--- ") and at + 1 < len(lines) and lines[at + 1].startswith("+++ ")):
            at += 1
            continue
        source, target = _names(lines[at], lines[at + 1])
        hunks, at = _hunks(lines, at + 2)
        if hunks:
            yield FilePatch(source, target, hunks)


def _names(minus: str, plus: str) -> tuple[str | None, str | None]:
    """Return the two paths, without the time stamp after a tab and without git's a/ and b/."""
    source, target = (line[4:].rstrip("\n").partition("\t")[0].strip() for line in (minus, plus))
    has_source = source.startswith("a/") or source == _NOWHERE
    has_target = target.startswith("b/") or target == _NOWHERE
    if has_source and has_target:
        source, target = source.removeprefix("a/"), target.removeprefix("b/")
    return (None if source == _NOWHERE else source), (None if target == _NOWHERE else target)


def _hunks(lines: list[str], at: int) -> tuple[tuple[Hunk, ...], int]:
    hunks: list[Hunk] = []
    while at < len(lines) and (header := _HUNK.match(lines[at])):
        end = at + 1
        while end < len(lines) and _belongs(lines, end):
            end += 1
        body = lines[at + 1 : end]
        while body and body[-1] == "\n":  # empty lines between the hunk and what comes after it
            body.pop()
        hunks.append(_hunk(int(header[1]), body))
        at = end
    return tuple(hunks), at


def _belongs(lines: list[str], at: int) -> bool:
    """Tell whether a line belongs to the hunk: it is neither the next hunk nor the header of the next file."""
    line = lines[at]
    if line.startswith("--- ") and at + 2 < len(lines) and lines[at + 1].startswith("+++ "):
        return not _HUNK.match(lines[at + 2])
    return line[0] in " +-\\" or line == "\n"


def _hunk(start: int, body: list[str]) -> Hunk:
    """Parse one hunk into its two sides. An empty line counts as an unchanged one: editors and models strip its leading
    blank."""
    sides: dict[str, list[str]] = {"-": [], "+": []}
    marks = ""
    for line in body:
        mark, rest = (" ", line) if line == "\n" else (line[0], line[1:])
        if mark == "\\":
            for side in marks:
                sides[side][-1] = sides[side][-1].removesuffix("\n")
            continue
        marks = "-+" if mark == " " else mark
        for side in marks:
            sides[side].append(rest if rest.endswith("\n") else rest + "\n")
    return Hunk(start, tuple(sides["-"]), tuple(sides["+"]))
