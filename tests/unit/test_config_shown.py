"""How the settings are shown: table, schema, environment file."""

from __future__ import annotations

import json
from pathlib import Path

from gateway.config import load_settings
from gateway.config.catalog import catalog, variables
from gateway.config.show import as_table, env_example, json_schema

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
