"""Two secrets side by side: neither shields the other, nor swallows the word that announces it."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

from gateway.scrub import Scrubber
from tests.scrubbing import TOKENS, Sample, draw, fill, is_left, leaks, positives, streamed

SCRUBBER = Scrubber(placeholder_key=b"pairs")
SEPARATORS = (" ", "; ", ", ", "…", " | ", "\n")
PAIRS = 600
GLUED_LEFT_MAX = 0.02
"""Glued to nothing but each other, two may read as one of another kind."""

TOKENS_LEFT_MAX = 0.025

SESSION = draw("<base62:14>7", seed=3)


def pairs(seed: int) -> Iterator[tuple[Sample, Sample, random.Random]]:
    """Draw pairs of texts whose secrets are found when they stand alone."""
    rng = random.Random(seed)
    rows = [each for each in positives(seed, 2) if "\n" not in each.text and not leaks(each, SCRUBBER.scrub(each.text))]
    return ((rng.choice(rows), rng.choice(rows), rng) for _ in range(PAIRS))


def left_by(first: Sample, second: Sample, between: str, rng: random.Random) -> bool:
    text = first.text + between + second.text
    clean = SCRUBBER.scrub(text)
    cut = rng.randrange(len(text))
    assert "".join(streamed(SCRUBBER, [text[:cut], text[cut:]])) == clean
    return leaks(first, clean) or leaks(second, clean)


@pytest.mark.parametrize("seed", [1, 2])
def test_both_are_gone_whatever_stands_between_them(seed: int) -> None:
    for first, second, rng in pairs(seed):
        between = rng.choice(SEPARATORS)
        assert not left_by(first, second, between, rng), (first.text, between, second.text)


@pytest.mark.parametrize("seed", [1, 2])
def test_both_are_gone_where_one_ends_and_the_other_begins(seed: int) -> None:
    glued = [each for each in pairs(seed) if not each[0].text[-1].isalpha() or each[0].text.endswith(each[0].secrets)]
    left = [(first.text, second.text) for first, second, rng in glued if left_by(first, second, "", rng)]
    assert len(left) <= GLUED_LEFT_MAX * len(glued), left


@pytest.mark.parametrize("seed", [1, 2])
def test_of_two_tokens_wall_to_wall_both_are_gone(seed: int) -> None:
    rng = random.Random(seed)
    drawn = [tuple(fill(rng.choice(list(TOKENS.values())), rng) for _ in range(2)) for _ in range(PAIRS)]
    left = [pair for pair in drawn if any(is_left(each, SCRUBBER.scrub("".join(pair))) for each in pair)]
    assert len(left) <= TOKENS_LEFT_MAX * PAIRS, left


@pytest.mark.parametrize(
    "tokens",
    [
        ("AKIA<base32:16>", "ntn_<base62:46>"),
        ("sbp_<hex:40>", "ntn_<base62:46>"),
        ("fw_<base62:22>", "CFPAT-<base64url:43>"),
        ("pypi-AgEIcHlwaS5vcmc<base64url:160>", "<digits:10>:AA<base64url:33>"),
    ],
)
def test_a_token_that_takes_the_beginning_of_the_next_leaves_nothing_of_it(tokens: tuple[str, str]) -> None:
    first, second = (draw(each, seed=4) for each in tokens)
    clean = SCRUBBER.scrub(first + second)
    assert not is_left(first, clean)
    assert not is_left(second, clean)


@pytest.mark.parametrize(
    "token",
    [
        "ghp_<base62:36>",
        "sk-<base62:20>T3BlbkFJ<base62:20>",
        "sk-ant-api03-<base64url:93>AA",
        "sgp_<hex:16>_<hex:40>",
        "ATATT3<base64url:180>=<HEX:8>",
        "AKIA<base32:16>",
    ],
)
@pytest.mark.parametrize(
    "around", ["lang=en{}Cookie: session=", "Path=/{}Cookie: a=b; s=", "{}password=", "at {}PASSWORD: "]
)
def test_a_word_glued_behind_a_token_announces_what_follows(token: str, around: str) -> None:
    text = around.format(draw(token, seed=5)) + SESSION
    assert SESSION not in SCRUBBER.scrub(text)
    assert "".join(streamed(SCRUBBER, list(text))) == SCRUBBER.scrub(text)


@pytest.mark.parametrize(
    "text",
    [
        "password: hunter2token: {}",
        "password={}API_KEY = 91da6824-bc88-49c4-80e5-71aeaf9e7b7d",
        "(access token: {})Secret Key: 91da6824bc88",
        "Пароль: {}Пароль это Eagle2025!",
        "password: {}postgresql://svc:Eagle2025@example.org/main",
        'wifi_password: {}Client(OKTA_TOKEN="91da6824bc8849c480e571aeaf9e7b7d")',
    ],
)
def test_two_announced_values_glued_together_are_gone(text: str) -> None:
    clean = SCRUBBER.scrub(text.format(SESSION))
    assert SESSION not in clean
    assert "91da6824" not in clean
    assert "Eagle2025" not in clean


def test_a_value_that_begins_with_one_of_before_goes_to_its_end() -> None:
    clean = SCRUBBER.scrub(f"password: {SESSION} and the other password: {SESSION}longer99!")
    assert "longer99" not in clean
