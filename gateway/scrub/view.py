"""The normalised view: the text as a reader sees it, with the way back to the text as it was sent.

A secret with a zero-width space inside, in full-width letters, percent-encoded or with colour codes between
its halves is still a secret. All matching happens on this view; what is cut out is cut out of the original.
"""

from __future__ import annotations

from bisect import bisect_right

from gateway.scrub.escapes import LOOK_BACK_CHARS, folded, is_plain, spellings


class View:
    """A growing text in two forms. `text` is normalised; `raw(start, end)` is the original of a span.

    Every character of `text` stands for one or more of the original. What is not in the view (invisible
    characters, colour codes) belongs to the span it lies in. Positions in the original count from the very
    beginning and never change; positions in the view do when it forgets.
    """

    __slots__ = ("_ends_at", "_raw", "_raw_base", "_shift", "_shifts", "_starts_at", "_unfinished", "text")

    def __init__(self) -> None:
        self.text = ""
        self._raw = ""
        self._raw_base = 0
        self._unfinished = ""
        # From `_starts_at[i]` on, characters of the view start `_shifts[i]` further right in the original, and
        # spans that end at `_ends_at[i]` or later end so much further right; before the first, `_shift`.
        self._shift = 0
        self._starts_at: list[int] = []
        self._ends_at: list[int] = []
        self._shifts: list[int] = []

    def append(self, chunk: str, *, is_last: bool) -> None:
        """Take the next piece of the original. A spelling cut in two waits for its other half."""
        if self._unfinished:
            chunk = self._unfinished + chunk
            self._unfinished = ""
        if is_plain(chunk):
            self.text += chunk
            self._raw += chunk
            return
        done = len(self._raw)
        raw = self._raw + chunk
        seen: list[str] = []
        length = len(self.text)
        for spelling in spellings(raw, done, is_last=is_last):
            seen.append(raw[done : spelling.start])
            length += spelling.start - done
            done = spelling.start
            if spelling.char is None:
                self._unfinished = raw[done:]
                raw = raw[:done]
                break
            seen.append(spelling.char)
            self._note(length, len(spelling.char), spelling.end - done)
            length += len(spelling.char)
            done = spelling.end
        seen.append(raw[done:])
        self.text += folded("".join(seen))
        self._raw = raw

    def raw_start(self, at: int) -> int:
        """Where the character `at` of the view stands in the original."""
        return at + self._shift_at(self._starts_at, at)

    def raw_end(self, at: int) -> int:
        """Where a span that ends before `at` ends in the original."""
        return at + self._shift_at(self._ends_at, at)

    @property
    def raw_length(self) -> int:
        """How much of the original was read."""
        return self._raw_base + len(self._raw)

    @property
    def raw_held_chars(self) -> int:
        """How much of the original is in memory."""
        return len(self._raw) + len(self._unfinished)

    def raw(self, start: int, end: int) -> str:
        """A slice of the original, by its own positions."""
        return self._raw[start - self._raw_base : end - self._raw_base]

    def forget(self, before: int, raw_before: int) -> None:
        """Drop what lies before `before`, and of the original what nobody will ask for before `raw_before`."""
        self._shift = self._shift_at(self._starts_at, before) + before
        kept = bisect_right(self._starts_at, before)
        self._starts_at = [at - before for at in self._starts_at[kept:]]
        self._ends_at = [at - before for at in self._ends_at[kept:]]
        self._shifts = [shift + before for shift in self._shifts[kept:]]
        self.text = self.text[before:]
        raw_kept = max(0, min(raw_before, self.raw_start(0)) - LOOK_BACK_CHARS - self._raw_base)
        self._raw = self._raw[raw_kept:]
        self._raw_base += raw_kept

    def _shift_at(self, places: list[int], at: int) -> int:
        if not places:
            return self._shift
        index = bisect_right(places, at)
        return self._shifts[index - 1] if index else self._shift

    def _note(self, at: int, chars: int, raw_chars: int) -> None:
        """`raw_chars` of the original are `chars` (one or none) in the view, at `at`."""
        starts_at, ends_at = at + chars, at + 1
        shift = (self._shifts[-1] if self._shifts else self._shift) + raw_chars - chars
        if self._starts_at and (self._starts_at[-1], self._ends_at[-1]) == (starts_at, ends_at):
            self._shifts[-1] = shift
        else:
            self._starts_at.append(starts_at)
            self._ends_at.append(ends_at)
            self._shifts.append(shift)


def normalised(text: str) -> str:
    """The view of a whole text."""
    view = View()
    view.append(text, is_last=True)
    return view.text
