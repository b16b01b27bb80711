"""A secret in two messages is gone from both, for every cut of every kind; and nothing else is touched."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from channels.inbound.halves import part_of, torn
from gateway.contracts.ids import ReplyAddress, SessionKey
from gateway.contracts.messages import CleanText, InboundMessage, own_words
from gateway.scrub import Scrubber
from gateway.scrub.continued import continued
from gateway.scrub.placeholder import PLACEHOLDER
from tests.scrubbing import TOKENS, draw, fill, natural, pairs

SCRUBBER = Scrubber(placeholder_key=b"k" * 32)
PIECE_CHARS = 12
KEY = SessionKey.parse("telegram:1")
TOKEN = draw("ghp_<base62:36>", seed=31)


def message(text: CleanText, number: int = 0) -> InboundMessage:
    address = ReplyAddress("telegram", "1", "{}")
    return InboundMessage(f"m{number}", KEY, address, text, "1", own_words("Ann"), True, 1, 1)


def stored(*said: str) -> list[CleanText]:
    """What is left of messages, said one after the other, once the last has come."""
    parts = [part_of(message(SCRUBBER.scrub(text), number), text) for number, text in enumerate(said[:-1])]
    read = continued(SCRUBBER, [part.raw for part in parts], said[-1])
    after, _ = torn(parts, read.reach, read.placeholder)
    return [*(part.message.text for part in after), read.text]


def left_in(secret: str, texts: Sequence[str]) -> bool:
    pieces = [secret[at : at + PIECE_CHARS] for at in range(max(1, len(secret) - PIECE_CHARS + 1))]
    return any(piece in text for piece in pieces for text in texts)


@pytest.mark.parametrize("kind", sorted(TOKENS))
def test_wherever_a_token_is_cut_nothing_of_it_is_left(kind: str) -> None:
    rng = random.Random(f"{kind} cut")
    token = fill(TOKENS[kind], rng)
    if left_in(token, [SCRUBBER.scrub(f"my key: {token}")]):
        pytest.skip("not found in one message either: the business of the rules")
    for cut in rng.sample(range(1, len(token)), min(6, len(token) - 1)):
        assert not left_in(token, stored(f"my key: {token[:cut]}", token[cut:])), cut


@pytest.mark.parametrize("cut", range(1, len(TOKEN) - 1))
def test_both_messages_put_together_are_what_the_whole_text_would_be(cut: int) -> None:
    """The placeholder stands in both, so that neither makes a riddle; but for that they are the whole, scrubbed."""
    first, second = stored(f"here: {TOKEN[:cut]}", f"{TOKEN[cut:]} ok?")
    whole = SCRUBBER.scrub(f"here: {TOKEN} ok?")
    assert PLACEHOLDER.sub("", first) + second == whole
    assert PLACEHOLDER.search(first)


def test_a_secret_in_two_messages_of_any_corpus_is_gone() -> None:
    for pair in pairs(random.SystemRandom().randrange(2**32), 50):
        if not left_in(pair.planted.value, [SCRUBBER.scrub(pair.first + pair.second)]):
            assert not left_in(pair.planted.value, stored(pair.first, pair.second)), pair.planted.kind


@pytest.mark.parametrize("between", [" ", "\n", "\n\n", "   "])
def test_white_space_at_the_border_hides_nothing(between: str) -> None:
    assert not left_in(TOKEN, stored(f"it is {TOKEN[:20]}{between}", f"{between}{TOKEN[20:]}"))


def test_three_messages_in_a_row() -> None:
    assert not left_in(TOKEN, stored(f"it is {TOKEN[:14]}", TOKEN[14:26], f"{TOKEN[26:]} thanks"))


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("my password is", "hunter2!"),
        ("my API-key is", "f3" * 3 + "a91b2c7d60e4"),
        ("мой пароль", "Kot4nik7"),
        ("密码是", "abc12345X"),
        ("DB_PASSWORD=", "x9!kQm2z"),
    ],
)
def test_a_value_that_was_announced_one_message_before_goes(first: str, second: str) -> None:
    """And there is nothing to take out of the announcement."""
    told, value = stored(first, second)
    assert told == first
    assert second not in value
    assert PLACEHOLDER.search(value)


@pytest.mark.parametrize("said", ["thanks!", "ok", "2 more things", "Can you check it?", "谢谢", "and this is for you"])
def test_who_says_something_after_a_whole_key_is_heard(said: str) -> None:
    assert stored(f"the key: {TOKEN}", said)[1] == said


def test_the_second_half_of_a_private_key_goes_with_the_first() -> None:
    lines = [draw("<base64:64>", seed=seed) for seed in range(6)]
    block = "-----BEGIN RSA PRIVATE KEY-----\n" + "\n".join(lines) + "\n-----END RSA PRIVATE KEY-----"
    cut = block.index(lines[3]) + 20
    for secret in lines:
        assert not left_in(secret, stored(f"use this:\n{block[:cut]}", f"{block[cut:]}\nplease"))


@given(st.integers(0, 2**32))
def test_talk_without_secrets_is_never_changed(seed: int) -> None:
    first, second = (sample.text for sample in natural(seed, 2))
    assert stored(first, second) == [SCRUBBER.scrub(first), SCRUBBER.scrub(second)]


@given(st.text(max_size=60), st.text(max_size=60))
def test_any_two_texts_are_clean_afterwards(first: str, second: str) -> None:
    """Reading them again, alone, finds nothing new."""
    for text in stored(first, second):
        assert SCRUBBER.scrub(text) == text
