"""An operator's own rules, for every text: streams equal wholes, nothing is shown that was hidden without them."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.scrub import Scrubber
from gateway.scrub.known import PLACEHOLDER
from gateway.scrub.own_rules import STEP_CHARS, WINDOW_CHARS, OwnRules, read_rules
from tests.scrubbing import draw, streamed

RULES = """
[[rules]]
id = "acme"
regex = '''\\b(acme_[a-z0-9]{32})(?:[\\x60'"\\s;]|\\\\[nr]|$)'''
keywords = ["acme_"]

[[rules]]
id = "vendor"
regex = '''(?i)[\\w.-]{0,50}?(?:zorbo)(?:[ \\t\\w.-]{0,20})[\\s'"]{0,3}(?:=|:)[\\x60'"\\s=]{0,5}([a-z0-9_-]{20})'''
keywords = ["zorbo"]
entropy = 2

[[rules]]
id = "badge"
regex = '''badge number (?:is )?(\\d{6,})'''
keywords = ["number"]

[[rules]]
id = "middle"
regex = '''[a-z0-9]{10,}Q~[a-z0-9]{10,}'''
keywords = ["q~"]

[[rules]]
id = "bare"
regex = '''XX-\\d{4}-\\d{4}'''
"""
TOKEN = draw("acme_<base36:32>", seed=1)
FRAGMENTS = st.sampled_from(
    [
        TOKEN,
        TOKEN[:20],
        TOKEN[20:],
        "acme_",
        "zorbo",
        'zorbo_key = "',
        draw("<base36:20>", seed=2),
        draw("<base36:40>", seed=3),
        "badge number is ",
        "badge ",
        "123456",
        draw("<base36:12>Q~<base36:12>", seed=4),
        "XX-1234-5678",
        draw("ghp_<base62:36>", seed=5),
        "password: ",
        '"token": "',
        "-----BEGIN RSA PRIVATE KEY-----\n",
        "Cookie: a=",
        "known secret value",
        "[redacted:own#a1b2c3]",
        "\u200b",
        "%5F",
        "密码是",
        " ",
        "\n",
        "\r\n",
        '"',
        "'",
        ",",
        "x" * 90,
        "word " * 110,
    ]
)
TEXTS = st.lists(st.one_of(FRAGMENTS, st.text(max_size=4)), max_size=14).map("".join)


@pytest.fixture(scope="module")
def scrubber(tmp_path_factory: pytest.TempPathFactory) -> Scrubber:
    path: Path = tmp_path_factory.mktemp("rules") / "rules.toml"
    path.write_text(RULES)
    found = read_rules(path)
    assert not found.refused
    return Scrubber(["known secret value"], placeholder_key=b"own", own=OwnRules(found.taken))


def cut(text: str, cuts: list[int]) -> list[str]:
    return [text[left:right] for left, right in itertools.pairwise([0, *sorted(cuts), len(text)])]


@settings(max_examples=120)
@given(TEXTS, st.data())
def test_a_stream_equals_the_whole_however_it_is_cut(scrubber: Scrubber, text: str, data: st.DataObject) -> None:
    cuts = data.draw(st.lists(st.integers(0, len(text)), max_size=8))
    assert "".join(streamed(scrubber, cut(text, cuts))) == scrubber.scrub(text)


@settings(max_examples=60)
@given(TEXTS, st.integers(1, 9))
def test_a_stream_of_equal_pieces_equals_the_whole(scrubber: Scrubber, text: str, size: int) -> None:
    pieces = [text[at : at + size] for at in range(0, len(text), size)]
    assert "".join(streamed(scrubber, pieces)) == scrubber.scrub(text)


@settings(max_examples=60)
@given(TEXTS)
def test_a_second_scrub_leaves_placeholders_alone(scrubber: Scrubber, text: str) -> None:
    once = scrubber.scrub(text)
    assert set(PLACEHOLDER.findall(once)) <= set(PLACEHOLDER.findall(scrubber.scrub(once)))


@pytest.mark.parametrize("before", [0, 5, STEP_CHARS - 10, STEP_CHARS, WINDOW_CHARS - 20, WINDOW_CHARS, 5_000])
@pytest.mark.parametrize("filler", ["acme_ ", "no word of a rule ", "x", "\n"])
def test_wherever_a_secret_stands_it_is_found(scrubber: Scrubber, before: int, filler: str) -> None:
    text = f"{(filler * before)[:before]} {TOKEN} {filler * 30}"
    assert TOKEN not in scrubber.scrub(text)
    assert "".join(streamed(scrubber, list(text))) == scrubber.scrub(text)


def test_a_secret_longer_than_a_window_goes_whole(scrubber: Scrubber) -> None:
    secret = "1" * 3 * WINDOW_CHARS
    assert scrubber.scrub(f"badge number {secret} ok").count("1") < 10


def test_a_longer_value_that_is_announced_goes_whole(scrubber: Scrubber) -> None:
    value = draw("<base36:40>", seed=6)
    clean = scrubber.scrub(f'zorbo_secret_key = "{value}"')
    assert not any(value[at : at + 8] in clean for at in range(33))


def test_a_token_that_a_rule_finds_in_part_goes_whole(scrubber: Scrubber) -> None:
    token = draw("ghp_<base62:36>", seed=7)
    clean = scrubber.scrub(f"zorbo: {token}")
    assert not any(token[at : at + 8] in clean for at in range(33))
