"""Every rule finds its examples, in any surroundings, and leaves its counter-examples alone."""

from __future__ import annotations

import binascii
import random
import re
import string

import pytest

from gateway.scrub import Scrubber, findings, scrub
from gateway.scrub.known import PLACEHOLDER
from gateway.scrub.rules import SecretRule, rule_book
from gateway.scrub.words import KeywordFamily, vocabulary
from tests.scrubbing import draw
from tests.scrubbing.rows import counter_examples_of, examples_of
from tests.scrubbing.work import attempts_of

RULES = rule_book().rules
EXAMPLES = [pytest.param(rule, example, id=f"{rule.id}: {example}") for rule in RULES for example in examples_of(rule)]
COUNTER_EXAMPLES = [
    pytest.param(rule, example, id=f"{rule.id}: {example}") for rule in RULES for example in counter_examples_of(rule)
]
SURROUNDINGS = (
    "{}",
    "see {}.",
    "is it {}?",
    "{}...right",
    "({})",
    "**{}**",
    "`{}`",
    '"{}",',
    "<{}>",
    "x={}",
    "密钥是{}",
    "用{}登录",
    "ключ{}и",
    '{{"x":"{}"}}',
    "a\\n{}\\nb",
    "first\n{}\nlast",
)
NEEDS_ITS_END = frozenset(
    ["wif", "xprv", "tezos", "stellar", "url/userinfo", "url/user", "jwk", "cloudinary", "wireless"]
)
"""A checksum or a mark at the end decides: without it these are any other text."""

HOSTILE_CHARS = 3_000
ATTEMPTS_PER_CHAR_MAX = 4
"""Some anchors have two characters, and a handful of rules share one."""


def visible_part(clean: str, token: str) -> bool:
    """Is a piece of twelve characters of the token (or the whole of a shorter one) still there?"""
    return any(token[at : at + 12] in clean for at in range(max(1, len(token) - 11)))


@pytest.mark.parametrize(("rule", "example"), EXAMPLES)
def test_an_example_is_found_whatever_stands_around_it(rule: SecretRule, example: str) -> None:
    for seed in range(2):
        token = draw(example, seed=seed)
        for surroundings in SURROUNDINGS:
            text = surroundings.format(token)
            assert token not in scrub(text), text


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)
def test_a_token_that_lost_its_end_is_still_hidden(rule: SecretRule) -> None:
    if rule.id in NEEDS_ITS_END or rule.left is not None:
        pytest.skip("its mark stands at the end")
    for example in examples_of(rule):
        token = draw(example, seed=9)
        behind = max((len(anchor) for anchor in rule.anchors if token.startswith(anchor)), default=len(token) - 8)
        cut = token[: behind + (len(token) - behind) * 4 // 5]
        assert cut not in scrub(f"see {cut} there"), cut


@pytest.mark.parametrize(("rule", "example"), COUNTER_EXAMPLES)
def test_a_counter_example_stays(rule: SecretRule, example: str) -> None:
    for seed in range(4):
        text = draw(example, seed=seed)
        assert [finding for finding in findings(text) if finding.rule == rule.id] == []


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)
def test_no_input_makes_a_rule_work_more_than_its_length(rule: SecretRule) -> None:
    rng = random.Random(3)
    noise = "".join(rng.choices(string.ascii_letters + string.digits, k=40))
    for anchor in rule.anchors[:1]:
        for piece in (anchor, f" {anchor}", f"-{anchor}{noise}", f"{noise}{anchor}"):
            text = (piece * (HOSTILE_CHARS // len(piece) + 1))[:HOSTILE_CHARS]
            machine = Scrubber(budget_s=60.0, spent_s=lambda: 0.0).machine()
            assert attempts_of(machine, text) <= ATTEMPTS_PER_CHAR_MAX * HOSTILE_CHARS, piece


def test_a_token_with_a_right_checksum_may_touch_letters_on_both_sides() -> None:
    body = draw("<base62:30>", seed=4)
    token = f"ghp_{body}{_checksum(body)}"
    clean = scrub(f"before{token}after")
    assert clean.startswith("before[")
    assert clean.endswith("]after")


def test_a_token_with_a_wrong_checksum_is_hidden_all_the_same() -> None:
    body = draw("<base62:30>", seed=4)
    token = f"ghp_{body}{_checksum(body)[::-1]}"
    assert not visible_part(scrub(f"see {token}, ok?"), token)


@pytest.mark.parametrize(
    "text",
    ["sk-learn-contrib-something-long", "task_test_runner_for_everything", "sk-toggleable__content-arrow-2-of-many"],
)
def test_names_that_begin_like_a_token_stay(text: str) -> None:
    assert scrub(text) == text


def test_a_rule_looks_no_further_than_its_bounds() -> None:
    for rule in RULES:
        open_ended = re.sub(r"\\.|\[[^]]*\]|\}\+", "", rule.body)
        assert not re.search(r"[*+]|,\}", open_ended), rule.id
        bounds = [int(most) for most in re.findall(r"\{(?:\d+,)?(\d+)\}(?!\+)", rule.body)]
        assert sum(bounds) <= 900, rule.id


def test_every_rule_has_literal_anchors() -> None:
    assert len({rule.id for rule in RULES}) == len(RULES)
    for rule in RULES:
        assert rule.anchors, rule.id
        assert all(anchor.isascii() and " " not in anchor for anchor in rule.anchors), rule.id


def test_no_example_is_longer_than_its_row_says() -> None:
    for rule in (rule for rule in RULES if rule.chars):
        for token in (draw(example, seed=3) for example in examples_of(rule)):
            anchor_chars = max((len(anchor) for anchor in rule.anchors if token.startswith(anchor)), default=len(token))
            assert len(token) - anchor_chars <= rule.nominal, rule.id


def test_no_line_of_the_rules_holds_a_secret_itself() -> None:
    for rule in RULES:
        for example in examples_of(rule):
            assert "<" in example
            assert scrub(re.sub(r"<[^>]*>", "", example)) == re.sub(r"<[^>]*>", "", example)


def test_a_placeholder_announces_nothing() -> None:
    kinds = {rule.id.partition("/")[0] for rule in RULES} | {"named", "known", "pem", "text"}
    announcing = {word for word, (family, _) in vocabulary().announcing.items() if family is not KeywordFamily.VENDOR}
    for kind in kinds:
        assert PLACEHOLDER.fullmatch(f"[redacted:{kind}#a1b2]"), kind
        assert not {kind, *kind.split("-")} & announcing


def test_a_placeholder_named_after_a_vendor_announces_nothing() -> None:
    once = scrub(f"{draw('dop_v1_<hex:64>', seed=1)} and {draw('<hex:64>', seed=2)}")
    assert scrub(once) == once


def _checksum(body: str) -> str:
    alphabet = string.digits + string.ascii_uppercase + string.ascii_lowercase
    number = binascii.crc32(body.encode())
    digits = ""
    while number:
        number, digit = divmod(number, 62)
        digits = alphabet[digit] + digits
    return digits.rjust(6, "0")
