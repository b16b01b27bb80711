"""The table of models: how a model is called that needs more than a name. Settings name an entry of it, or a model."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Final, Literal

from pydantic import AfterValidator, Field

from gateway.config.section import (
    HTTP_SCHEMES,
    HeaderLine,
    Secret,
    Section,
    bare,
    expecting,
    headers_of,
    resolved,
    url_with,
)
from gateway.contracts.errors import ConfigError

_NAME: Final = re.compile(r"[a-z][a-z0-9_-]{0,31}")
_NOT_NAMES: Final = frozenset({"default"})
"""What `/model default` says is no model."""

ENTRIES: Final = "tables with names of small letters, digits, - and _, such as [models.fast]"


def _checked_name(name: str) -> str:
    if not _NAME.fullmatch(name) or name in _NOT_NAMES:
        raise ValueError("no such name")
    return name


EntryName = Annotated[str, AfterValidator(_checked_name)]


class ModelEntry(Section):
    """One entry. A key goes to the address of its entry and nowhere else."""

    model: str = Field(default="", description="Any litellm model name.")
    api_base: Annotated[str, url_with(*HTTP_SCHEMES), AfterValidator(bare)] = Field(
        default="",
        description="Address of the model's API. Empty: that of its provider.",
        json_schema_extra=expecting("empty or an http(s) URL"),
    )
    api_key: Secret = Field(
        default=None,
        description="Key of the model's API. Empty: with an api_base none is sent, else that of its provider.",
    )
    api_key_file: Annotated[Path, AfterValidator(resolved)] | None = Field(
        default=None,
        description="File that holds the key instead; the agent role reads it when it starts.",
        json_schema_extra=expecting("a path"),
    )
    temperature: Annotated[float, Field(ge=0, le=2)] | None = Field(
        default=None,
        description="Temperature of its answers; small work such as titles has its own.",
        json_schema_extra=expecting("a number from 0 to 2"),
    )
    max_tokens: Annotated[int, Field(ge=1)] | None = Field(
        default=None, description="Tokens of one answer at most. Empty: what the model allows."
    )
    reasoning_effort: Literal["", "none", "minimal", "low", "medium", "high"] = Field(
        default="",
        description="How long it thinks before an answer; about small work never longer than low.",
        json_schema_extra=expecting("empty or one of none, minimal, low, medium, high"),
    )
    extra_headers: tuple[HeaderLine, ...] = Field(
        default=(),
        description="Headers of each call: a name, =, a value.",
        json_schema_extra=expecting('a list of lines such as ["X-Tenant=…"]'),
    )

    @property
    def headers(self) -> Mapping[str, str]:
        """`extra_headers` by name."""
        return headers_of(self.extra_headers)

    @property
    def has_key(self) -> bool:
        """Whether it has a key of its own, in whichever way."""
        return self.api_key is not None or self.api_key_file is not None

    def key(self, name: str) -> str:
        """The key, from its file if it is in one; "" if it has none. Raises `ConfigError`, which calls the entry
        `name`."""
        if self.api_key is not None:
            return self.api_key.get_secret_value()
        if self.api_key_file is None:
            return ""
        where = f"models.{name}.api_key_file: {self.api_key_file}"
        try:
            key = self.api_key_file.read_text("utf-8").strip()
        except UnicodeDecodeError as error:
            raise ConfigError(f"{where} is not a text: write the key alone into it") from error
        except OSError as error:
            raise ConfigError(f"{where} cannot be read ({error.strerror}): correct the path or its rights") from error
        if not key:
            raise ConfigError(f"{where} is empty: write the key into it")
        return key


def keys_in_files(entries: Mapping[str, ModelEntry]) -> tuple[str, ...]:
    """The keys that no setting holds, for the scrubber of a role that calls models. Raises `ConfigError`."""
    return tuple(entry.key(name) for name, entry in entries.items() if entry.api_key_file is not None)
