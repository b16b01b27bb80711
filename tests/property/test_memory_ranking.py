"""How memory ranks and tells facts apart: promises that hold for anything people write."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.contracts.memory import cosine, unit
from gateway.store.search import from_vector, fused, normalised, query_terms, say_the_same, telling_terms, to_vector

RANKINGS = st.lists(st.lists(st.integers(0, 30), unique=True, max_size=12), max_size=4)
VECTORS = st.lists(st.floats(-1e6, 1e6, width=32), min_size=1, max_size=8)


# --- reciprocal-rank fusion


@given(RANKINGS)
def test_a_fusion_holds_everything_once(rankings: list[list[int]]) -> None:
    best = fused(*rankings)
    assert len(best) == len(set(best))
    assert set(best) == {thing for ranking in rankings for thing in ranking}


@given(st.lists(st.integers(), unique=True))
def test_one_ranking_is_its_own_fusion(ranking: list[int]) -> None:
    assert fused(ranking) == fused(ranking, []) == fused(ranking, ranking) == ranking


@given(RANKINGS.filter(lambda rankings: len([one for one in rankings if one]) > 0))
def test_what_stands_before_another_everywhere_stands_before_it(rankings: list[list[int]]) -> None:
    best = fused(*rankings)
    for at, later in enumerate(best):
        for earlier in best[:at]:
            is_beaten = all(
                later in ranking and (earlier not in ranking or ranking.index(later) < ranking.index(earlier))
                for ranking in rankings
                if earlier in ranking or later in ranking
            )
            assert not is_beaten


def test_agreement_outweighs_the_top_of_one_ranking() -> None:
    assert fused(["a", "x", "y"], ["b", "x", "z"])[0] == "x"
    assert fused(["a", "b"], ["b", "a"]) == ["a", "b"], "equals keep the order of the first"


# --- vectors


@given(VECTORS, VECTORS)
def test_a_cosine_is_symmetric_and_bounded(one: list[float], other: list[float]) -> None:
    assert cosine(one, other) == pytest.approx(cosine(other, one))
    assert -1.0000001 <= cosine(one, other) <= 1.0000001


@given(VECTORS.filter(lambda vector: math.hypot(*vector) > 1e-3))
def test_a_vector_keeps_its_direction_through_the_database(vector: list[float]) -> None:
    kept = to_vector(from_vector(unit(vector)))
    assert cosine(kept, vector) == pytest.approx(1.0, abs=1e-5)


def test_what_cannot_be_compared_is_nothing_alike() -> None:
    assert cosine((1.0, 0.0), (1.0,)) == 0.0
    assert cosine((0.0, 0.0), (1.0, 0.0)) == 0.0
    assert unit((0.0, 0.0)) == (0.0, 0.0)


# --- two facts or one


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("I like tea", "i like  TEA."),
        ("Ich mag Tee!", "„ich mag Tee“"),
        ("ＦＵＬＬ", "full"),
        ("我喜欢喝茶。", "我喜欢喝茶"),
        (
            "The parents of Anna live in a small house near the lake in Finland",
            "the parents of Anna live near the lake, in a small house in Finland",
        ),
    ],
)
def test_other_forms_and_orders_of_the_same_words_say_the_same(one: str, other: str) -> None:
    assert say_the_same(one, other)
    assert say_the_same(other, one)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("My dog is called Rex", "My dog is called Max"),
        ("I like C++", "I like C"),
        ("I like C#", "I like C++"),
        ("The door code is 4711", "The door code is 4712"),
        ("It was -5 degrees", "It was 5 degrees"),
        ("It costs 5€", "It costs 5$"),
        ("I eat meat", "I do not eat meat"),
        ("我喜欢喝茶", "我喜欢喝酒"),
        ("résumé", "resume"),
        ("🙂", "🙃"),
        ("", "x"),
        (
            "In the long list of all the people that I have to call before Easter there is one Anna",
            "In the long list of all the people that I have to call before Easter there is one Berta",
        ),
    ],
)
def test_facts_that_differ_stay_apart(one: str, other: str) -> None:
    """Also to a model that finds them alike, where numbers or signs differ."""
    assert not say_the_same(one, other)


def test_a_model_may_find_two_wordings_the_same_but_not_two_numbers() -> None:
    alike = ((1.0, 0.0), (1.0, 0.01))
    assert say_the_same("I cannot stand coffee", "coffee is not for me", alike)
    assert not say_the_same("the code is 11", "the code is 12", alike)
    assert not say_the_same("I cannot stand coffee", "coffee is not for me", ((1.0, 0.0), (1.0, 1.0)))


@given(st.text())
def test_every_text_says_the_same_as_itself(text: str) -> None:
    assert say_the_same(text, text)
    assert normalised(normalised(text)) == normalised(text)


@given(st.text(max_size=40), st.text(max_size=40))
def test_saying_the_same_is_mutual(one: str, other: str) -> None:
    assert say_the_same(one, other) == say_the_same(other, one)


# --- what a message is about


@pytest.mark.parametrize(
    "said",
    [
        "what is it?",
        "Was ist das denn",
        "а что это такое",
        "qu'est-ce que c'est",
        "¿qué es esto?",
        "什么",
        "ok thanks!",
    ],
)
def test_words_of_every_sentence_ask_memory_for_nothing(said: str) -> None:
    assert telling_terms(said, count_max=99) == []


@pytest.mark.parametrize(
    ("said", "term"),
    [
        ("what does my dog eat", "dog"),
        ("Wie heißt meine Katze?", "katze"),
        ("где живёт моя сестра", "сестра"),
        ("我的狗叫什么", "狗叫"),
        ("¿dónde vive mi hermana?", "hermana"),
        ("my sister's birthday", "sister"),
    ],
)
def test_what_a_message_is_about_is_asked_for(said: str, term: str) -> None:
    assert term in telling_terms(said, count_max=99)


def test_a_stem_that_is_only_part_of_a_word_is_not_asked_for() -> None:
    assert "hou" not in query_terms("house", count_max=99)
    assert "dog" in query_terms("dogs", count_max=99)


@given(st.text())
def test_who_asks_gets_an_answer_from_any_words(text: str) -> None:
    """Where no word is telling, all of them count."""
    telling = telling_terms(text, count_max=99)
    assert query_terms(text, count_max=99) == telling or not telling
