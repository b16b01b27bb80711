"""The parts of a table of the file: the section, and the kinds of values that several sections have."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, Final

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, SecretStr

HTTP_SCHEMES: Final = ("https://", "http://")
_HEADER: Final = re.compile(r"[A-Za-z0-9-]{1,64}=[\x20-\x7e]+")


def expecting(text: str) -> dict[str, Any]:
    """For a field: what an error message says was expected, where the type alone does not tell."""
    return {"expected": text}


def url_with(*schemes: str, may_be_empty: bool = True) -> AfterValidator:
    """For a text: an address that starts with one of `schemes` and goes on."""

    def check(text: str) -> str:
        if (may_be_empty and not text) or (text.startswith(schemes) and len(text.partition("://")[2]) > 0):
            return text
        raise ValueError("not such a URL")

    return AfterValidator(check)


def bare(url: str) -> str:
    """An address to which a path can be appended."""
    return url.rstrip("/")


def resolved(path: Path) -> Path:
    """An absolute path, `~` spelled out."""
    return path.expanduser().absolute()


def _header(line: SecretStr) -> SecretStr:
    if not _HEADER.fullmatch(line.get_secret_value()):
        raise ValueError("not such a line")
    return line


HeaderLine = Annotated[SecretStr, AfterValidator(_header)]
"""A header of HTTP: a name, =, a value."""


def headers_of(lines: Iterable[SecretStr]) -> Mapping[str, str]:
    """Such lines by name."""
    return dict(line.get_secret_value().split("=", 1) for line in lines)


def _filled(secret: SecretStr | None) -> SecretStr | None:
    """An empty token is no token: a template with blanks configures nothing."""
    return secret if secret is not None and secret.get_secret_value() else None


Secret = Annotated[SecretStr | None, AfterValidator(_filled)]
WebUrl = Annotated[
    str, url_with(*HTTP_SCHEMES, may_be_empty=False), Field(json_schema_extra=expecting("an http(s) URL"))
]


class Section(BaseModel):
    """One table of the file."""

    model_config = ConfigDict(frozen=True, extra="forbid", validate_default=True, hide_input_in_errors=True)
