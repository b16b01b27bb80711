"""The rows of `lines.toml`: what each finds, what it leaves alone, and that a stream says the same."""

from __future__ import annotations

import re

import pytest

from gateway.scrub import Scrubber, findings, scrub
from gateway.scrub.lines import WORDS_MIN, LineRule, line_rules
from tests.scrubbing import draw

RULES = sorted({rule.id: rule for rule in line_rules().values()}.values(), key=lambda rule: rule.id)
EXAMPLES = [pytest.param(rule, text, id=f"{rule.id}: {text[:40]}") for rule in RULES for text in rule.examples]
COUNTER_EXAMPLES = [
    pytest.param(rule, text, id=f"{rule.id}: {text[:40]}") for rule in RULES for text in rule.counter_examples
]
PHRASE = "evoke huge pelican fork dentist oven blade convince purse age slush bulk"


def streamed(text: str, chars: int) -> str:
    stream = Scrubber().stream()
    parts = [stream.feed(text[at : at + chars]) for at in range(0, len(text), chars)]
    return without_ids("".join(parts) + stream.flush())


def without_ids(text: str) -> str:
    return re.sub("#[0-9a-f]+", "", text)


@pytest.mark.parametrize(("rule", "example"), EXAMPLES)
def test_an_example_is_found(rule: LineRule, example: str) -> None:
    for seed in range(3):
        text = draw(example, seed=seed)
        kinds = {finding.rule.partition("/")[0] for finding in findings(text)}
        assert kinds & {rule.id.partition("/")[0], "ssh", "named"}, text
        assert len(findings(f"first line\n{text}\nlast line")) == len(findings(text)), text


@pytest.mark.parametrize(("rule", "example"), EXAMPLES)
def test_a_stream_says_what_the_whole_says(rule: LineRule, example: str) -> None:
    text = draw(f"first line\n{example}\nlast line", seed=1)
    for chars in (1, 5, 23):
        assert streamed(text, chars) == without_ids(scrub(text))


@pytest.mark.parametrize(("rule", "example"), COUNTER_EXAMPLES)
def test_a_counter_example_stays(rule: LineRule, example: str) -> None:
    text = draw(example, seed=1)
    assert scrub(text) == text
    assert streamed(text, 3) == text


def test_a_line_that_is_none_of_the_rule_is_read_as_any_other() -> None:
    text = draw("kind: Secret\nmetadata:\n  note: the password is <base62:14>x7\ndata:\n  host: <base62:14>==", seed=2)
    assert [finding.rule for finding in findings(text)] == ["named/personal", "named/secret"]


def test_twelve_words_of_the_list_go_and_eleven_stay() -> None:
    eleven = PHRASE.rpartition(" ")[0]
    assert without_ids(scrub(f"it says {PHRASE}. Well")) == "it says [redacted:seed-phrase]. Well"
    assert len(eleven.split()) == WORDS_MIN - 1
    assert scrub(f"it says {eleven}. Well") == f"it says {eleven}. Well"
    assert streamed(f"it says {PHRASE}\nwell", 4) == "it says [redacted:seed-phrase]\nwell"


def test_a_list_of_words_is_no_phrase() -> None:
    listed = " ".join(sorted(PHRASE.split()))
    assert scrub(listed) == listed


def test_a_phrase_in_another_language_goes_behind_its_announcement() -> None:
    phrase = "的 一 是 在 不 了 有 和 人 这 中 大"
    assert without_ids(scrub(f"助记词：{phrase}")) == "助记词：[redacted:seed-phrase]"
    assert scrub(phrase) == phrase
