"""The supervisor's decisions: when a role starts again, and what each process may know."""

from __future__ import annotations

import io
import json
import re
import subprocess
import sys
from typing import Any

import pytest
import structlog
from hypothesis import given
from hypothesis import strategies as st

from gateway.config import load_settings
from gateway.limits import HAND_OVER_S, SHUTDOWN_GRACE_S
from gateway.ops.supervisor.__main__ import EventLog
from gateway.ops.supervisor.plan import UpOptions, for_admin, for_agent, for_channels, plan
from gateway.ops.supervisor.watch import DELAY_MAX_S, FIRST_DELAY_S, STEADY_AFTER_S, NoRestart, RestartAfter, Restarts
from gateway.scrub import Scrubber
from gateway.telemetry.logs import configure_logs
from tests.parts.logs import logging_put_back
from tests.scrubbing import draw

ENVIRONMENT = {
    "PATH": "/bin",
    "HOME": "/home/me",
    "https_proxy": "http://proxy",
    "OPENAI_API_KEY": "sk-1",
    "AWS_SECRET_ACCESS_KEY": "aws",
    "MY_DATABASE": "mine",
    "TRIVET_DATA_DIR": "/data",
    "TRIVET_AGENT__API_KEY": "sk-2",
    "TRIVET_AGENT__MODEL": "openai/x",
    "TRIVET_CHANNELS__TELEGRAM__TOKEN": "1:a",
    "TRIVET_CHANNELS__TELEGRAM__API_BASE": "http://127.0.0.1:1",
    "TRIVET_DATABASE__URL": "sqlite+aiosqlite:////data/x.db",
    "TRIVET_HTTP__ADMIN_TOKEN": "operator" * 4,
    "TRIVET_MODELS__FAST__API_KEY": "sk-3",
    "TRIVET_SCRUB__VAULT__KEY": "vault" * 8,
    "TRIVET_TELEMETRY__OTLP_HEADERS": "Authorization=Bearer collector",
    "TRIVET_TOOLS__DATABASES": "shop=postgresql+asyncpg://reader:word@host/shop",
    "TRIVET_TOOLS__MCP_SECRETS": "docs.Authorization=Bearer docs",
    "TRIVET_TOOLS__WEB__KEY": "search",
}
OF_THE_AGENT = {
    "OPENAI_API_KEY",
    "AWS_SECRET_ACCESS_KEY",
    "MY_DATABASE",
    "TRIVET_AGENT__API_KEY",
    "TRIVET_MODELS__FAST__API_KEY",
    "TRIVET_TELEMETRY__OTLP_HEADERS",
    "TRIVET_TOOLS__DATABASES",
    "TRIVET_TOOLS__MCP_SECRETS",
    "TRIVET_TOOLS__WEB__KEY",
}
"""What neither the channels nor the admin role is told."""

GIVEN = {"TRIVET_REDIS__URL": "unix:///data/s.sock"}


def delays(codes: list[int], *, alive_s: float = 0.0, chance: float = 0.5) -> list[float]:
    """The delays after a row of deaths."""
    restarts, found = Restarts(), []
    for code in codes:
        restarts, verdict = restarts.after(code=code, alive_s=alive_s, chance=chance)
        assert isinstance(verdict, RestartAfter)
        found.append(verdict.delay_s)
    return found


def test_the_delay_doubles_up_to_half_a_minute() -> None:
    assert delays([1] * 10) == [0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 30.0, 30.0]


def test_a_steady_life_forgives_earlier_deaths() -> None:
    restarts = Restarts(in_a_row=7)
    after, verdict = restarts.after(code=1, alive_s=STEADY_AFTER_S, chance=0.5)
    assert after == Restarts(1)
    assert verdict == RestartAfter(FIRST_DELAY_S)


@pytest.mark.parametrize("code", [0, 1, -9, -15, 70])
def test_any_death_but_one_is_worth_another_try(code: int) -> None:
    assert delays([code]) == [FIRST_DELAY_S]


def test_a_wrong_configuration_is_not_tried_again() -> None:
    assert Restarts().after(code=2, alive_s=0.1, chance=0.5)[1] == NoRestart()


@given(st.lists(st.sampled_from([0, 1, -9]), max_size=50), st.floats(0, 0.999), st.floats(0, 1e6))
def test_every_delay_stays_between_its_bounds(codes: list[int], chance: float, alive_s: float) -> None:
    assert all(FIRST_DELAY_S <= delay <= DELAY_MAX_S for delay in delays(codes, alive_s=alive_s, chance=chance))


def test_chance_parts_roles_that_died_together() -> None:
    assert delays([1, 1, 1], chance=0.0) < delays([1, 1, 1], chance=0.9)


def test_the_agent_sees_no_token_of_a_channel_and_none_of_the_operator() -> None:
    seen = for_agent(ENVIRONMENT, GIVEN, channels=("telegram",))
    assert [name for name in seen if name.startswith("TRIVET_CHANNELS__")] == ["TRIVET_CHANNELS__TELEGRAM__ENABLED"]
    assert "TRIVET_HTTP__ADMIN_TOKEN" not in seen
    assert seen.keys() >= OF_THE_AGENT
    assert seen["TRIVET_REDIS__URL"] == GIVEN["TRIVET_REDIS__URL"]


def test_the_channels_see_no_model_key_no_database_and_nothing_we_do_not_know() -> None:
    seen = for_channels(ENVIRONMENT, GIVEN)
    hidden = OF_THE_AGENT | {"TRIVET_DATABASE__URL", "TRIVET_HTTP__ADMIN_TOKEN"}
    assert seen.keys() == (ENVIRONMENT.keys() | GIVEN.keys()) - hidden


def test_the_admin_knows_which_channels_there_are_but_none_of_their_tokens() -> None:
    seen = for_admin(ENVIRONMENT, GIVEN, channels=("telegram",))
    assert [name for name in seen if name.startswith("TRIVET_CHANNELS__")] == ["TRIVET_CHANNELS__TELEGRAM__ENABLED"]
    assert load_settings(None, seen).settings.channels.enabled_names == ("telegram",)
    assert seen["TRIVET_HTTP__ADMIN_TOKEN"] == "operator" * 4
    assert not seen.keys() & (OF_THE_AGENT | {"TRIVET_SCRUB__VAULT__KEY"})


def test_the_plan_stops_intake_first_and_the_operator_s_side_last() -> None:
    settings = load_settings(None, ENVIRONMENT | {"TRIVET_AGENT__PROCESSES": "3"}).settings
    made = plan(UpOptions.of_settings(settings, ()), ENVIRONMENT, GIVEN)
    assert [(role.name, role.processes) for role in made.roles] == [("channels", 1), ("agent", 3), ("admin", 1)]
    assert "sk-1" not in repr(made)


def test_an_agent_is_given_the_time_it_gives_its_turns_and_some_to_hand_over_the_rest() -> None:
    """Killed before that, its turns would count as failed runs."""
    made = plan(UpOptions.of_settings(load_settings(None, ENVIRONMENT).settings, ()), ENVIRONMENT, GIVEN)
    (agent,) = made.only("agent").roles
    assert agent.grace_s >= SHUTDOWN_GRACE_S + HAND_OVER_S


@pytest.mark.parametrize("as_json", [True, False])
def test_its_lines_look_like_those_of_its_roles(as_json: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    facts: dict[str, Any] = {"role": "agent", "ended": "exit code 1", "again_in_s": 0.2, "error": "a b"}
    roles, own = io.StringIO(), io.StringIO()
    with logging_put_back():
        configure_logs(Scrubber(), as_json=as_json, output=roles)
        structlog.get_logger("trivet.up").info("role ended by itself", **facts)
    monkeypatch.setattr(sys, "__stderr__", own)
    EventLog("info", as_json=as_json)("role ended by itself", **facts)
    first, second = (re.sub(r"\d{4}-\d\d-\d\dT[\d:.]{15}Z", "NOW", each.getvalue()) for each in (roles, own))
    assert "NOW" in first
    assert first == second


def test_what_an_error_says_is_scrubbed(monkeypatch: pytest.MonkeyPatch) -> None:
    secret, own = draw("ghp_<base62:36>", seed=22), io.StringIO()
    monkeypatch.setattr(sys, "__stderr__", own)
    EventLog("info", as_json=True)("valkey does not start", error=f"cannot run {secret}")
    EventLog("warning", as_json=True)("role started", role="agent")
    assert json.loads(own.getvalue())["error"].startswith("cannot run [redacted:")


def test_the_supervisor_lives_without_what_its_roles_need() -> None:
    program = "import gateway.ops.supervisor.__main__, sys; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.split()
    heavy = {"structlog", "pydantic", "redis", "sqlalchemy", "gateway.scrub", "gateway.contracts.messages", "rich"}
    assert not heavy & set(loaded)
