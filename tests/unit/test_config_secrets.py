"""Secrets of the configuration: never shown, known to the scrubber, kept from other users."""

from __future__ import annotations

import ast
import base64
import itertools
import json
import random
import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import quote, quote_plus

import pytest

from gateway.config import (
    Settings,
    admin_token,
    load_settings,
    masked_url,
    placeholder_key,
    settings_secrets,
    vault_key,
)
from gateway.config.catalog import catalog, value_of
from gateway.config.secrets import environment_secrets, names_a_secret
from gateway.contracts.errors import ConfigError
from gateway.scrub import Scrubber, scrub
from tests.scrubbing import draw

ROOT = Path(__file__).parents[2]
TOKEN = "123456:veryveryquiet"


def test_secrets_are_not_in_the_text_of_settings() -> None:
    environ = {"TRIVET_CHANNELS__TELEGRAM__TOKEN": TOKEN, "TRIVET_AGENT__API_KEY": "quiet-key"}
    loaded = load_settings(None, environ)
    assert TOKEN not in repr(loaded)
    assert "quiet-key" not in str(loaded)


def test_a_wrong_secret_or_url_is_not_in_the_message(tmp_path: Path) -> None:
    path = tmp_path / "trivet.toml"
    for text in ("[channels.telegram]\ntoken = [123454321]", '[redis]\nurl = "mysql://u:123454321@host"'):
        path.write_text(text)
        with pytest.raises(ConfigError) as caught:
            load_settings(path, {})
        assert "123454321" not in str(caught.value)
        assert "line 2" in str(caught.value)


def test_all_secret_values_are_handed_to_the_scrubber() -> None:
    environ = {
        "TRIVET_CHANNELS__TELEGRAM__TOKEN": TOKEN,
        "TRIVET_CHANNELS__SLACK__SIGNING_SECRET": "sign",
        "TRIVET_DATABASE__URL": "postgresql+asyncpg://trivet:p%40ss@db/trivet",
        "TRIVET_REDIS__URL": "redis://:hush@redis:6379/0",
        "OPENAI_API_KEY": "sk-openai",
        "PATH": "/bin",
    }
    loaded = load_settings(None, environ)
    assert set(settings_secrets(loaded.settings)) == {TOKEN, "sign", "p@ss", "p%40ss", "hush"}
    assert set(loaded.secrets) == {TOKEN, "sign", "p@ss", "p%40ss", "hush", "sk-openai"}


def test_a_password_is_masked_in_a_url() -> None:
    assert masked_url("redis://user:hush@host:1/0") == "redis://user:***@host:1/0"
    assert masked_url("redis://:hush@host") == "redis://:***@host"
    assert masked_url("redis+sentinel://:hush@a,b/x?sentinel_username=w&sentinel_password=hush") == (
        "redis+sentinel://:***@a,b/x?sentinel_username=w&sentinel_password=***"
    )
    assert masked_url("redis://host:6379") == "redis://host:6379"


def test_a_file_with_secrets_that_others_may_read_gives_a_warning(tmp_path: Path) -> None:
    path = tmp_path / "trivet.toml"
    path.write_text(f'[channels.telegram]\ntoken = "{TOKEN}"\n')
    path.chmod(0o644)
    assert load_settings(path, {}).warnings == (f"{path} holds secrets and others may read it: run `chmod 600 {path}`",)
    path.chmod(0o600)
    assert load_settings(path, {}).warnings == ()
    path.write_text("[http]\nport = 9000\n")
    path.chmod(0o644)
    assert load_settings(path, {}).warnings == ()


def test_the_admin_token_is_made_once_and_only_its_owner_may_read_it(tmp_path: Path) -> None:
    settings = load_settings(None, {"TRIVET_DATA_DIR": str(tmp_path / "new")}).settings
    token = admin_token(settings)
    assert len(token) >= 32
    assert admin_token(settings) == token
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["admin-token"]
    assert (tmp_path / "new" / "admin-token").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("kept", [admin_token, placeholder_key, vault_key])
def test_whoever_starts_at_the_same_time_gets_the_same_secret(tmp_path: Path, kept: Callable[[Settings], str]) -> None:
    settings = load_settings(None, {"TRIVET_DATA_DIR": str(tmp_path / "new")}).settings
    with ThreadPoolExecutor(8) as pool:
        assert len(set(pool.map(kept, [settings] * 24))) == 1
    (path,) = (tmp_path / "new").iterdir()
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_key_that_could_be_guessed_is_refused() -> None:
    for name in ("PLACEHOLDER_KEY", "VAULT__KEY"):
        with pytest.raises(ConfigError, match="at least 32 characters"):
            load_settings(None, {f"TRIVET_SCRUB__{name}": "password"})
    long_enough = "0123456789abcdef" * 2
    settings = load_settings(None, {"TRIVET_SCRUB__PLACEHOLDER_KEY": long_enough}).settings
    assert placeholder_key(settings) == long_enough
    assert long_enough in settings_secrets(settings)


def test_hosts_of_the_vault_are_origins_in_one_spelling() -> None:
    given = "api.example.com, HTTPS://Api.Example.com:443/, http://10.0.0.5:8080"
    settings = load_settings(None, {"TRIVET_SCRUB__VAULT__HOSTS": given}).settings
    assert settings.scrub.vault.hosts == ("https://api.example.com", "https://api.example.com", "http://10.0.0.5:8080")
    for wrong in ("*.example.com", "https://user@example.com", "ftp://example.com", "example.com/path", "https://"):
        with pytest.raises(ConfigError, match="a list of hosts"):
            load_settings(None, {"TRIVET_SCRUB__VAULT__HOSTS": wrong})


def test_a_configured_admin_token_is_taken_and_no_file_is_written(tmp_path: Path) -> None:
    token = "mine" * 8
    environ = {"TRIVET_DATA_DIR": str(tmp_path), "TRIVET_HTTP__ADMIN_TOKEN": token}
    assert admin_token(load_settings(None, environ).settings) == token
    assert list(tmp_path.iterdir()) == []


def test_an_empty_token_file_is_never_taken_for_a_token(tmp_path: Path) -> None:
    (tmp_path / "admin-token").write_text("\n")
    with pytest.raises(ConfigError, match="is empty: delete it"):
        admin_token(load_settings(None, {"TRIVET_DATA_DIR": str(tmp_path)}).settings)


def test_a_data_directory_that_cannot_be_made_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="make data_dir writable"):
        admin_token(load_settings(None, {"TRIVET_DATA_DIR": str(tmp_path / "file" / "below")}).settings)


def readers_of_the_environment(source: str) -> list[int]:
    """Lines of a module that touch `os.environ` or `os.getenv`."""
    found: list[int] = []
    if not re.search("environ|getenv|putenv", source):
        return found
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Attribute) and node.attr in {"environ", "environb", "getenv", "putenv"}:
            found.append(node.lineno)
        if isinstance(node, ast.ImportFrom) and node.module == "os":
            found += [node.lineno for alias in node.names if alias.name in {"environ", "getenv"}]
    return found


OTHER_READERS = {
    "gateway/bus/embedded.py": "asks the system for its runtime directory",
    "agent/models/litellm_import.py": "tells litellm what it takes in no other way",
    "agent/models/provider_calls.py": "reads what litellm would read",
    "gateway/ops/supervisor/__main__.py": "hands it on to the roles, without loading the configuration",
    "gateway/ops/supervisor/watch.py": "leaves all that is ours out, before the configuration is loaded",
    "gateway/ops/supervisor/child.py": "puts the role's own in the place of what all roles may know",
    "agent/tools/mcp_confinement.py": "hands an MCP server its own on",
    "channels/slack/client.py": "hides variables that slack-bolt would obey",
}


def test_only_the_configuration_reads_the_environment() -> None:
    """Let off are the emulators, which stand for somebody else's machines, and libraries' own wishes."""
    modules = [path for package in ("gateway", "channels", "agent") for path in (ROOT / package).rglob("*.py")]
    readers = {path.relative_to(ROOT).as_posix() for path in modules if readers_of_the_environment(path.read_text())}
    ours = {path for path in readers if not path.startswith("channels/emulators/")}
    assert ours == {"gateway/config/loader.py", *OTHER_READERS}


def test_the_rule_about_the_environment_sees_a_violation() -> None:
    assert readers_of_the_environment("import os\nhome = os.environ['HOME']\n") == [2]
    assert readers_of_the_environment("from os import getenv\n") == [1]


def test_every_password_of_a_url_is_known_to_the_scrubber() -> None:
    url = "redis+sentinel://:first-hush@a,b/x?sentinel_password=second%2Dhush"
    settings = load_settings(None, {"TRIVET_REDIS__URL": url}).settings
    assert {"first-hush", "second-hush"} <= set(settings_secrets(settings))


@pytest.mark.parametrize(
    "name",
    [
        *("OPENAI_API_KEY", "WATSONX_APIKEY", "HF_TOKEN", "AWS_SECRET_ACCESS_KEY", "PGPASSWORD", "GITHUB_PAT"),
        *(
            "DB_PASS",
            "MQTT_PWD",
            "VERTEX_CREDENTIALS",
            "sentinel_password",
            "X-Api-Key",
            "accessToken",
            "Authorization",
        ),
    ],
)
def test_a_name_says_that_its_value_is_secret(name: str) -> None:
    assert names_a_secret(name)


@pytest.mark.parametrize(
    "name", ["PATH", "MAX_TOKENS", "KEYBOARD", "MONKEY", "SSH_AUTH_SOCK", "SSH_PUBLIC_KEY", "LANG"]
)
def test_a_name_says_nothing_of_a_secret(name: str) -> None:
    assert not names_a_secret(name)


def test_secrets_of_the_environment_are_known_whatever_a_variable_is_called() -> None:
    environ = {
        "HF_TOKEN": "quiet-1",
        "HTTPS_PROXY": "http://proxy-user:quiet-2@proxy:3128",
        "SENTRY_DSN": "https://quiet-3-and-long@sentry.example.org/5",
        "SEARCH": "https://search.example.org/?api_key=quiet-4&q=hello",
        "SSH_KEY": str(ROOT / "pyproject.toml"),
        "HOME": "/root",
    }
    assert set(environment_secrets(environ)) == {"quiet-1", "quiet-2", "quiet-3-and-long", "quiet-4"}


def test_a_password_that_its_address_gives_away_is_a_word() -> None:
    """Hiding it would hide the name of the service in every text."""
    settings = load_settings(None, {"TRIVET_DATABASE__URL": "postgresql+asyncpg://trivet:trivet@db/shop"}).settings
    assert settings_secrets(settings) == ()


def test_what_is_given_to_an_mcp_server_on_its_command_line_is_known() -> None:
    lines = '["a=serve --token quiet-1 --name x", "b=https://host/mcp?key=quiet-2", "c=env API_KEY=quiet-3 serve"]'
    settings = load_settings(None, {"TRIVET_TOOLS__MCP": lines}).settings
    assert settings_secrets(settings) == ("quiet-1", "quiet-2", "quiet-3")
    assert "quiet-2" not in masked_url(lines)


OWNER_CODE = "access.owner_code"
OWNER_DIGEST = f"{'0a1b' * 16}:1795784281860"
"""What that setting takes, and nothing else."""

SECRET_SETTINGS = [key for key, setting in catalog().items() if setting.is_secret]


@pytest.mark.parametrize("key", SECRET_SETTINGS)
def test_every_secret_setting_is_known_by_what_it_says(key: str) -> None:
    """A setting that is added as a secret needs no line anywhere else."""
    quiet = OWNER_DIGEST if key == OWNER_CODE else "quiet-and-unlikely-and-quite-long"
    lines = {
        "webhooks": json.dumps([{"url": "https://a.example", "secret": quiet}]),
        "tools.mcp_secrets": f"a.X={quiet}",
        "tools.databases": f"a=postgresql+asyncpg://u:{quiet}@h/d",
        "telemetry.otlp_headers": f"X={quiet}",
    }
    text = lines.get(key, quiet)
    settings = load_settings(None, {catalog()[key].variable: text}).settings
    assert quiet in settings_secrets(settings)
    assert quiet not in repr(settings)


def test_every_setting_that_may_hold_an_address_gives_its_password_away_to_the_scrubber() -> None:
    quiet = "quiet-and-unlikely-and-quite-long"
    found = 0
    for key, setting in catalog().items():
        for scheme in ("https", "wss", "redis", "postgresql+asyncpg"):
            try:
                settings = load_settings(None, {setting.variable: f"{scheme}://user:{quiet}@host/x"}).settings
            except ConfigError:
                continue
            if isinstance(value_of(settings, key), str | tuple):
                assert quiet in settings_secrets(settings), key
                found += 1
    assert found > 5


def test_a_configured_admin_token_that_can_be_guessed_is_refused_and_not_repeated() -> None:
    with pytest.raises(ConfigError, match=r"http\.admin_token must be empty or a text of at least 32") as refused:
        load_settings(None, {"TRIVET_HTTP__ADMIN_TOKEN": "abcdefgh" * 3 + "1234567"})
    assert "abcdefgh" not in str(refused.value)


def test_an_admin_token_that_somebody_wrote_into_the_file_is_held_to_the_same_length(tmp_path: Path) -> None:
    (tmp_path / "admin-token").write_text("short\n")
    with pytest.raises(ConfigError, match="fewer than 32 characters"):
        admin_token(load_settings(None, {"TRIVET_DATA_DIR": str(tmp_path)}).settings)


def test_those_who_do_not_know_the_generated_admin_token_recognise_it(tmp_path: Path) -> None:
    token = admin_token(load_settings(None, {"TRIVET_DATA_DIR": str(tmp_path)}).settings)
    assert token not in scrub(f"the token is {token}.")
    assert token not in Scrubber().scrub(token)


@pytest.mark.parametrize("seed", range(3))
def test_our_own_secrets_are_hidden_in_every_form_and_in_every_stream(seed: int) -> None:
    """As they are, in base64, percent, JSON and hex; in one piece, and however a stream is cut."""
    rng = random.Random(seed)
    environ = {
        setting.variable: draw('<base62:19>/+ <base62:19>"=', seed=seed)
        for key, setting in catalog().items()
        if setting.is_secret and not setting.is_list and key != OWNER_CODE
    }
    scrubber = Scrubber(load_settings(None, environ).secrets)
    for secret in environ.values():
        data = secret.encode()
        forms = [
            secret, base64.b64encode(data).decode(), base64.urlsafe_b64encode(b"x" + data).decode(), data.hex(),
            quote(secret), quote(secret, safe=""), quote_plus(secret), json.dumps(secret)[1:-1],
        ]  # fmt: skip
        for form in forms:
            text = f"we use {form} here"
            clean = scrubber.scrub(text)
            assert form not in clean
            assert form[4:-4] not in clean
            cuts = sorted(rng.sample(range(len(text)), 5))
            stream = scrubber.stream()
            pieces = [text[start:end] for start, end in itertools.pairwise((0, *cuts, len(text)))]
            assert "".join((*map(stream.feed, pieces), stream.flush())) == clean
