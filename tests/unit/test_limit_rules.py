"""What admins may say of limits, and what holds of it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.contracts.access import limiting_all
from gateway.contracts.budgets import (
    COUNT_MAX,
    NANO_PER_USD,
    PER_MINUTE_MAX,
    USD_MAX,
    BadLimit,
    Caps,
    LimitRule,
    limited_named,
    rule_changed,
    said_of,
    strictest,
)
from gateway.contracts.errors import BadSessionKey
from gateway.contracts.ids import SessionKey
from gateway.contracts.sessions import GrantRole

ANN, BEN, CAT = (SessionKey("telegram", name) for name in "123")

_cents = st.one_of(st.none(), st.integers(0, USD_MAX * 100).map(lambda cents: cents * NANO_PER_USD // 100))
_counts = st.one_of(st.none(), st.integers(0, COUNT_MAX))
_rules = st.builds(LimitRule, _counts, _cents, _counts, st.one_of(st.none(), st.integers(0, PER_MINUTE_MAX)))


def test_what_is_not_named_stays_as_it_is() -> None:
    before = LimitRule(tokens=5, per_minute=10)
    after = rule_changed(before, ["usd", "2.50", "turns", "none", "rate", "default"])
    assert after == LimitRule(tokens=5, nano_usd=2_500_000_000, turns=0)
    assert str(after) == "tokens 5, usd 2.5, turns none"


@given(_rules)
def test_what_is_shown_can_be_written_back(rule: LimitRule) -> None:
    said = [] if rule.is_empty else str(rule).replace(",", "").split()
    assert rule_changed(LimitRule(), said) == rule


@pytest.mark.parametrize(
    "words",
    [
        *("tokens", "tokens -1", "tokens 1.5", "tokens lots", "usd nan", "usd 1e9", "usd 1000001", "usd ."),
        *("rate 10001", "rate ²", "speed 3", "tokens 5 usd", "turns 10000000000000001", "reset tokens"),
    ],
)
def test_what_no_limit_can_be_is_refused(words: str) -> None:
    with pytest.raises(BadLimit):
        rule_changed(LimitRule(), words.split())


def test_a_rule_is_for_a_person_or_a_role() -> None:
    assert limited_named(" guest ") is GrantRole.GUEST
    assert limited_named("telegram:1/-100") == ANN
    for nobody in ("blocked", "everybody", "", "telegram:"):
        with pytest.raises(BadSessionKey):
            limited_named(nobody)


def test_a_person_s_own_rule_wins_over_that_of_his_role_and_both_over_the_configuration() -> None:
    rules: dict[SessionKey | GrantRole, LimitRule] = {
        ANN: LimitRule(turns=0),
        GrantRole.GUEST: LimitRule(tokens=5, turns=3),
    }
    configured = Caps(tokens=100, nano_usd=7, turns=9)
    assert said_of(ANN, GrantRole.GUEST, rules).caps_over(configured) == Caps(5, 7, 0)
    assert said_of(BEN, GrantRole.GUEST, rules).caps_over(configured) == Caps(5, 7, 3)
    assert said_of(BEN, GrantRole.MEMBER, rules).caps_over(configured) == configured
    assert said_of(BEN, GrantRole.BLOCKED, rules).caps_over(configured) == Caps(5, 7, 3)


def test_of_several_rules_the_least_counts_and_none_is_the_most() -> None:
    assert strictest([LimitRule(tokens=0), LimitRule(tokens=9), LimitRule(nano_usd=3)]) == LimitRule(9, 3)
    assert strictest([LimitRule(tokens=0), LimitRule(per_minute=1)]) == LimitRule(tokens=0)
    assert strictest([]) == LimitRule()


def test_the_day_of_a_person_is_limited_at_every_account_and_his_pace_only_where_it_was_said() -> None:
    rules: dict[SessionKey | GrantRole, LimitRule] = {
        ANN: LimitRule(tokens=9, per_minute=2),
        GrantRole.GUEST: LimitRule(turns=1),
    }
    shown = limiting_all(rules, [frozenset({ANN, BEN})])
    assert shown == rules | {BEN: LimitRule(tokens=9)}
    assert CAT not in limiting_all(rules, [frozenset({CAT, BEN})])
