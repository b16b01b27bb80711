"""The settings of daily limits: guests and all together have some by default, roles differ where they say so."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from gateway.config import load_settings
from gateway.config.limits import GUEST_TOKENS, GUEST_TURNS, GUEST_USD, POT_TOKENS, POT_USD
from gateway.contracts.access import Rate
from gateway.contracts.budgets import Caps, nano_of
from gateway.contracts.errors import ConfigError
from gateway.contracts.sessions import GrantRole

GUESTS = Caps(GUEST_TOKENS, nano_of(GUEST_USD), GUEST_TURNS)
SPELLED = {
    "TRIVET_LIMITS__USER__TOKENS": "1000",
    "TRIVET_LIMITS__USER__USD": "2.5",
    "TRIVET_LIMITS__GUEST__TURNS": "20",
    "TRIVET_LIMITS__MEMBER__TOKENS": "",
    "TRIVET_LIMITS__ADMIN__TOKENS": "0",
    "TRIVET_LIMITS__POT__USD": "10",
}


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where no file is."""
    monkeypatch.chdir(tmp_path)


def test_only_guests_and_all_together_are_limited_unless_it_is_said() -> None:
    limits = load_settings(None, {}).settings.limits
    assert limits.caps_of(GrantRole.GUEST) == limits.caps_of(GrantRole.BLOCKED) == GUESTS
    assert limits.pot.caps == Caps(POT_TOKENS, nano_of(POT_USD))
    assert limits.caps_of(GrantRole.MEMBER) == limits.caps_of(GrantRole.ADMIN) == Caps()


def test_zero_lifts_what_is_limited_by_default() -> None:
    names = ("GUEST__TOKENS", "GUEST__USD", "GUEST__TURNS", "POT__TOKENS", "POT__USD")
    limits = load_settings(None, {f"TRIVET_LIMITS__{name}": "0" for name in names}).settings.limits
    assert limits.pot.caps.are_open
    assert all(limits.caps_of(role) == Caps() for role in GrantRole)


def test_what_nobody_said_of_guests_is_never_more_than_what_was_said_of_all() -> None:
    """A configuration that bounds every user bounds guests as much; one that lets users do more does not."""
    for turns, expected in (("20", 20), ("200", GUEST_TURNS)):
        limits = load_settings(None, {"TRIVET_LIMITS__USER__TURNS": turns}).settings.limits
        assert limits.caps_of(GrantRole.GUEST).turns == expected
    said = {"TRIVET_LIMITS__USER__TURNS": "20", "TRIVET_LIMITS__GUEST__TURNS": "30"}
    assert load_settings(None, said).settings.limits.caps_of(GrantRole.GUEST) == replace(GUESTS, turns=30)


def test_a_role_differs_in_what_it_says_and_zero_lifts_a_limit() -> None:
    limits = load_settings(None, SPELLED).settings.limits
    assert limits.caps_of(GrantRole.MEMBER) == Caps(1000, 2_500_000_000)
    assert limits.caps_of(GrantRole.GUEST) == Caps(1000, nano_of(GUEST_USD), 20)
    assert limits.caps_of(GrantRole.ADMIN) == Caps(0, 2_500_000_000)
    assert limits.caps_of(GrantRole.BLOCKED) == limits.caps_of(GrantRole.GUEST)
    assert limits.pot.caps == Caps(POT_TOKENS, 10_000_000_000)


def test_admins_give_commands_as_fast_as_they_like_and_zero_lets_all_do_so() -> None:
    limits = load_settings(None, {"TRIVET_LIMITS__COMMANDS_BURST": "3"}).settings.limits
    assert limits.command_rate_of(GrantRole.MEMBER) == limits.command_rate_of(GrantRole.GUEST) == Rate(30, 3)
    assert limits.command_rate_of(GrantRole.ADMIN).per_minute == 0
    limits = load_settings(None, {"TRIVET_LIMITS__COMMANDS_PER_MINUTE": "0"}).settings.limits
    assert limits.command_rate_of(GrantRole.GUEST).per_minute == 0


@pytest.mark.parametrize(
    ("key", "value"),
    [("USER__TOKENS", "-1"), ("USER__TOKENS", "1.5"), ("POT__USD", "nan"), ("POT__USD", "inf"), ("GUEST__USD", "lots")],
)
def test_a_wrong_limit_stops_the_start(key: str, value: str) -> None:
    with pytest.raises(ConfigError, match="0 or more"):
        load_settings(None, {f"TRIVET_LIMITS__{key}": value})


def test_limits_can_stand_in_the_file(tmp_path: Path) -> None:
    path = tmp_path / "limits.toml"
    path.write_text("[limits.user]\nusd = 1\n[limits.admin]\nusd = 0.0\n[memory]\nenabled = false\n")
    path.chmod(0o600)
    settings = load_settings(path, {}).settings
    assert settings.limits.caps_of(GrantRole.MEMBER) == Caps(nano_usd=1_000_000_000)
    assert settings.limits.caps_of(GrantRole.GUEST) == replace(GUESTS, nano_usd=1_000_000_000)
    assert settings.limits.caps_of(GrantRole.ADMIN).are_open
    assert not settings.memory.enabled
