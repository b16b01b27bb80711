"""Search terms: how a text is cut, and how matches are ranked."""

from __future__ import annotations

import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.store.search import TERM_CHARS_MAX, TERMS_QUERY, fact_terms, query_terms, ranked
from gateway.store.tables import facts

PLENTY = 10_000
NO_LETTERS = set(string.punctuation + string.whitespace + "\x00")


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        ("", []),
        ("?! -- …", []),
        ("My dog", ["my", "dog"]),
        ("DOGS", ["dogs", "dog"]),
        ("teacher", ["teacher", "teache", "teach"]),
        ("Ёж", ["еж"]),
        ("Café", ["cafe", "caf"]),
        ("ＦＵＬＬ", ["full", "ful"]),
        ("4711 a4", ["4711", "a4"]),
        ("snake_case", ["snake", "snak", "sna", "case", "cas"]),
        ("北京市", ["北", "京", "市", "北京", "京市"]),
        ("GPT很好", ["gpt", "很", "好", "很好"]),
    ],
)
def test_a_fact_is_cut_into_terms(text: str, terms: list[str]) -> None:
    assert fact_terms(text, count_max=PLENTY) == terms


def test_a_question_in_an_unspaced_script_looks_for_pairs() -> None:
    """Single characters would find almost everything."""
    assert query_terms("北京市", count_max=PLENTY) == ["北京", "京市"]
    assert query_terms("猫", count_max=PLENTY) == ["猫"]


@pytest.mark.parametrize(
    ("one", "other"),
    [("dog", "dogs"), ("needle", "needles"), ("teacher", "teachers"), ("собака", "собаку"), ("кошка", "кошки")],
)
def test_a_word_and_its_inflection_share_a_term(one: str, other: str) -> None:
    assert set(query_terms(one, count_max=PLENTY)) & set(fact_terms(other, count_max=PLENTY))


def test_numbers_are_found_whole_only() -> None:
    assert not set(query_terms("4711", count_max=PLENTY)) & set(fact_terms("47110", count_max=PLENTY))


@given(st.text())
def test_terms_need_no_quoting_and_have_a_bound(text: str) -> None:
    """Letters and digits only: what both engines take as one word, whatever people write."""
    for term in fact_terms(text, count_max=50):
        assert 0 < len(term) <= TERM_CHARS_MAX
        assert not set(term) & NO_LETTERS
    assert len(fact_terms(text, count_max=3)) <= 3


@given(st.text(min_size=1))
def test_whatever_a_question_asks_for_the_same_text_offers(text: str) -> None:
    assert set(query_terms(text, count_max=PLENTY)) <= set(fact_terms(text, count_max=PLENTY))


def test_a_rare_term_weighs_more_than_common_ones() -> None:
    candidates = [("a", "the is"), ("b", "the is"), ("c", "dog"), ("d", "the is dog")]
    assert ranked(["the", "dog"], candidates, limit=9) == ["d", "c", "a", "b"]


def test_a_term_is_matched_whole() -> None:
    assert ranked(["dog"], [("a", "dogs hotdog"), ("b", "dog")], limit=9) == ["b", "a"]
    assert ranked(["dog"], [("a", "dogs"), ("b", "cat dog")], limit=1) == ["b"]


def test_equal_matches_keep_their_order() -> None:
    assert ranked(["x"], [("new", "x"), ("old", "x")], limit=9) == ["new", "old"]
    assert ranked(["x"], [("new", "x")], limit=-1) == []


def test_queries_quote_everything() -> None:
    assert TERMS_QUERY["sqlite"](facts, ['cli:a"b'], ["dog"]) == 'owner : ("cli:a""b") AND terms : ("dog")'
    assert TERMS_QUERY["postgresql"](facts, "", ["dog", "o'clock"]) == "'dog' | 'o''clock'"
