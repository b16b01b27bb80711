"""What each role's process may know: a model's code never sees a channel token, a channel never a model key. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final

_CHANNELS: Final = "TRIVET_CHANNELS__"
_MODEL_KEY: Final = "TRIVET_AGENT__API_KEY"
_MODELS: Final = "TRIVET_MODELS"
"""With keys among their settings, so that nobody but the agent is told of any of them."""

_ADMIN_TOKEN: Final = "TRIVET_HTTP__ADMIN_TOKEN"  # noqa: S105 - a variable's name
_VAULT_KEY: Final = "TRIVET_SCRUB__VAULT__KEY"
_DATABASE: Final = "TRIVET_DATABASE__URL"
_COLLECTOR_KEY: Final = "TRIVET_TELEMETRY__OTLP_HEADERS"
_TOOL_SECRETS: Final = frozenset({"TRIVET_TOOLS__WEB__KEY", "TRIVET_TOOLS__MCP_SECRETS", "TRIVET_TOOLS__DATABASES"})
_PLAIN: Final = re.compile(
    r"TRIVET_.*|PATH|HOME|USER|LOGNAME|SHELL|TERM|TZ|LANG|LANGUAGE|LC_.*|TMPDIR|XDG_.*|VIRTUAL_ENV|PYTHON.*"
    r"|LD_LIBRARY_PATH|DYLD_.*|SSL_CERT_.*|REQUESTS_CA_BUNDLE|(HTTPS?|ALL|NO)_PROXY|COVERAGE_.*",
    re.IGNORECASE,
)


def for_channels(environ: Mapping[str, str], given: Mapping[str, str]) -> dict[str, str]:
    """Plain variables and ours, without the keys of the model, the tools and the collector, the database, the
    operator's token."""
    return _plain(environ, given, hidden={_MODEL_KEY, _DATABASE, _ADMIN_TOKEN, _COLLECTOR_KEY, *_TOOL_SECRETS})


def for_agent(environ: Mapping[str, str], given: Mapping[str, str], *, channels: Iterable[str]) -> dict[str, str]:
    """Everything (a provider's or a tool's variables have any name) but tokens of channels and of the operator."""
    kept = {name: value for name, value in environ.items() if name != _ADMIN_TOKEN}
    return _without_channels({**kept, **given}, channels)


def for_admin(environ: Mapping[str, str], given: Mapping[str, str], *, channels: Iterable[str]) -> dict[str, str]:
    """Plain variables and ours, without tokens of channels and the keys of the model, the tools, the collector and
    the vault."""
    return _without_channels(
        _plain(environ, given, hidden={_MODEL_KEY, _VAULT_KEY, _COLLECTOR_KEY, *_TOOL_SECRETS}), channels
    )


def _plain(environ: Mapping[str, str], given: Mapping[str, str], *, hidden: set[str]) -> dict[str, str]:
    return {
        name: value
        for name, value in (*environ.items(), *given.items())
        if _PLAIN.fullmatch(name) and name not in hidden and not name.startswith(_MODELS)
    }


def _without_channels(environ: Mapping[str, str], channels: Iterable[str]) -> dict[str, str]:
    """Of the channels only which of them shall be connected."""
    told = {f"{_CHANNELS}{name.replace('.', '__ACCOUNTS__').upper()}__ENABLED": "true" for name in channels}
    return {name: value for name, value in environ.items() if not name.startswith(_CHANNELS)} | told
