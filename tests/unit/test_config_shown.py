"""How the settings are shown: table, schema, environment file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gateway.config import load_settings
from gateway.config.catalog import catalog, variables
from gateway.config.show import as_table, env_example, json_schema
from gateway.contracts.errors import ConfigError

DEPLOY = Path(__file__).parents[2] / "deploy"


def test_the_table_shows_value_and_source_and_masks_secrets() -> None:
    environ = {
        "TRIVET_CHANNELS__TELEGRAM__TOKEN": "123:quiet",
        "TRIVET_DATABASE__URL": "postgresql+asyncpg://trivet:quiet@db/trivet",
        "TRIVET_ACCESS__ADMINS": "telegram:1",
    }
    table = as_table(load_settings(None, environ))
    rows = {line.split()[0]: line.split()[1:] for line in table.splitlines()}
    assert rows.keys() == catalog().keys()
    assert "quiet" not in table
    assert rows["channels.telegram.token"] == ["***", "TRIVET_CHANNELS__TELEGRAM__TOKEN"]
    assert rows["database.url"] == ['"postgresql+asyncpg://trivet:***@db/trivet"', "TRIVET_DATABASE__URL"]
    assert rows["access.admins"] == ['["telegram:1"]', "TRIVET_ACCESS__ADMINS"]
    assert rows["http.port"] == ["8420", "default"]


def test_of_the_tool_servers_no_argument_is_shown() -> None:
    """Whoever writes a key there, and not into `tools.mcp_secrets`, does not print it by that."""
    lines = [
        *("plain=server", "one=/opt/bin/server --key=quiet", "more=npx -y server 'quiet words'"),
        *(
            "docs=https://docs.example",
            "path=https://me:quiet@docs.example:8443/quiet/mcp",
            "query=http://a/?key=quiet",
        ),
    ]
    table = as_table(load_settings(None, {"TRIVET_TOOLS__MCP": json.dumps(lines)}))
    (row,) = [line for line in table.splitlines() if line.startswith("tools.mcp ")]
    assert "quiet" not in table
    assert json.loads(row[row.index("[") : row.index("]") + 1]) == [
        *("plain=server (0 arguments)", "one=/opt/bin/server (1 argument)", "more=npx (3 arguments)"),
        *("docs=https://docs.example", "path=https://docs.example:8443/…", "query=http://a/…"),
    ]


def test_the_schema_describes_every_key() -> None:
    schema = json.loads(json_schema())
    for key in catalog():
        node = schema
        for name in key.split("."):
            if "$ref" in node:
                node = schema["$defs"][node["$ref"].rpartition("/")[2]]
            node = node["properties"][name]
        assert node["description"], key


def test_every_line_of_the_example_is_a_setting_that_loads(tmp_path: Path) -> None:
    lines = [line[1:] for line in env_example().splitlines() if line.startswith("#TRIVET_")]
    environ = dict(line.split("=", 1) for line in lines)
    assert environ.keys() == variables().keys()
    loaded = load_settings(None, environ)
    assert loaded.warnings == ()
    assert loaded.settings == load_settings(None, {}).settings


def test_the_committed_example_is_what_the_settings_say() -> None:
    """`trivet config env > deploy/env.example` mends it."""
    assert (DEPLOY / "env.example").read_text() == env_example()


def test_an_enabled_channel_without_its_tokens_loads_for_those_who_need_none() -> None:
    """The admin role has to know which channels there are, not how they log in."""
    settings = load_settings(None, {"TRIVET_CHANNELS__SLACK__ENABLED": "true"}).settings
    assert settings.channels.enabled_names == ("slack",)
    assert settings.channels.slack.missing == ("bot_token", "app_token")


def test_webhooks_are_tables_of_the_file_or_a_list_in_the_environment_and_shown_without_secrets(tmp_path: Path) -> None:
    path = tmp_path / "trivet.toml"
    path.touch(0o600)
    path.write_text("""
[[webhooks]]
url = "https://one.example/quiet/path"
secret = "quiet as a mouse, twice"

[[webhooks]]
url = "https://two.example/"
secret = "quiet as another mouse"
events = ["turn_failed", "dead_letter"]
name = "second"
""")
    listed = [{"url": "http://three.example", "secret": "quiet as a third one", "private": True}]
    of_file = load_settings(path, {})
    of_environment = load_settings(path, {"TRIVET_WEBHOOKS": json.dumps(listed)})
    assert [each.called for each in of_file.settings.webhooks] == ["one.example", "second"]
    assert [each.private for each in of_environment.settings.webhooks] == [True]
    assert {"quiet as a mouse, twice", "quiet as another mouse"} <= {*of_file.secrets}
    (row,) = [line for line in as_table(of_file).splitlines() if line.startswith("webhooks ")]
    assert "second=turn_failed,dead_letter" in row
    assert "quiet" not in as_table(of_file)
    wrongs = [{"secret": "quiet"}, {"url": "quiet"}, {"url": "http://quiet.example:99999"}, {"url": "http://:80/quiet"}]
    for wrong in (*([listed[0] | each] for each in wrongs), listed * 2):
        with pytest.raises(ConfigError, match="webhooks") as caught:
            load_settings(None, {"TRIVET_WEBHOOKS": json.dumps(wrong)})
        assert "quiet" not in str(caught.value)
