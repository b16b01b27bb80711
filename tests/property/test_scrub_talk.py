"""What is done for speed changes nothing: with and without it, on either engine, the same text comes out."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.scrub import Scrubber, lookahead, rules, wrapped
from gateway.scrub.lookahead import anchor_finder
from gateway.scrub.rules import TrieFinder, rule_book
from gateway.scrub.words import vocabulary
from tests.bench.scrub.mix import messages
from tests.scrubbing import ATTACKS, look_alikes, natural, positives

Scrub = Callable[[str], str]

WORDS = st.sampled_from(
    [
        *sorted(vocabulary().announcing),
        *(
            "the",
            "is",
            "was",
            "for",
            "The",
            "API",
            "isn't",
            "Anna",
            "Ключ",
            "пароли",
            "этот",
            "hunter2",
            "Qwe123!@#",
            "12",
        ),
        *(
            "密码是这个",
            "昨天我们去了市场买了一些苹果和梨",
            "它",
            "bob",
            "now",
            "word",
            "in",
            "value",
            "string",
            "hE7xQ",
            "strchtk",
        ),
    ]
)
JOINTS = st.sampled_from(
    [" "] * 12 + [". ", ", ", "? ", ".", ",", ": ", "=", "  ", "\n", "，", "。", " — ", "/", '"', "-", ""]
)
TALK = st.lists(st.tuples(WORDS, JOINTS), max_size=30).map(lambda pairs: "".join(word + joint for word, joint in pairs))


def corpus() -> Iterator[str]:
    seed = 77
    rows = itertools.chain(positives(seed, 1), look_alikes(seed, 4), *(attack.rows(seed) for attack in ATTACKS[::4]))
    yield from (row.text for row in rows)
    yield from (row.text for row in natural(seed, 150))
    yield from (message.text for message in messages(150, seed=seed))


@pytest.fixture
def quick() -> Scrub:
    return Scrubber(placeholder_key=b"speed").scrub


@pytest.fixture
def thorough(monkeypatch: pytest.MonkeyPatch) -> Scrub:
    """The scrubber that walks from every announcing word."""

    def scrub(text: str) -> str:
        with monkeypatch.context() as patch:
            patch.setattr(lookahead, "without_talk", lambda text, lowered, places, end, *, is_last: places)
            return Scrubber(placeholder_key=b"speed").scrub(text)

    return scrub


@pytest.fixture
def on_the_trie(monkeypatch: pytest.MonkeyPatch) -> Scrub:
    """The scrubber without the accelerator."""
    with monkeypatch.context() as patch:
        patch.setattr(rules, "ENGINE", TrieFinder)
        book, places = rule_book.__wrapped__(), anchor_finder.__wrapped__()

    def scrub(text: str) -> str:
        with monkeypatch.context() as patch:
            patch.setattr(lookahead, "rule_book", lambda: book)
            patch.setattr(wrapped, "rule_book", lambda: book)
            patch.setattr(lookahead, "anchor_finder", lambda: places)
            return Scrubber(placeholder_key=b"speed").scrub(text)

    return scrub


def test_words_that_are_only_talked_about_lead_nowhere(quick: Scrub, thorough: Scrub) -> None:
    differing = [text for text in corpus() if quick(text) != thorough(text)]
    assert differing == []


def test_the_engine_makes_no_difference(quick: Scrub, on_the_trie: Scrub) -> None:
    differing = [text for text in corpus() if quick(text) != on_the_trie(text)]
    assert differing == []


@settings(max_examples=250)
@given(TALK)
def test_no_talk_that_anybody_could_make_up_hides_a_value(text: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        quick = Scrubber(placeholder_key=b"speed").scrub(text)
        patch.setattr(lookahead, "without_talk", lambda text, lowered, places, end, *, is_last: places)
        assert Scrubber(placeholder_key=b"speed").scrub(text) == quick
