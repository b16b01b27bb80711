"""Cut a long answer into several messages: the tree is cut, never the text that is made of it."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeAlias, TypeVar

import regex

from channels.markdown import tree

_SENTENCE_END: Final = regex.compile(r"""(?:[.!?…]["'”’)\]]*\s+|[。！？]["'”’」』）]*\s*)(?!\p{GCB=Extend}|\u200d)""")
_SPACE: Final = regex.compile(r"\s(?!\p{GCB=Extend}|\u200d)")
_GRAPHEME: Final = regex.compile(r"\X")
_LOOK_AHEAD: Final = 64  # enough to see whether the cluster at the cut goes on


def cut_at(text: str, most: int, *, in_words: bool) -> int:
    """Find the best place to cut `text` so that at most `most` characters come before, 0 if there is none.

    After a line, else after a sentence (both only if that fills half of the room), else between words, else (if
    `in_words`) at a grapheme border, else, for one monstrous grapheme, anywhere."""
    if most >= len(text):
        return len(text)
    if most <= 0:
        return 0
    line_end = text.rfind("\n", most // 2, most)
    if line_end > 0:
        return line_end + 1
    if text[most].isspace():
        return most
    sentence = _last_end(_SENTENCE_END, text, most // 2, most)
    if sentence:
        return sentence
    word = _last_end(_SPACE, text, 0, most)
    word = word if text[:word].strip() else 0
    if word or not in_words:
        return word
    return _grapheme_border(text, most) or most


def utf16_units(text: str) -> int:
    """Measure the length as Telegram counts it: characters beyond the basic plane are two units."""
    return len(text) if text.isascii() else len(text.encode("utf-16-le", "surrogatepass")) // 2


def clipped(text: str, units_max: int) -> str:
    """Keep as many of the first clusters as fit, counted in UTF-16 units."""
    end = units = 0
    for cluster in _GRAPHEME.finditer(text):
        units += utf16_units(cluster[0])
        if units > units_max:
            break
        end = cluster.end()
    return text[:end]


def _last_end(pattern: regex.Pattern[str], text: str, start: int, most: int) -> int:
    """Find the end of the last match that ends at or before `most`, 0 if there is none. One more character is looked
    at, for a combining mark makes a grapheme of the white space before it."""
    ends = (match.end() for match in pattern.finditer(text, start, most + 1))
    return max((end for end in ends if end <= most), default=0)


def _grapheme_border(text: str, most: int) -> int:
    """Find the last cluster border at or before `most`, counted from the last white space, where one surely is."""
    start = border = _last_end(_SPACE, text, 0, most)
    for cluster in _GRAPHEME.finditer(text, start, min(len(text), most + _LOOK_AHEAD)):
        if cluster.end() > most:
            break
        border = cluster.end()
    return border


# A long answer becomes several messages: the tree is cut, never the text that was made of it.
#
# Cuts fall between blocks, else between list items or table rows, else between lines, sentences, words, and at last
# between graphemes. Each part is a whole tree again, so fences close and reopen with their language, tables repeat
# their header, quotes and lists go on, and no markup is left open.
#
# The time is about linear in the length: a border is searched only within what could fit.

Chunk = TypeVar("Chunk")
Load: TypeAlias = Callable[[tree.Blocks], float]
"""Measures how full one message with these blocks would be: 1.0 is full, more does not fit."""

WELL_FILLED: Final = 0.5  # a message this full may end although the next block could be cut to fill it
_FIRST_PROBE: Final = 16
_GROWTH_MAX: Final = 16


def split(
    blocks: tree.Blocks, write: Callable[[tree.Blocks], Chunk], filled: Callable[[Chunk], float], *, chars_max: int
) -> tuple[Chunk, ...]:
    """Cut `blocks` into parts that `write` makes messages of, each at most 1.0 `filled`.

    `chars_max` bounds the visible characters of one part from above, so that no probe measures the whole."""
    written: tuple[tree.Blocks, Chunk] | None = None

    def load(piece: tree.Blocks) -> float:
        nonlocal written
        written = piece, write(piece)
        return filled(written[1])

    chunks: list[Chunk] = []
    while blocks:
        part, blocks = _next_part(blocks, load, chars_max)
        # Most texts are one message: the last probe was all of it.
        chunks.append(written[1] if written and written[0] is part else write(part))
    return tuple(chunks)


@dataclass(frozen=True, slots=True)
class _Room:
    """The room left in a message. `is_fresh`: the message is still empty, so words may be cut if they must."""

    load: Load
    chars_max: int
    is_fresh: bool

    def within(self, wrap: Callable[[tree.Blocks], tree.Blocks]) -> _Room:
        """Return the room for blocks that `wrap` puts into a container."""
        return replace(self, load=lambda blocks: self.load(wrap(blocks)))


_Cut: TypeAlias = tuple[tree.Blocks, tree.Blocks]
"""The blocks for this message (none, if there is no room for any of them) and the rest."""


def _next_part(blocks: tree.Blocks, load: Load, chars_max: int) -> _Cut:
    room = _Room(load, chars_max, is_fresh=True)
    count = _most(_sizes(blocks, chars_max), lambda n: room.load(blocks[:n]))
    if count == len(blocks):
        return blocks, ()
    whole, following, rest = blocks[:count], blocks[count], blocks[count + 1 :]
    if not whole:
        head, tail = _cut(following, room)
        if not head and tail and tail != (following,):  # what was cut off is blank
            return _next_part(tail + rest, load, chars_max)
        # Every block yields at least a grapheme to an empty message; should one not, it goes out as it is.
        return (head, tail + rest) if head else (blocks[:1], blocks[1:])
    if load(whole) < WELL_FILLED and not _fits_alone(following, room):
        rest_of_room = replace(room, is_fresh=False).within(lambda piece: whole + piece)
        head, tail = _cut(following, rest_of_room)
        if head:
            return whole + head, tail + rest
    if count > 1 and isinstance(whole[-1], tree.Heading):
        count -= 1  # a heading stays with what it heads
    return blocks[:count], blocks[count:]


def _fits_alone(block: tree.Block, room: _Room) -> bool:
    return _chars((block,), room.chars_max) <= room.chars_max and room.load((block,)) <= 1


def _cut(block: tree.Block, room: _Room) -> _Cut:
    match block:
        case tree.Paragraph(runs):
            return _cut_runs(runs, tree.Paragraph, room)
        case tree.Heading(level, runs):
            return _cut_runs(runs, lambda part: tree.Heading(level, part), room)
        case tree.Fence():
            return _cut_fence(block, room)
        case tree.QuoteBlock(inner):
            head, tail = _cut_blocks(inner, room.within(lambda part: (tree.QuoteBlock(part),)))
            return (tree.QuoteBlock(head),) if head else (), (tree.QuoteBlock(tail),) if tail else ()
        case tree.Listing():
            return _cut_listing(block, room)
        case tree.Table():
            return _cut_table(block, room)
        case tree.RuleBlock():
            return (), (block,)


def _cut_blocks(blocks: tree.Blocks, room: _Room) -> _Cut:
    """Cut blocks within a container: as many whole blocks as fit, otherwise a piece of the first."""
    count = _most(_sizes(blocks, room.chars_max), lambda n: room.load(blocks[:n]))
    if count or not blocks:
        return blocks[:count], blocks[count:]
    head, tail = _cut(blocks[0], room)
    return head, tail + blocks[1:]


def _cut_listing(listing: tree.Listing, room: _Room) -> _Cut:
    items = listing.items
    sizes = _bounded((1 + _chars(item.blocks, room.chars_max) for item in items), room.chars_max)
    count = _most(sizes, lambda n: room.load((replace(listing, items=items[:n]),)))
    if count:
        start = None if listing.start is None else listing.start + count
        return (replace(listing, items=items[:count]),), (replace(listing, items=items[count:], start=start),)

    def with_first(blocks: tree.Blocks) -> tree.Listing:
        return replace(listing, items=(replace(items[0], blocks=blocks),))

    head, tail = _cut_blocks(items[0].blocks, room.within(lambda part: (with_first(part),)))
    if not head:
        return (), (replace(listing, items=(replace(items[0], blocks=tail), *items[1:])),)
    return (with_first(head),), (replace(listing, items=(tree.Item(tail, is_continued=True), *items[1:])),)


def _cut_table(table: tree.Table, room: _Room) -> _Cut:
    sizes = _bounded((1 + sum(map(_chars_of, row)) for row in table.rows), room.chars_max)
    count = _most(sizes, lambda n: room.load((replace(table, rows=table.rows[:n]),)))
    if not count:
        return (), (table,)
    return (replace(table, rows=table.rows[:count]),), (replace(table, rows=table.rows[count:]),)


def _cut_fence(fence: tree.Fence, room: _Room) -> _Cut:
    lines = fence.text.split("\n")
    sizes = _bounded((len(line) + 1 for line in lines), room.chars_max)
    count = _most(sizes, lambda n: room.load((replace(fence, text="\n".join(lines[:n])),)))
    if count == 0 and room.is_fresh:
        return _cut_line(fence, lines, room)
    late = range(count, count // 2, -1) if count < len(lines) else range(0)
    unindented = [at for at in late if lines[at] and not lines[at][0].isspace()]
    after_blank = [at for at in unindented if not lines[at - 1].strip()]
    count = next(iter((*after_blank, *unindented, count)))
    head, tail = "\n".join(lines[:count]).rstrip(), "\n".join(lines[count:]).lstrip("\n")
    return _fences(fence, head), _fences(fence, tail)


def _cut_line(fence: tree.Fence, lines: Sequence[str], room: _Room) -> _Cut:
    """Cut a single line that is longer than a message."""
    line = lines[0]
    most = _most([1] * min(len(line), room.chars_max), lambda n: room.load((replace(fence, text=line[:n]),)))
    at = cut_at(line, most, in_words=True)
    return _fences(fence, line[:at]), _fences(fence, "\n".join((line[at:], *lines[1:])))


def _fences(fence: tree.Fence, text: str) -> tree.Blocks:
    return (replace(fence, text=text),) if text.strip() else ()


def _cut_runs(runs: tree.Runs, make: Callable[[tree.Runs], tree.Paragraph | tree.Heading], room: _Room) -> _Cut:
    text = tree.plain_text(runs)
    most = _most([1] * min(len(text), room.chars_max), lambda n: room.load((make(_before(runs, n)),)))
    at = cut_at(text, most, in_words=room.is_fresh)
    head, tail = _trimmed(_before(runs, at)), _trimmed(_after(runs, at))
    return (make(head),) if head else (), (make(tail),) if tail else ()


def _before(runs: tree.Runs, at: int) -> tree.Runs:
    kept: list[tree.TextRun] = []
    for run in runs:
        if at <= 0:
            break
        kept.append(run if len(run.text) <= at else replace(run, text=run.text[:at]))
        at -= len(run.text)
    return tuple(kept)


def _after(runs: tree.Runs, at: int) -> tree.Runs:
    for index, run in enumerate(runs):
        if at < len(run.text):
            first = replace(run, text=run.text[at:]) if at else run
            return (first, *runs[index + 1 :])
        at -= len(run.text)
    return ()


def _trimmed(runs: tree.Runs) -> tree.Runs:
    """Trim the white space at either end: a message begins and ends with a word."""
    kept = list(runs)
    while kept and not kept[0].text.strip():
        del kept[0]
    while kept and not kept[-1].text.strip():
        del kept[-1]
    if kept:
        kept[0] = replace(kept[0], text=kept[0].text.lstrip())
        kept[-1] = replace(kept[-1], text=kept[-1].text.rstrip())
    return tuple(kept)


def _most(sizes: Sequence[int], load: Callable[[int], float]) -> int:
    """Find the largest `n <= len(sizes)` for which `load(n)` is at most 1.

    The load grows about evenly with `n`, so each probe is where the last one says the border should be; every fourth
    halves the rest, for texts that are not so even. Probes stay near the answer in size."""
    low, high = 0, len(sizes)
    probe = min(high, _FIRST_PROBE)
    for tries in itertools.count(1):
        if low >= high:
            break
        filled = load(probe)
        low, high = (probe, high) if filled <= 1 else (low, probe - 1)
        guess = (low + high + 1) // 2 if tries % 4 == 0 else int(probe / max(filled, 1 / _GROWTH_MAX))
        probe = min(max(guess, low + 1), high)
    return low


def _sizes(blocks: tree.Blocks, chars_max: int) -> Sequence[int]:
    return _bounded((_chars((block,), chars_max) for block in blocks), chars_max)


def _bounded(sizes: Iterable[int], chars_max: int) -> list[int]:
    """Keep the leading sizes whose sum is at most `chars_max`."""
    kept: list[int] = []
    for size in sizes:
        chars_max -= size
        if chars_max < 0:
            break
        kept.append(size)
    return kept


def _chars(blocks: tree.Blocks, chars_max: int) -> int:
    """Count visible characters, from below. Counting ends above `chars_max`, where the number matters no more."""
    total = 0
    for size in _leaf_sizes(blocks):
        total += size
        if total > chars_max:
            break
    return total


def _leaf_sizes(blocks: tree.Blocks) -> Iterator[int]:
    for block in blocks:
        match block:
            case tree.Paragraph(runs) | tree.Heading(_, runs):
                yield _chars_of(runs)
            case tree.Fence(text):
                yield len(text)
            case tree.QuoteBlock(inner):
                yield from _leaf_sizes(inner)
            case tree.Listing(items):
                for item in items:
                    yield 1
                    yield from _leaf_sizes(item.blocks)
            case tree.Table(_, rows):
                for row in rows:
                    yield 1 + sum(map(_chars_of, row))
            case tree.RuleBlock():
                yield 1


def _chars_of(runs: tree.Runs) -> int:
    return sum(len(run.text) for run in runs)
