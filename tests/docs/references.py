"""Make the pages of `docs/reference` from the source: settings, the command line, the HTTP API.

`make docs` writes them; by themselves, without mkdocs: `.venv/bin/python -m tests.docs.references`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any, Final, get_args

import typer

from gateway.config.catalog import Setting, catalog
from gateway.contracts.commands import COMMANDS, CommandSpec
from gateway.contracts.sessions import GrantRole
from gateway.ops.cli.start import app
from tests.docs import openapi

ROOT: Final = Path(__file__).parents[2]
FOLDER: Final = ROOT / "docs" / "reference"
_TOPICS: Final = {
    "preset": "For whom it is",
    "data_dir": "Where things are kept",
    "redis": "The bus",
    "database": "The database",
    "http": "HTTP",
    "agent": "The agent and its model",
    "models": "Models with an address or a key of their own",
    "routing": "Easy and hard messages",
    "channels": "Platforms",
    "access": "Who may talk to it",
    "session": "Conversations",
    "queue": "The queue",
    "tools": "Tools",
    "subagents": "Sub-agents",
    "attachments": "Files that people send",
    "limits": "Limits",
    "memory": "Memory",
    "schedules": "Reminders",
    "scrub": "Secrets",
    "words": "Language",
    "log": "Logs",
    "telemetry": "Traces",
    "webhooks": "Webhooks",
}
"""What the first part of a key is about; one without a title here is its own."""

_ABOUT_SETTINGS: Final = (
    "Made from the source. Every key stands in `trivet.toml` under the table that its name begins with, and reads from "
    "the environment under the name that is given with it, which wins. `trivet config show` tells what is in force and "
    "where it comes from; `trivet config schema` prints all this as a JSON Schema."
)
_ABOUT_TERMINAL: Final = (
    "Commands that read settings also take `--config PATH`; without it they read `$TRIVET_CONFIG`, else "
    "`./trivet.toml` if it exists."
)
_ABOUT_API: Final = (
    "Made from the source, as is [openapi.json](openapi.json), which says the same to programs. The operator's routes "
    "are on `http.host` and `http.port` (`http://127.0.0.1:8420`). Each but `/healthz` and `/readyz` asks for the "
    "bearer token, which is `http.admin_token` or lies in `<data_dir>/admin-token`; `/api/v1/docs` shows them in a "
    "browser. The routes of [programs](../start/programs.md), at the end, are on `channels.api.port` (8422) and ask "
    "for the token of a client. As long as Trivet is 0.x the operator's routes also answer without `/v1`, as they were "
    "called before."
)
_API_EXAMPLE: Final = """```sh
curl -H "Authorization: Bearer $(cat ~/.local/share/trivet/admin-token)" http://127.0.0.1:8420/api/v1/sessions
```"""
_ABOUT_REFUSALS: Final = (
    "A refusal is a JSON object whose `detail` says why, to programs also in the shape of OpenAI's errors: 401 without "
    "the token, 404 for what is not there, 409 for what cannot be done now, 422 (to programs 400) for a request that "
    "is malformed, 503 while the bus or the database is away."
)
_HEALTH: Final = "Health and metrics"
_PROGRAMS: Final = "Programs"
_TOPICS_FIRST: Final = {_HEALTH: 0, _PROGRAMS: 2}
_METHODS: Final = ("get", "post", "put", "patch", "delete")


def pages() -> Mapping[str, str]:
    """Return the text of every page by the name of its file."""
    return {
        "settings.md": settings_page(),
        "commands.md": commands_page(),
        "api.md": api_page(),
        "openapi.json": openapi.text(),
    }


def write() -> None:
    """Write every page anew."""
    for name, text in pages().items():
        (FOLDER / name).write_text(text, "utf-8")


def settings_page() -> str:
    """Describe every setting, and every key that the entries of a table can have."""
    parts = ["# Settings", _ABOUT_SETTINGS]
    for topic, settings in groupby(catalog().values(), key=lambda setting: setting.key.partition(".")[0]):
        parts.append(f"## {_TOPICS.get(topic, topic)}")
        for setting in settings:
            parts += _setting(setting)
    return _page(parts)


def _setting(setting: Setting) -> Iterator[str]:
    yield f"### `{setting.key}`"
    yield _plain(setting.description)
    default = f"`{setting.default_text}`" if setting.default_text not in ("", '""', "[]", "{}") else "empty"
    secret = ", a secret" if setting.is_secret else ""
    yield f"Default: {default}{secret}. Value: {_plain(setting.expected)}. Environment: `{setting.variable}`"
    if setting.is_table and not setting.key.endswith(".accounts"):  # an account has the keys of its channel
        entry = get_args(setting.field.annotation)[1]
        rows = [(f"`{name}`", _plain(meaning)) for name, meaning in entry.meanings().items()]
        yield _table(("key of an entry", "meaning"), rows)


def commands_page() -> str:
    """Describe the commands of the terminal, as their own help does, and those of a chat."""
    parts = [
        "# Commands",
        "Made from the source.",
        "## In a chat",
        "Native menus on all three platforms; also as plain text, in Slack also as `/trivet …`.",
        _table(
            ("command", "does", "who, where"),
            [(f"`/{_spelled(spec)}`", spec.about, _who(spec)) for spec in COMMANDS if spec.name != "start"],
        ),
        "## In a terminal",
        _ABOUT_TERMINAL,
    ]
    for path, command in _subcommands(typer.main.get_command(app), ()):
        parts += _terminal_command(" ".join(("trivet", *path)), command)
    return _page(parts)


def _spelled(spec: CommandSpec) -> str:
    argument = spec.argument if spec.needs_argument else f"[{spec.argument}]"
    return f"{spec.name} {argument}" if spec.argument else spec.name


def _who(spec: CommandSpec) -> str:
    role = "" if spec.role is GrantRole.GUEST else f"{spec.role.value}s"
    place = "direct messages" if spec.only_private else ""
    return ", ".join(filter(None, (role, place))) or "everybody"


def _subcommands(command: Any, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
    for name, below in getattr(command, "commands", {}).items():
        yield (*path, name), below
        yield from _subcommands(below, (*path, name))


def _terminal_command(name: str, command: Any) -> Iterator[str]:
    shown = [each for each in command.params if not getattr(each, "hidden", False)]
    given = [each for each in shown if each.name not in ("config", "help")]
    arguments = [each for each in given if each.param_type_name == "argument"]
    words = [each.metavar or each.name.upper() for each in arguments]
    yield f"### `{' '.join((name, *words))}`"
    yield _plain(" ".join((command.help or "").split()))
    rows = [
        (f"`{'`, `'.join((*each.opts, *each.secondary_opts))}`", _plain(each.help or ""))
        for each in given
        if each.param_type_name == "option"
    ]
    if rows:
        yield _table(("option", "does"), rows)


def api_page() -> str:
    """Describe every route by its method, parameters, body and answer."""
    documented = openapi.document()
    parts = ["# The HTTP API", _ABOUT_API, _API_EXAMPLE, _ABOUT_REFUSALS]
    for topic, routes in groupby(_routes(documented), key=lambda route: _topic(*route[1:])):
        parts.append(f"## {topic}")
        for method, path, route in routes:
            parts += _route(method, path, route)
    parts.append("## Shapes")
    for name, shape in sorted(documented["components"]["schemas"].items()):
        parts += _properties(name, shape)
    return _page(parts)


def _properties(name: str, shape: Mapping[str, Any]) -> Iterator[str]:
    yield f"### `{name}`"
    yield _plain(" ".join(shape.get("description", "").split()))
    if "enum" in shape:
        yield f"One of {', '.join(f'`{each}`' for each in shape['enum'])}."
    rows = [
        (f"`{field}`", _type_name(described), _plain(" ".join(described.get("description", "").split())))
        for field, described in shape.get("properties", {}).items()
    ]
    if rows:
        yield _table(("field", "type", "meaning"), rows)


def _type_name(schema: Mapping[str, Any]) -> str:
    """Name a type as readers of JSON do: `string`, `list of SessionView`, `integer or null`."""
    if "anyOf" in schema:
        return " or ".join(dict.fromkeys(map(_type_name, schema["anyOf"])))
    if "items" in schema:
        return f"list of {_type_name(schema['items'])}"
    return str(schema.get("$ref", "")).rpartition("/")[2] or str(schema.get("type", "any"))


def _routes(documented: Mapping[str, Any]) -> Sequence[tuple[str, str, Mapping[str, Any]]]:
    found = [
        (method, path, methods[method])
        for path, methods in documented["paths"].items()
        for method in _METHODS
        if method in methods
    ]
    return sorted(found, key=lambda route: (_TOPICS_FIRST.get(_topic(*route[1:]), 1), _topic(*route[1:])))


def _topic(path: str, route: Mapping[str, Any]) -> str:
    if "programs" in route["tags"]:
        return _PROGRAMS
    name = path.split("/")[3] if path.startswith("/api/") else ""
    return name.replace("-", " ").capitalize() or _HEALTH


def _route(method: str, path: str, route: Mapping[str, Any]) -> Iterator[str]:
    yield f"### `{method.upper()} {path}`"
    yield _plain(" ".join(route.get("description", route.get("summary", "")).split()))
    rows = [
        (f"`{each['name']}`", each["in"], _plain(each.get("description") or each["schema"].get("title", "")))
        for each in route.get("parameters", ())
    ]
    if rows:
        yield _table(("parameter", "in", "meaning"), rows)
    body, answer = _shape(route.get("requestBody", {})), _shape(_success(route))
    said = [f"Body: {body}." if body else "", f"Answer: {answer}." if answer else ""]
    yield " ".join(filter(None, said))


def _success(route: Mapping[str, Any]) -> Mapping[str, Any]:
    return next((answer for code, answer in route["responses"].items() if code.startswith("2")), {})


def _shape(described: Mapping[str, Any]) -> str:
    """Name the type of a body: `SessionView`, or a list of them."""
    schema = described.get("content", {}).get("application/json", {}).get("schema", {})
    name = str(schema.get("items", schema).get("$ref", "")).rpartition("/")[2]
    return f"a list of `{name}`" if name and "items" in schema else f"`{name}`" if name else ""


def _table(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [titles, ["---"] * len(titles), *([cell.replace("|", r"\|") for cell in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _plain(text: str) -> str:
    """Keep text from being read as a link, HTML or emphasis."""
    outside = re.split(r"(`[^`]*`)", text)
    return "".join(each if each.startswith("`") else re.sub(r"([<\[\]_*])", r"\\\1", each) for each in outside)


def _page(parts: Sequence[str]) -> str:
    return "\n\n".join(filter(None, parts)) + "\n"


if __name__ == "__main__":
    write()
