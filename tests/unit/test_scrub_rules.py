"""Every rule finds its examples, in any surroundings, and leaves its counter-examples alone."""

from __future__ import annotations

import re

import pytest

from gateway.scrub import findings, scrub
from gateway.scrub.checks import CHECKS
from gateway.scrub.placeholder import PLACEHOLDER
from gateway.scrub.rules import Rule, rule_book
from gateway.scrub.words import vocabulary
from tests.scrubbing import draw

RULES = rule_book().rules
EXAMPLES = [pytest.param(rule, example, id=f"{rule.id}: {example}") for rule in RULES for example in rule.examples]
COUNTER_EXAMPLES = [
    pytest.param(rule, example, id=f"{rule.id}: {example}") for rule in RULES for example in rule.counter_examples
]


def ends_openly(rule: Rule) -> bool:
    """Is the rule content with a part of the token? Not if its mark is at the end, or a checksum decides."""
    return not rule.left and CHECKS["base58check"] not in rule.checks and rule.anchors != ("://",)


@pytest.mark.parametrize(("rule", "example"), EXAMPLES)
def test_an_example_is_found_whatever_stands_around_it(rule: Rule, example: str) -> None:
    for seed in range(4):
        token = draw(example, seed=seed)
        for text in (
            token,
            f"see {token}.",
            f"用{token}登录",
            f"(**{token}**)",
            f'{{"x":"{token}"}}',
            f"a\\n{token}\\nb",
        ):
            assert token not in scrub(text), text


@pytest.mark.parametrize("rule", [rule for rule in RULES if ends_openly(rule)], ids=lambda rule: rule.id)
def test_a_token_that_lost_its_end_is_still_hidden(rule: Rule) -> None:
    for example in rule.examples:
        token = draw(example, seed=9)[:-2]
        assert token not in scrub(f"see {token} there")


@pytest.mark.parametrize(("rule", "example"), COUNTER_EXAMPLES)
def test_a_counter_example_stays(rule: Rule, example: str) -> None:
    for seed in range(4):
        text = draw(example, seed=seed)
        assert [finding for finding in findings(text) if finding.rule == rule.id] == []


def test_every_rule_has_an_id_of_its_own_and_examples() -> None:
    assert len({rule.id for rule in RULES}) == len(RULES)
    assert all(rule.examples for rule in RULES)


def test_no_line_of_the_rules_holds_a_secret_itself() -> None:
    for rule in RULES:
        for example in rule.examples:
            assert "<" in example
            assert scrub(re.sub(r"<[^>]*>", "", example)) == re.sub(r"<[^>]*>", "", example)


def test_a_placeholder_holds_no_word_that_announces_a_secret() -> None:
    kinds = {rule.id.partition("/")[0] for rule in RULES} | {"named", "known", "pem", "text"}
    for kind in kinds:
        assert PLACEHOLDER.fullmatch(f"[redacted:{kind}#a1b2]"), kind
        assert kind not in vocabulary().announcing
        assert not {*kind.split("-")} & vocabulary().announcing.keys()
