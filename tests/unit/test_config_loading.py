"""Configuration: the file, the environment over it, and what a wrong value says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from gateway.config import QueueMode, database_url, load_settings
from gateway.config.catalog import catalog
from gateway.config.loader import lines_of_keys
from gateway.config.presets import PRESETS, Preset
from gateway.contracts.access import StrangerRule
from gateway.contracts.errors import ConfigError
from gateway.contracts.ids import SessionKey, SessionScope


def write(tmp_path: Path, text: str) -> Path:
    """A configuration file that only its owner may read."""
    path = tmp_path / "trivet.toml"
    path.write_text(text)
    path.chmod(0o600)
    return path


def refusal(path: Path | None, environ: dict[str, str] | None = None) -> str:
    """The sentence with which loading ends."""
    with pytest.raises(ConfigError) as caught:
        load_settings(path, environ or {})
    return str(caught.value)


def test_defaults_are_those_of_the_product_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    settings = load_settings(None, {}).settings
    assert settings.data_dir == Path.home() / ".local/share/trivet"
    assert (settings.redis.url, settings.database.url) == ("", "")
    assert database_url(settings) == f"sqlite+aiosqlite:///{settings.data_dir}/trivet.db"
    assert (settings.http.host, settings.http.port, settings.http.webhook_port) == ("127.0.0.1", 8420, 8421)
    assert settings.http.admin_token is None
    assert settings.agent.model == "demo/scripted"
    assert (settings.agent.processes, settings.agent.concurrency) == (1, 512)
    assert settings.channels.telegram.api_base == "https://api.telegram.org"
    assert settings.channels.telegram.mode == "polling"
    assert settings.channels.discord.api_base == "https://discord.com/api/v10"
    assert settings.channels.discord.gateway_url == ""
    assert settings.channels.slack.api_base == "https://slack.com/api/"
    assert settings.channels.slack.mode == "socket"
    assert settings.channels.enabled_names == ()
    assert settings.access.admins == ()
    assert settings.access.default is StrangerRule.PAIRING
    assert settings.session.scope is SessionScope.PLACE
    assert settings.queue.mode is QueueMode.COLLECT
    assert settings.queue.settle_ms == 0


def test_the_environment_wins_over_the_file_and_each_value_knows_its_source(tmp_path: Path) -> None:
    path = write(tmp_path, '[http]\nhost = "0.0.0.0"\nport = 9000\n')
    loaded = load_settings(path, {"TRIVET_HTTP__PORT": "9001"})
    assert (loaded.settings.http.host, loaded.settings.http.port) == ("0.0.0.0", 9001)
    assert loaded.sources["http.host"] == f"{path} line 2"
    assert loaded.sources["http.port"] == "TRIVET_HTTP__PORT"
    assert loaded.sources["http.webhook_port"] == "default"
    assert loaded.warnings == ()


def test_an_empty_variable_counts_as_not_set(tmp_path: Path) -> None:
    path = write(tmp_path, "[http]\nport = 9000\n")
    assert load_settings(path, {"TRIVET_HTTP__PORT": ""}).settings.http.port == 9000


def test_every_setting_has_a_variable_with_two_underscores_for_each_dot() -> None:
    assert catalog()["channels.telegram.api_base"].variable == "TRIVET_CHANNELS__TELEGRAM__API_BASE"
    assert catalog()["data_dir"].variable == "TRIVET_DATA_DIR"


def test_every_setting_is_described() -> None:
    assert [key for key, setting in catalog().items() if not setting.description] == []


@pytest.mark.parametrize("text", ['["telegram:1", "slack:U1/C1"]', "telegram:1, slack:U1/C1"])
def test_a_list_in_a_variable_is_json_or_parted_by_commas(text: str) -> None:
    admins = load_settings(None, {"TRIVET_ACCESS__ADMINS": text}).settings.access.admins
    assert admins == (SessionKey("telegram", "1"), SessionKey("slack", "U1", ("C1",)))


@pytest.mark.parametrize(
    ("text", "line", "key", "expected", "found"),
    [
        ('[http]\nport = "8420"', 2, "http.port", "a whole number from 1 to 65535", '"8420"'),
        ("[http]\nport = true", 2, "http.port", "a whole number from 1 to 65535", "true"),
        ("http.port = 70000", 1, "http.port", "a whole number from 1 to 65535", "70000"),
        ("\n\ndata_dir = 3", 3, "data_dir", "a path", "3"),
        ('[queue]\nmode = "pile"', 2, "queue.mode", "one of collect, steer, interrupt", '"pile"'),
        ('[session]\nscope = "all"', 2, "session.scope", "one of place, user, shared", '"all"'),
        ('[log]\nas_json = "yes"', 2, "log.as_json", "true or false", '"yes"'),
        ('[access]\nadmins = [\n "nobody"]', 2, "access.admins", "a list of session keys", '["nobody"]'),
        ("[http.port]\nx = 1", 2, "http.port", "a whole number", "a table"),
        ("http = 3", 1, "http", "a table", "a value"),
        ("[agent]\ncontext_window = 5", 2, "agent.context_window", "a whole number, 1024 or more", "5"),
        ('[channels.telegram]\nmode = "push"', 2, "channels.telegram.mode", "one of polling, webhook", '"push"'),
        ('[redis]\nurl = "mysql://x"', 2, "redis.url", "rediss://", "mysql://"),
        ("[queue]\nmode = 2020-01-01", 2, "queue.mode", "one of collect", "2020-01-01"),
    ],
)
def test_a_wrong_value_names_file_line_key_expectation_and_finding(
    tmp_path: Path, text: str, line: int, key: str, expected: str, found: str
) -> None:
    path = write(tmp_path, text)
    message = refusal(path)
    assert message.startswith(f"{path} line {line}: {key} must be ")
    assert expected in message
    assert message.endswith("was found")
    assert found in message
    assert "\n" not in message


def test_a_wrong_variable_is_named(tmp_path: Path) -> None:
    message = refusal(write(tmp_path, ""), {"TRIVET_AGENT__PROCESSES": "many"})
    assert (
        message == "TRIVET_AGENT__PROCESSES: agent.processes must be a whole number from 0 to 64, but 'many' was found"
    )


def test_broken_toml_names_file_and_line(tmp_path: Path) -> None:
    path = write(tmp_path, "[http]\nport = = 3\n")
    message = refusal(path)
    assert message.startswith(f"{path} is not valid TOML")
    assert "line 2" in message


def test_a_file_that_is_not_utf_8_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "trivet.toml"
    path.write_bytes(b'data_dir = "\xff"')
    assert "is not UTF-8" in refusal(path)


def test_a_missing_file_that_was_asked_for_is_refused(tmp_path: Path) -> None:
    absent = tmp_path / "absent.toml"
    assert "named by --config, is not a file" in refusal(absent)
    assert "named by TRIVET_CONFIG, is not a file" in refusal(None, {"TRIVET_CONFIG": str(absent)})


def test_the_file_is_the_named_one_else_the_variable_else_the_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    named = write(tmp_path, "[http]\nport = 1001\n")
    assert load_settings(None, {}).path is None
    (tmp_path / "here" / "trivet.toml").write_text("[http]\nport = 1002\n")
    assert load_settings(None, {}).settings.http.port == 1002
    assert load_settings(None, {"TRIVET_CONFIG": str(named)}).settings.http.port == 1001
    assert load_settings(named, {"TRIVET_CONFIG": "nowhere.toml"}).settings.http.port == 1001


def test_unknown_settings_warn_with_the_nearest_known_name(tmp_path: Path) -> None:
    path = write(tmp_path, '[chanels.telegram]\ntoken = "x"\n[zzz]\nqqq = 1\n')
    warnings = load_settings(path, {"TRIVET_HTTP__PRT": "1", "TRIVET_AGENT_MODEL": "x"}).warnings
    assert warnings == (
        f"unknown setting chanels.telegram.token in {path} line 2 is ignored: did you mean channels.telegram.token?",
        f"unknown setting zzz.qqq in {path} line 4 is ignored: `trivet config schema` lists the known ones",
        "unknown setting TRIVET_HTTP__PRT in the environment is ignored: did you mean TRIVET_HTTP__PORT?",
        "unknown setting TRIVET_AGENT_MODEL in the environment is ignored: did you mean TRIVET_AGENT__MODEL?",
    )


def test_settings_are_frozen() -> None:
    settings = load_settings(None, {}).settings
    with pytest.raises(ValidationError):
        settings.http.port = 1


def test_webhooks_need_a_public_address_and_a_port_of_their_own(tmp_path: Path) -> None:
    path = write(tmp_path, '[channels.telegram]\ntoken = "1:a"\nmode = "webhook"\n')
    assert refusal(path).startswith(f"{path} line 3: channels.telegram.mode needs http.public_url")
    environ = {"TRIVET_HTTP__PUBLIC_URL": "https://bot.example", "TRIVET_HTTP__PORT": "8421"}
    assert "are both 8421" in refusal(path, environ)


def test_addresses_are_brought_into_one_form() -> None:
    environ = {
        "TRIVET_CHANNELS__TELEGRAM__API_BASE": "http://127.0.0.1:1/",
        "TRIVET_CHANNELS__DISCORD__API_BASE": "http://127.0.0.1:1/api/v10/",
        "TRIVET_CHANNELS__SLACK__API_BASE": "http://127.0.0.1:1/api",
    }
    channels = load_settings(None, environ).settings.channels
    assert channels.telegram.api_base == "http://127.0.0.1:1"
    assert channels.discord.api_base == "http://127.0.0.1:1/api/v10"
    assert channels.slack.api_base == "http://127.0.0.1:1/api/"


@pytest.mark.parametrize(
    ("environ", "enabled"),
    [
        ({}, ()),
        ({"TRIVET_CHANNELS__TELEGRAM__TOKEN": "1:a"}, ("telegram",)),
        ({"TRIVET_CHANNELS__TELEGRAM__TOKEN": "1:a", "TRIVET_CHANNELS__TELEGRAM__ENABLED": "false"}, ()),
        ({"TRIVET_CHANNELS__SLACK__BOT_TOKEN": "xoxb"}, ()),
        ({"TRIVET_CHANNELS__SLACK__BOT_TOKEN": "xoxb", "TRIVET_CHANNELS__SLACK__APP_TOKEN": "xapp"}, ("slack",)),
        ({"TRIVET_CHANNELS__DISCORD__ENABLED": "true"}, ("discord",)),
    ],
)
def test_a_channel_is_enabled_by_its_tokens_unless_told_otherwise(
    environ: dict[str, str], enabled: tuple[str, ...]
) -> None:
    assert load_settings(None, environ).settings.channels.enabled_names == enabled


@pytest.mark.parametrize(
    ("environ", "model"),
    [
        ({}, "demo/scripted"),
        ({"OPENAI_API_KEY": ""}, "demo/scripted"),
        ({"OPENAI_API_KEY": "k"}, "openai/gpt-5.4-mini"),
        ({"ANTHROPIC_API_KEY": "k"}, "anthropic/claude-sonnet-4-6"),
        ({"TRIVET_AGENT__MODEL": "gpt-5.4"}, "gpt-5.4"),
    ],
)
def test_the_model_follows_the_key_that_is_there(environ: dict[str, str], model: str) -> None:
    assert load_settings(None, environ).settings.agent.model == model


_names = st.from_regex(re.compile(r"[a-z]{1,6}"), fullmatch=True)


@given(st.lists(st.tuples(_names, _names, st.sampled_from(["1", '"x"', "[\n1,\n2]", '"""a\n[b]\nc = 1\n"""']))))
def test_every_key_is_found_in_the_line_where_it_was_written(rows: list[tuple[str, str, str]]) -> None:
    lines: list[str] = []
    expected: dict[str, int] = {}
    for number, (table, name, value) in enumerate(rows):
        lines += ["# a comment", f"[{table}{number}]"]
        expected[f"{table}{number}"] = len(lines)
        lines.append(f"{name} = {value}")
        expected[f"{table}{number}.{name}"] = len(lines)
        lines = "\n".join(lines).split("\n")
    assert lines_of_keys("\n".join(lines)) == expected


def test_a_preset_gives_defaults_and_yields_to_what_is_set(tmp_path: Path) -> None:
    """In the file or the environment; each setting says where it comes from."""
    path = write(tmp_path, 'preset = "team"\n[session]\nidle_hours = 5\n')
    loaded = load_settings(path, {"TRIVET_LIMITS__MEMBER__USD": "3"})
    settings = loaded.settings
    assert (settings.session.idle_hours, settings.limits.member.usd) == (5, 3.0)
    assert settings.tools.web.engine == "ddgs"
    assert loaded.sources["tools.policy"] == "default of preset team"
    assert loaded.sources["session.idle_hours"] == f"{path} line 3"
    assert load_settings(None, {"TRIVET_PRESET": "me"}).settings.session.idle_hours == 72
    assert refusal(None, {"TRIVET_PRESET": "all"}).endswith("one of me, team, community, but 'all' was found")


@pytest.mark.parametrize("preset", Preset)
def test_every_preset_is_made_of_settings_with_fitting_values(preset: Preset) -> None:
    for key, value in PRESETS[preset].items():
        assert catalog()[key].adapter.validate_python(value) == value
