"""The settings of channels: accounts by name, what each way of listening needs, and what cannot go together."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from channels.__main__ import chosen
from gateway.config import hook_path, hook_url, load_settings, own_hosts, settings_secrets, table_of, webhook_host
from gateway.config.access import AccessSettings
from gateway.config.show import as_table
from gateway.contracts.access import TERMINAL, Admittance, PlacePolicy, StrangerRule, admit
from gateway.contracts.errors import ConfigError
from gateway.contracts.ids import SessionKey
from gateway.contracts.sessions import GrantRole
from gateway.ops.supervisor.plan import for_agent

KEY = "ab" * 32


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where no file is."""
    monkeypatch.chdir(tmp_path)


def write(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "trivet.toml"
    path.write_text(text)
    path.chmod(0o600)
    return path


def test_an_account_is_a_channel_with_a_name_of_its_own(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        '[channels.telegram]\ntoken = "1:main"\n'
        '[channels.telegram.accounts.support]\ntoken = "2:second"\nplaceholder = "never"\n'
        '[channels.telegram.accounts.idle]\nenabled = false\ntoken = "3:third"\n',
    )
    loaded = load_settings(path, {"TRIVET_CHANNELS__SLACK__ACCOUNTS__SALES__BOT_TOKEN": "xoxb-only"})
    channels = loaded.settings.channels
    assert loaded.warnings == ()
    assert channels.enabled_names == ("telegram", "telegram.support")
    assert channels.telegrams()["telegram.support"].placeholder == "never"
    assert channels.each()["slack.sales"].missing == ("app_token",)
    assert chosen(loaded.settings, ("telegram.support",)) == ("telegram.support",)


def test_secrets_of_accounts_are_secrets(tmp_path: Path) -> None:
    path = write(tmp_path, '[channels.telegram.accounts.support]\ntoken = "2:quiet-as-a-mouse"\n')
    loaded = load_settings(path, {"TRIVET_CHANNELS__DISCORD__ACCOUNTS__GAMES__TOKEN": "quiet-as-a-cat"})
    assert {"2:quiet-as-a-mouse", "quiet-as-a-cat"} <= set(settings_secrets(loaded.settings))
    assert "quiet" not in as_table(loaded)
    assert "quiet" not in repr(loaded)


def test_a_role_without_tokens_still_knows_which_accounts_there_are() -> None:
    """The agent says in its prompt which channels are connected."""
    environ = {"TRIVET_CHANNELS__TELEGRAM__ACCOUNTS__SUPPORT__TOKEN": "2:quiet"}
    names = load_settings(None, environ).settings.channels.enabled_names
    passed_on = for_agent(environ, {}, channels=names)
    assert "2:quiet" not in passed_on.values()
    assert load_settings(None, passed_on).settings.channels.enabled_names == ("telegram.support",)


@pytest.mark.parametrize("name", ["Support", "two words", "ünder", "_x", "a__b", "x" * 33])
def test_a_name_that_fits_into_no_key_is_refused(tmp_path: Path, name: str) -> None:
    path = write(tmp_path, f'[channels.telegram.accounts."{name}"]\ntoken = "1:quiet"\n')
    with pytest.raises(ConfigError, match="accounts must be") as caught:
        load_settings(path, {})
    assert "quiet" not in str(caught.value)


@pytest.mark.parametrize(
    ("environ", "key"),
    [
        ({"TELEGRAM__TOKEN": "1:x", "TELEGRAM__MODE": "webhook"}, "channels.telegram.mode"),
        (
            {"TELEGRAM__ACCOUNTS__B__TOKEN": "1:x", "TELEGRAM__ACCOUNTS__B__MODE": "webhook"},
            "channels.telegram.accounts.b.mode",
        ),
        ({"SLACK__BOT_TOKEN": "xoxb", "SLACK__SIGNING_SECRET": "s", "SLACK__MODE": "events"}, "channels.slack.mode"),
        (
            {"DISCORD__TOKEN": "t", "DISCORD__PUBLIC_KEY": KEY, "DISCORD__INTERACTIONS": "http"},
            "channels.discord.interactions",
        ),
    ],
)
def test_who_is_called_has_to_say_how_he_is_reached(environ: dict[str, str], key: str) -> None:
    given = {f"TRIVET_CHANNELS__{name}": value for name, value in environ.items()}
    with pytest.raises(ConfigError, match=f"{key} needs http.public_url"):
        load_settings(None, given)
    settings = load_settings(None, given | {"TRIVET_HTTP__PUBLIC_URL": "https://bot.example/"}).settings
    assert list(settings.channels.called()) == [key]


@pytest.mark.parametrize(
    ("environ", "missing"),
    [
        ({"TRIVET_CHANNELS__SLACK__MODE": "events", "TRIVET_CHANNELS__SLACK__ENABLED": "true"}, "signing_secret"),
        ({"TRIVET_CHANNELS__DISCORD__INTERACTIONS": "http", "TRIVET_CHANNELS__DISCORD__ENABLED": "true"}, "public_key"),
    ],
)
def test_a_mode_names_what_it_lacks(environ: dict[str, str], missing: str) -> None:
    settings = load_settings(None, environ | {"TRIVET_HTTP__PUBLIC_URL": "https://bot.example"}).settings
    with pytest.raises(ConfigError, match=missing):
        chosen(settings, ())


def test_one_process_speaks_to_one_discord() -> None:
    """The SDK keeps the address in a class."""
    environ = {"TRIVET_CHANNELS__DISCORD__TOKEN": "one", "TRIVET_CHANNELS__DISCORD__ACCOUNTS__GAMES__TOKEN": "two"}
    load_settings(None, environ)
    environ["TRIVET_CHANNELS__DISCORD__ACCOUNTS__GAMES__API_BASE"] = "https://elsewhere.example/api/v10"
    with pytest.raises(ConfigError, match="api_base"):
        load_settings(None, environ)


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("DISCORD__PUBLIC_KEY", "not a key"),
        ("SLACK__CONNECTIONS", "11"),
        ("SLACK__PROXY", "socks5://127.0.0.1:1080"),
        ("TELEGRAM__PROXY", "ftp://127.0.0.1"),
        ("DISCORD__SHARDS", "-1"),
    ],
)
def test_values_that_cannot_work_are_refused(variable: str, value: str) -> None:
    with pytest.raises(ConfigError, match="must be"):
        load_settings(None, {f"TRIVET_CHANNELS__{variable}": value})


def test_each_account_has_a_place_where_it_is_called() -> None:
    settings = load_settings(None, {"TRIVET_HTTP__PUBLIC_URL": "https://bot.example/"}).settings
    assert (hook_path("telegram"), table_of("telegram")) == ("/webhooks/telegram", "channels.telegram")
    assert hook_url(settings, "telegram.support") == "https://bot.example/webhooks/telegram/support"
    assert table_of("telegram.support") == "channels.telegram.accounts.support"


@pytest.mark.parametrize(
    ("http", "listens", "hosts"),
    [
        ({}, "127.0.0.1", {"127.0.0.1"}),
        ({"HOST": "0.0.0.0"}, "0.0.0.0", {"0.0.0.0"}),
        (
            {"HOST": "Office.lan", "WEBHOOK_HOST": "::", "PUBLIC_URL": "https://Bot.example:8443/hooks"},
            "::",
            {"office.lan", "::", "bot.example"},
        ),
        ({"HOSTS": '["Trivet.example.org", "admin"]'}, "127.0.0.1", {"127.0.0.1", "trivet.example.org", "admin"}),
    ],
)
def test_both_ports_answer_to_the_names_that_the_configuration_has(
    http: dict[str, str], listens: str, hosts: set[str]
) -> None:
    settings = load_settings(None, {f"TRIVET_HTTP__{name}": value for name, value in http.items()}).settings
    assert webhook_host(settings) == listens
    assert own_hosts(settings) == hosts


@pytest.mark.parametrize("name", ["https://trivet.example.org", "trivet.example.org:443", "*.example.org", "", "a b"])
def test_a_name_is_no_address_and_no_pattern(name: str) -> None:
    with pytest.raises(ConfigError, match="names without scheme and port"):
        load_settings(None, {"TRIVET_HTTP__HOSTS": json.dumps([name])})


@pytest.mark.parametrize("rule", StrangerRule)
def test_whoever_sits_at_the_terminal_is_let_in_whatever_strangers_may(rule: StrangerRule) -> None:
    """The terminal's own door decides; an agent that took him for a stranger would end what works for him, and wake
    him never. He is an admin: whoever may start `trivet chat` may let anybody in and read all that is kept."""
    policy = AccessSettings(default=rule).policy
    assert admit(TERMINAL, None, policy, PlacePolicy()) is Admittance.ADMITTED
    assert policy.role_of(TERMINAL, None) is GrantRole.ADMIN
    stranger = admit(SessionKey.parse("telegram:1"), None, policy, PlacePolicy())
    assert (stranger is Admittance.ADMITTED) is (rule is StrangerRule.OPEN)
