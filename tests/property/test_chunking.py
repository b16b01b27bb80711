"""Cuts fall where a reader would make them, and every part is a whole tree."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import regex
from hypothesis import given
from hypothesis import strategies as st

from channels.markdown.chunk import clipped, cut_at, split, utf16_units
from channels.markdown.parse import parse
from channels.markdown.tree import (
    Blocks,
    Fence,
    Heading,
    Item,
    Listing,
    Paragraph,
    QuoteBlock,
    Table,
    TextRun,
    plain_text,
)
from tests.parts.texts import documents, patient, patient_with_long_texts

_LIMIT = 200


def _texts(blocks: Blocks) -> Iterator[str]:
    for block in blocks:
        match block:
            case Paragraph(runs) | Heading(_, runs):
                yield plain_text(runs)
            case Fence(text):
                yield text
            case QuoteBlock(inner):
                yield from _texts(inner)
            case Listing(items):
                for item in items:
                    yield from _texts(item.blocks)
            case Table(head, rows):
                yield from (plain_text(cell) for row in (head, *rows) for cell in row)
            case _:
                pass


def _load(blocks: Blocks) -> float:
    return sum(len(text) + 1 for text in _texts(blocks)) / _LIMIT


def _split(text: str) -> tuple[Blocks, ...]:
    return split(parse(text), lambda blocks: blocks, _load, chars_max=_LIMIT)


@patient_with_long_texts
@given(documents)
def test_every_part_fits_and_is_not_empty(text: str) -> None:
    """A load above 1 never leaves the splitter."""
    for part in _split(text):
        assert part
        assert _load(part) <= 1


@patient_with_long_texts
@given(documents)
def test_parts_together_are_the_whole(text: str) -> None:
    """Only white space at the cuts is gone."""
    joined = "".join("".join(_texts(part)) for part in _split(text))
    assert "".join(joined.split()) == "".join("".join(_texts(parse(text))).split())


def test_a_block_that_fits_a_fresh_message_is_not_cut() -> None:
    """The border between blocks comes first."""
    first, second = "a " * 60, "b " * 70
    assert [plain for part in _split(f"{first}\n\n{second}") for plain in _texts(part)] == [
        first.strip(),
        second.strip(),
    ]


def test_a_heading_stays_with_its_text() -> None:
    """No message ends in a heading."""
    parts = _split("a " * 80 + "\n\n# Head\n\n" + "b " * 60)
    assert isinstance(parts[1][0], Heading)


def test_a_fence_goes_on_with_its_language() -> None:
    """Closed at the end of a message, opened again in the next."""
    parts = _split("```py\n" + "x = 1\n" * 100 + "```")
    assert len(parts) > 2
    assert all(isinstance(block, Fence) and block.language == "py" for part in parts for block in part)


def test_code_is_cut_before_an_unindented_line() -> None:
    """A function is not torn if there is room to spare it."""
    parts = _split("```py\n" + "def f():\n    return 1\n\n" * 40 + "```")
    assert all(isinstance(part[0], Fence) and part[0].text.startswith("def f()") for part in parts)


def test_a_table_repeats_its_header() -> None:
    """Every part of a long table says what its columns are."""
    parts = _split("| name | count |\n|---|---|\n" + "| x | 1 |\n" * 100)
    assert len(parts) > 1
    assert all(isinstance(part[0], Table) and plain_text(part[0].head[0]) == "name" for part in parts)


def test_a_numbered_list_keeps_counting() -> None:
    """The next part starts with the next number."""
    parts = _split("\n".join(f"{number}. item number {number}" for number in range(1, 41)))
    for part in parts:
        assert isinstance(part[0], Listing)
        first = part[0].items[0]
        assert [*_texts(first.blocks)] == [f"item number {part[0].start}"]


def test_a_long_item_goes_on_without_a_marker() -> None:
    """What follows the cut within an item is marked as continued."""
    parts = _split("- " + "word " * 100)
    lists = [block for part in parts for block in part if isinstance(block, Listing)]
    assert [item.is_continued for block in lists for item in block.items] == [False, True, True]


def test_a_sentence_is_preferred_to_a_word() -> None:
    """Within a paragraph, the cut is after a full stop if that fills half of the message."""
    parts = _split("This is a sentence. " * 30)
    assert all([*_texts(part)][-1].endswith("sentence.") for part in parts)


def test_items_keep_their_task_box() -> None:
    """`[x]` is a property, not text."""
    (listing,) = parse("- [x] done\n- [ ] open")
    assert isinstance(listing, Listing)
    assert listing.items == (
        Item((Paragraph((TextRun("done"),)),), is_done=True),
        Item((Paragraph((TextRun("open"),)),), is_done=False),
    )


@patient
@given(st.text(alphabet=st.sampled_from("ab\u0301\u200d👩👧🇩🇪🏽 한\n"), min_size=2, max_size=80), st.integers(1, 40))
def test_a_cut_never_splits_a_grapheme_that_fits(text: str, most: int) -> None:
    """Families, flags and accents stay in one piece."""
    at = cut_at(text, most, in_words=True)
    clusters = regex.findall(r"\X", text)
    borders = set(itertools.accumulate(map(len, clusters)))
    assert 0 < at <= most or at == len(text)
    assert at in borders or text[at].isspace() or max(map(len, clusters)) > 1 + most // 2


@patient
@given(st.text(max_size=200))
def test_units_are_those_of_utf16(text: str) -> None:
    """Telegram's length function."""
    assert utf16_units(text) == sum(2 if char > "\uffff" else 1 for char in text)


@given(st.text(max_size=60), st.integers(0, 80))
def test_a_clipped_text_is_the_longest_beginning_that_fits(text: str, units_max: int) -> None:
    kept = clipped(text, units_max)
    clusters = regex.findall(r"\X", text)
    lengths = [utf16_units("".join(clusters[:count])) for count in range(len(clusters) + 1)]
    assert text.startswith(kept)
    assert utf16_units(kept) == max(length for length in lengths if length <= units_max)
