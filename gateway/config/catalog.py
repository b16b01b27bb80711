"""The settings as a flat list of keys, read off the types in `settings.py`: names, defaults, expectations."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import EnumType
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Final, get_args, get_origin

from annotated_types import Ge, Le
from pydantic import BaseModel, SecretStr, TypeAdapter
from pydantic.fields import FieldInfo

from gateway.config.section import Section
from gateway.config.settings import Settings

ENV_PREFIX: Final = "TRIVET_"
ENV_DOT: Final = "__"


@dataclass(frozen=True, slots=True)
class Setting:
    """One key: `http.port`, its variable, what it holds."""

    key: str
    field: FieldInfo
    section: type[Section]

    @property
    def description(self) -> str:
        """Return what it means. Most starts need that of no key, and it is read from the source."""
        return self.section.meanings().get(self.key.rpartition(".")[2], "")

    @property
    def variable(self) -> str:
        """Return the name in the environment."""
        return ENV_PREFIX + self.key.replace(".", ENV_DOT).upper()

    @property
    def is_secret(self) -> bool:
        """Tell whether the value, or a part of it, may never be shown."""
        members = tuple(
            get_args(part)[0] if get_origin(part) is Annotated else part for part in _members(self.field.annotation)
        )
        tables = self.is_list and isinstance(members[0], type) and issubclass(members[0], BaseModel)
        return tables or SecretStr in members

    @property
    def is_list(self) -> bool:
        return str(self.field.annotation).startswith("tuple")

    @property
    def is_table(self) -> bool:
        """Tell whether the key holds entries of one kind, each a table with a name of its own."""
        return get_origin(self.field.annotation) is Mapping

    def entry(self, path: str) -> Setting | None:
        """Return the setting `name.key` of an entry, None if entries have no such key. Raises `ValueError` for a name
        that no entry can have."""
        name_kind, kind = get_args(self.field.annotation)
        name, _, key = path.partition(".")
        TypeAdapter(name_kind).validate_python(name)
        field = kind.model_fields.get(key)
        return Setting(f"{self.key}.{path}", field, kind) if field else None

    def entry_keys(self, name: str) -> tuple[str, ...]:
        """Return every key that the entry `name` can have, in full."""
        return tuple(f"{self.key}.{name}.{key}" for key in get_args(self.field.annotation)[1].model_fields)

    @property
    def adapter(self) -> TypeAdapter[Any]:
        """Validate one value of this key alone."""
        annotated: Any = Annotated[self.field.annotation, self.field]
        return TypeAdapter(annotated)

    @property
    def expected(self) -> str:
        """Describe a right value, to end the sentence "… must be"."""
        extra = self.field.json_schema_extra
        if isinstance(extra, Mapping) and "expected" in extra:
            return str(extra["expected"])
        members = _members(self.field.annotation)
        choices = [str(choice) for member in members for choice in _choices(member)]
        if choices:
            return "one of " + ", ".join(choices)
        if bool in members:
            return "true or false"
        if int in members or any(int in _members(member) for member in members):
            return _whole_number(self.field)
        if Path in members:
            return "a path"
        return "a text" if not self._has(min_length=1) else "a text that is not empty"

    @property
    def default_text(self) -> str:
        """Format the default as TOML, empty when there is none."""
        default = self.field.default
        return "" if default is None else to_toml(default)

    def _has(self, **bounds: object) -> bool:
        return any(getattr(mark, name, None) == value for mark in self.field.metadata for name, value in bounds.items())


def to_toml(value: object) -> str:
    """Format a setting's value as TOML. Secrets must be masked before."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return str(value)
    if isinstance(value, Mapping):
        return "{}"  # the entries of a table have keys of their own
    if isinstance(value, tuple):
        return json.dumps([str(item) for item in value], ensure_ascii=False)
    return json.dumps(str(value), ensure_ascii=False)


def value_of(settings: Settings, key: str) -> object:
    """Return the value under a dotted key that `catalog()` lists, or under that of an entry of a table."""
    value: object = settings
    for name in key.split("."):
        value = value[name] if isinstance(value, Mapping) else getattr(value, name)
    return value


@cache
def catalog() -> Mapping[str, Setting]:
    """Return every setting by its key, in the order of `settings.py`."""
    return {setting.key: setting for setting in _leaves(Settings, "")}


@cache
def variables() -> Mapping[str, Setting]:
    """Return every setting by its name in the environment."""
    return {setting.variable: setting for setting in catalog().values()}


def _leaves(section: type[Section], prefix: str) -> Iterator[Setting]:
    for name, field in section.model_fields.items():
        kind = field.annotation
        if isinstance(kind, type) and issubclass(kind, Section):
            yield from _leaves(kind, f"{prefix}{name}.")
        else:
            yield Setting(prefix + name, field, section)


def _members(annotation: object) -> tuple[object, ...]:
    """Return the parts of a union, or the type alone."""
    return get_args(annotation) or (annotation,)


def _choices(member: object) -> tuple[object, ...]:
    if isinstance(member, EnumType):
        return tuple(member)
    return (member,) if isinstance(member, str) else ()


def _whole_number(field: FieldInfo) -> str:
    marks = [mark for member in _members(field.annotation) for mark in _members(member)]
    nested = [mark for mark in marks if isinstance(mark, FieldInfo)]
    bounds = [*field.metadata, *(mark for info in nested for mark in info.metadata)]
    low = next((bound.ge for bound in bounds if isinstance(bound, Ge)), None)
    high = next((bound.le for bound in bounds if isinstance(bound, Le)), None)
    if low is not None and high is not None:
        return f"a whole number from {low} to {high}"
    return f"a whole number, {low} or more" if low is not None else "a whole number"
