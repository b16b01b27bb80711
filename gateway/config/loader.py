"""The line of each key in a TOML text. Pure; `tomllib` parses values but forgets places."""

from __future__ import annotations

import difflib
import json
import os
import tomllib
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, cast

from pydantic import SecretStr
from pydantic.fields import FieldInfo

from gateway.config.catalog import ENV_DOT, ENV_PREFIX, Setting, catalog, variables
from gateway.config.channels import ChannelSettings, PluginAccount
from gateway.config.derived import found_provider, is_readable_by_others
from gateway.config.presets import PRESETS, Preset
from gateway.config.secrets import environment_secrets, names_a_secret, settings_secrets
from gateway.config.section import Section
from gateway.config.settings import SCRIPTED_MODEL, Settings
from gateway.contracts.errors import ConfigError
from gateway.packages import PluginKind, enabled_parts


def flatten(table: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Return dotted keys and values of all leaves; an empty table is a leaf of its own."""
    for name, value in table.items():
        if isinstance(value, Mapping) and value:
            yield from flatten(value, f"{prefix}{name}.")
        else:
            yield prefix + name, value


def lines_of_keys(text: str) -> dict[str, int]:
    """Return dotted key -> line, counted from 1, of a valid TOML text.

    Each statement of TOML is a valid document by itself, so lines are gathered until they parse."""
    found: dict[str, int] = {}
    prefix, gathered, start = "", "", 1
    for number, line in enumerate(text.splitlines(keepends=True), 1):
        if not gathered:
            start = number
        gathered += line
        try:
            statement = tomllib.loads(gathered)
        except tomllib.TOMLDecodeError:
            continue
        if gathered.lstrip().startswith("["):
            prefix = "".join(f"{name}." for name in _path(statement))
            found.setdefault(prefix[:-1], start)
        else:
            found.update((prefix + key, start) for key, _ in flatten(statement))
        gathered = ""
    return found


def _path(header: Mapping[str, Any]) -> Iterator[str]:
    """Return the names in `[a.b.c]`, from what it parses to."""
    table: Any = header
    while isinstance(table, Mapping) and table:
        name, table = next(iter(table.items()))
        yield name


# From a file and an environment to frozen settings: where each value came from, what looks wrong.
#
# This package is the only reader of the process's environment.


CONFIG_VARIABLE: Final = "TRIVET_CONFIG"
DEFAULT_FILE: Final = "trivet.toml"
_NOT_SETTINGS: Final = frozenset(
    {CONFIG_VARIABLE, "TRIVET_DEMO_ADMIN_URL", "TRIVET_DEMO_ADMIN_TOKEN", "TRIVET_DEMO_TRIES"}
)
_SHOWN_CHARS_MAX: Final = 60  # of a wrong value, in an error message


@dataclass(frozen=True, slots=True)
class Loaded:
    """The settings in force and their story.

    `sources` maps every key, and every key of an entry that is there, to "default", "default of preset <name>",
    "<file> line N" or the variable's name. `warnings` are sentences.
    `secrets` is everything the scrubber should know: secret settings and provider keys of the environment."""

    settings: Settings
    sources: Mapping[str, str]
    warnings: tuple[str, ...]
    path: Path | None
    secrets: tuple[str, ...] = field(repr=False)


@dataclass(frozen=True, slots=True)
class _Given:
    """One value as it was written, where, and for which setting."""

    setting: Setting
    value: object
    source: str
    is_text: bool


def load(config_path: Path | None = None) -> Loaded:
    """Call `load_settings` with this process's environment."""
    return load_settings(config_path, os.environ)


def process_environment() -> dict[str, str]:
    """Return a copy of this process's environment, for those who start other processes."""
    return dict(os.environ)


def load_settings(config_path: Path | None, environ: Mapping[str, str]) -> Loaded:
    """Read the file, then the environment, which wins. An empty variable counts as not set.

    The file is `config_path`, else the one that TRIVET_CONFIG names, else ./trivet.toml if it exists.
    Raises `ConfigError`, one sentence with place, key and what was expected; secret values are never in it."""
    path = _config_file(config_path, environ)
    given, warnings = _from_file(path) if path else ({}, [])
    from_environment, unknown = _from_environment(environ)
    given |= from_environment
    warnings += unknown
    packages = _checked(given["plugins.enabled"]) if "plugins.enabled" in given else ()
    channels = [part.name for part in enabled_parts(cast("tuple[str, ...]", packages), PluginKind.CHANNELS)]
    warnings += _drop_unknown_channels(given, channels)
    values = {key: _checked(item) for key, item in given.items()}
    preset = Preset(str(values.get("preset", "")))
    values = {**PRESETS[preset], **values}
    sources = (
        dict.fromkeys(catalog(), "default")
        | dict.fromkeys(PRESETS[preset], f"default of preset {preset}")
        | {key: item.source for key, item in given.items()}
    )
    if not values.get("agent.model"):
        provider = found_provider(environ)
        values["agent.model"] = provider.model if provider else SCRIPTED_MODEL
        sources["agent.model"] = f"default, since {provider.variable} is set" if provider else "default"
    tree = _nested(values)
    for name in channels:
        tree.setdefault("channels", {}).setdefault(name, {})
    settings = Settings.model_validate(tree)
    _check_together(settings, sources)
    if path and _holds_secrets(given, path) and is_readable_by_others(path):
        warnings.append(f"{path} holds secrets and others may read it: run `chmod 600 {path}`")
    secrets = tuple(dict.fromkeys((*settings_secrets(settings), *environment_secrets(environ))))
    return Loaded(settings, sources, tuple(warnings), path, secrets)


def _config_file(config_path: Path | None, environ: Mapping[str, str]) -> Path | None:
    named = config_path or (Path(environ[CONFIG_VARIABLE]) if environ.get(CONFIG_VARIABLE) else None)
    if named is None:
        default = Path(DEFAULT_FILE)
        return default if default.is_file() else None
    path = named.expanduser()
    if not path.is_file():
        asked = "--config" if config_path else CONFIG_VARIABLE
        raise ConfigError(f"{path}, named by {asked}, is not a file: correct the path or create it")
    return path


def _from_file(path: Path) -> tuple[dict[str, _Given], list[str]]:
    text = _text_of(path)
    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path} is not valid TOML: {error}; correct that line") from error
    lines = lines_of_keys(text)
    given: dict[str, _Given] = {}
    warnings: list[str] = []
    for key, value in flatten(table):
        place = f"{path} line {lines[key]}"
        if key in catalog():
            given[key] = _Given(catalog()[key], value, place, is_text=False)
        elif isinstance(value, Mapping) and any(known.startswith(f"{key}.") for known in catalog()):
            continue
        elif (owner := _setting_above(key)) is not None and owner.is_table:
            _take_entry(owner, key, value, place, given, warnings)
        elif owner is not None:
            raise ConfigError(f"{place}: {owner.key} must be {owner.expected}, but a table was found")
        elif any(known.startswith(f"{key}.") for known in catalog()):
            raise ConfigError(f"{place}: {key} must be a table, written [{key}], but a value was found")
        elif (setting := _of_channel(key)) is not None:
            given[key] = _Given(setting, value, place, is_text=False)
        else:
            warnings.append(_unknown(key, place, catalog()))
    return given, warnings


def _text_of(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path} is not UTF-8 (byte {error.start}): save it as UTF-8") from error
    except OSError as error:
        raise ConfigError(f"{path} cannot be read ({error.strerror}): correct its permissions") from error


def _from_environment(environ: Mapping[str, str]) -> tuple[dict[str, _Given], list[str]]:
    given: dict[str, _Given] = {}
    warnings: list[str] = []
    for name, text in environ.items():
        if not name.startswith(ENV_PREFIX) or name in _NOT_SETTINGS:
            continue
        setting = variables().get(name)
        if setting is None and (table := _table_of(name)) is not None:
            if text:
                path = name.removeprefix(table.variable + ENV_DOT).lower().replace(ENV_DOT, ".")
                _take_entry(table, f"{table.key}.{path}", text, name, given, warnings, is_text=True)
        elif setting is None and (setting := _of_channel(name.removeprefix(ENV_PREFIX).lower().replace(ENV_DOT, "."))):
            if text:
                given[setting.key] = _Given(setting, text, name, is_text=True)
        elif setting is None:
            warnings.append(_unknown(name, "the environment", variables()))
        elif text and setting.is_table and (entries := _table(text)) is not None:
            for key, value in flatten(entries, f"{setting.key}."):
                _take_entry(setting, key, value, name, given, warnings)
        elif text:
            given[setting.key] = _Given(setting, text, name, is_text=True)
    return given, warnings


def _of_channel(key: str) -> Setting | None:
    """Return the setting of a channel that is none of ours, if the key can be one: then it may be a plug-in's. What is
    called as secrets are is one."""
    parts = key.split(".")
    if len(parts) != 3 or parts[0] != "channels" or parts[1] in ChannelSettings.model_fields:
        return None
    field = PluginAccount.model_fields.get(parts[2])
    return Setting(key, field or FieldInfo(annotation=SecretStr if names_a_secret(parts[2]) else Any), Section)


def _drop_unknown_channels(given: dict[str, _Given], channels: Collection[str]) -> list[str]:
    """Leave out what is set for channels that neither we nor an enabled plug-in have; the warnings of it."""
    strange = [key for key in given if _of_channel(key) is not None and key.split(".")[1] not in channels]
    return [
        _unknown(item.source, "the environment", variables())
        if (item := given.pop(key)).is_text
        else _unknown(key, item.source, catalog())
        for key in strange
    ]


def _table_of(name: str) -> Setting | None:
    """Return the table of which this variable sets a key of an entry, as `TRIVET_SUBAGENTS__TYPES__CODE__LABEL`
    does."""
    return next(
        (each for variable, each in variables().items() if each.is_table and name.startswith(variable + ENV_DOT)), None
    )


def _take_entry(
    table: Setting,
    key: str,
    value: object,
    source: str,
    given: dict[str, _Given],
    warnings: list[str],
    *,
    is_text: bool = False,
) -> None:
    """Take one key of an entry of `table`: what it sets goes into `given`, a key that entries do not have is warned
    of."""
    name, _, inner = key.removeprefix(f"{table.key}.").partition(".")
    try:
        setting = table.entry(f"{name}.{inner}")
    except ValueError as error:
        raise ConfigError(f"{source}: {table.key} must be {table.expected}, but {name} was found") from error
    if setting is not None:
        given[key] = _Given(setting, value, source, is_text=is_text)
    elif inner:
        warnings.append(_unknown(key, source, table.entry_keys(name)))
    elif not isinstance(value, Mapping):
        raise ConfigError(f"{source}: {key} must be a table, written [{key}], but a value was found")


def _checked(given: _Given) -> object:
    setting = given.setting
    try:
        if given.is_text:
            value = _listed(str(given.value)) if setting.is_list else given.value
            return setting.adapter.validate_python(value)
        return setting.adapter.validate_json(json.dumps(given.value, default=str), strict=True)
    except ValueError as error:
        raise ConfigError(
            f"{given.source}: {setting.key} must be {setting.expected}, but {_shown(given)} was found"
        ) from error if not setting.is_secret else None


def _listed(text: str) -> list[str]:
    """Read a list in a variable: JSON, or items between commas."""
    if text.lstrip().startswith("["):
        found = json.loads(text)
        return found if isinstance(found, list) else []
    return [item.strip() for item in text.split(",") if item.strip()]


def _table(text: str) -> Mapping[str, Any] | None:
    """Read a table in a variable: JSON. None for anything else."""
    try:
        found = json.loads(text)
    except ValueError:
        return None
    return found if isinstance(found, Mapping) else None


def _shown(given: _Given) -> str:
    if given.setting.is_secret:
        return f"something else ({type(given.value).__name__})"
    if isinstance(given.value, str) and "://" in given.value:
        return f"a URL that starts with {given.value.partition('://')[0] + '://'!r}"
    shown = repr(given.value) if given.is_text else json.dumps(given.value, ensure_ascii=False, default=str)
    return shown if len(shown) <= _SHOWN_CHARS_MAX else shown[:_SHOWN_CHARS_MAX] + "…"


def _setting_above(key: str) -> Setting | None:
    """Return the setting inside which `key` would be, if a table was written where a value belongs."""
    parents = key.split(".")
    return next((found for end in range(1, len(parents)) if (found := catalog().get(".".join(parents[:end])))), None)


def _unknown(name: str, place: str, known: Iterable[str]) -> str:
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.6)
    advice = f"did you mean {near[0]}?" if near else "`trivet config schema` lists the known ones"
    return f"unknown setting {name} in {place} is ignored: {advice}"


def _nested(values: Mapping[str, object]) -> dict[str, Any]:
    tree: dict[str, Any] = {}
    for key, value in values.items():
        *parents, name = key.split(".")
        branch = tree
        for parent in parents:
            branch = branch.setdefault(parent, {})
        branch[name] = value
    return tree


def _check_together(settings: Settings, sources: Mapping[str, str]) -> None:
    """Check what no single key can show."""
    for name, entry in settings.models.items():
        if entry.api_key is not None and entry.api_key_file is not None:
            where = sources[f"models.{name}.api_key"]
            raise ConfigError(f"{where}: models.{name} has an api_key and an api_key_file: keep one of them")
    own = settings.models.get(settings.agent.model)
    if own is not None and (own.has_key or own.api_base):
        named = f"models.{settings.agent.model}"
        for key in ("api_key", "api_base"):
            if sources[f"agent.{key}"] != "default":
                raise ConfigError(
                    f"{sources[f'agent.{key}']}: agent.{key} is set, but agent.model names {named}, which has a key or "
                    f"an address of its own: set {named}.{key} instead"
                )
    webhooks = [each.called for each in settings.webhooks]
    if twice := next((name for name in webhooks if webhooks.count(name) > 1), None):
        raise ConfigError(f"{sources['webhooks']}: two webhooks are called {twice}: give each a name of its own")
    called = tuple(settings.channels.called())
    for key in called:
        if not settings.http.public_url:
            raise ConfigError(
                f"{sources[key]}: {key} needs http.public_url, which is empty: "
                "set it to the address under which the platform reaches the webhook port"
            )
    at_discord = {account.api_base for account in settings.channels.discords().values() if account.is_enabled}
    if len(at_discord) > 1:
        raise ConfigError(
            "channels.discord and its accounts have different values of api_base, but one Trivet speaks to one "
            "Discord: give them the same, or run a second Trivet"
        )
    if called and settings.http.port == settings.http.webhook_port:
        raise ConfigError(
            f"{sources['http.port']}: http.port and http.webhook_port are both {settings.http.port}: give each its own"
        )


def _holds_secrets(given: Mapping[str, _Given], path: Path) -> bool:
    return any(item.setting.is_secret and item.source.startswith(f"{path} line") for item in given.values())
