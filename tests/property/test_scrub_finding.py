"""The two engines of the search for literals, and a slow one that is obviously right, agree on everything."""

from __future__ import annotations

import pickle

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.scrub.rules import ENGINE, AutomatonFinder, Finder, Hit, TrieFinder, engine_name, rule_book, trie_pattern
from gateway.scrub.words import vocabulary

FEW_LETTERS = st.text(st.sampled_from("ab ß密é😀\ud800"), max_size=40)
LITERALS = st.lists(st.text(st.sampled_from("ab ß密é😀"), min_size=1, max_size=6), min_size=1, max_size=12)
ANY_LITERALS = st.lists(
    st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=5), min_size=1, max_size=8
)
SHIPPED = sorted({*rule_book().by_anchor, *vocabulary().announcing})


def by_hand(literals: tuple[str, ...], text: str, start: int, end: int) -> list[Hit]:
    return sorted(
        (
            (which, at, at + len(literal))
            for which, literal in enumerate(literals)
            for at in range(start, end - len(literal) + 1)
            if text[at : at + len(literal)] == literal
        ),
        key=lambda hit: hit[1:],
    )


@settings(max_examples=300)
@given(LITERALS | ANY_LITERALS, FEW_LETTERS, st.data())
def test_both_engines_find_every_place_of_every_literal(literals: list[str], text: str, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, len(text)))
    for finder in (TrieFinder(literals), AutomatonFinder(literals)):
        assert finder.find(text, start, end) == by_hand(finder.literals, text, start, end)
        assert finder.find(text) == by_hand(finder.literals, text, 0, len(text))


@settings(max_examples=200)
@given(st.lists(st.sampled_from(SHIPPED) | st.text(max_size=4), max_size=10).map("".join))
def test_both_engines_agree_on_what_is_shipped(text: str) -> None:
    assert SHIPPED_ON_TRIE.find(text) == SHIPPED_ON_AUTOMATON.find(text)


SHIPPED_ON_TRIE: Finder = TrieFinder(SHIPPED)
SHIPPED_ON_AUTOMATON: Finder = AutomatonFinder(SHIPPED)


def test_what_is_remembered_of_a_text_has_no_digits() -> None:
    finder = TrieFinder(["word", "word is"])
    finder.find("the word is Tulip7, 471, (R2D2) or plainly")
    remembered = pickle.dumps(finder)
    assert b"plainly" in remembered
    assert not [kept for kept in (b"Tulip7", b"471", b"R2D2") if kept in remembered]


@pytest.mark.parametrize("engine", [TrieFinder, AutomatonFinder])
def test_nothing_is_found_of_nothing(engine: type[TrieFinder] | type[AutomatonFinder]) -> None:
    assert engine(()).find("any text") == []
    assert engine(["any"]).find("") == []


def test_a_pattern_of_no_literals_is_empty() -> None:
    assert trie_pattern(()) == ""


def test_the_accelerator_is_at_work_where_it_is_installed() -> None:
    assert ENGINE is AutomatonFinder
    assert engine_name() == "ahocorasick_rs"
