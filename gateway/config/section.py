"""The parts of a table of the file: the section, and the kinds of values that several sections have."""

from __future__ import annotations

import ast
import inspect
import re
import sys
from collections.abc import Iterable, Mapping
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, Final

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, GetJsonSchemaHandler, SecretStr
from pydantic.json_schema import JsonSchemaValue

HTTP_SCHEMES: Final = ("https://", "http://")
_HEADER: Final = re.compile(r"[A-Za-z0-9-]{1,64}=[\x20-\x7e]+")


def expecting(text: str) -> dict[str, Any]:
    """Note for a field what an error message says was expected, where the type alone does not tell."""
    return {"expected": text}


def setting(default: Any, expected: str, **bounds: Any) -> Any:
    """Make a field with a default, and with what an error message says was expected."""
    return Field(default=default, json_schema_extra=expecting(expected), **bounds)


def url_with(*schemes: str, may_be_empty: bool = True) -> AfterValidator:
    """Require of a text an address that starts with one of `schemes` and goes on."""

    def check(text: str) -> str:
        if (may_be_empty and not text) or (text.startswith(schemes) and len(text.partition("://")[2]) > 0):
            return text
        raise ValueError("not such a URL")

    return AfterValidator(check)


def bare(url: str) -> str:
    """Return an address to which a path can be appended."""
    return url.rstrip("/")


def resolved(path: Path) -> Path:
    """Return an absolute path, `~` spelled out."""
    return path.expanduser().absolute()


def _header(line: SecretStr) -> SecretStr:
    if not _HEADER.fullmatch(line.get_secret_value()):
        raise ValueError("not such a line")
    return line


HeaderLine = Annotated[SecretStr, AfterValidator(_header)]
"""A header of HTTP: a name, =, a value."""


def headers_of(lines: Iterable[SecretStr]) -> Mapping[str, str]:
    """Return such lines by name."""
    return dict(line.get_secret_value().split("=", 1) for line in lines)


def _filled(secret: SecretStr | None) -> SecretStr | None:
    """Return None for an empty token, which is no token: a template with blanks configures nothing."""
    return secret if secret is not None and secret.get_secret_value() else None


Secret = Annotated[SecretStr | None, AfterValidator(_filled)]
WebUrl = Annotated[
    str, url_with(*HTTP_SCHEMES, may_be_empty=False), Field(json_schema_extra=expecting("an http(s) URL"))
]
UrlOrEmpty = Annotated[str, url_with(*HTTP_SCHEMES), Field(json_schema_extra=expecting("empty or an http(s) URL"))]
BareUrlOrEmpty = Annotated[UrlOrEmpty, AfterValidator(bare)]


class Section(BaseModel):
    """One table of the file. What a key means is written below it."""

    # Deferred: a section is built once, as a part of those that hold it, and not by itself before, too.
    model_config = ConfigDict(
        frozen=True, extra="forbid", validate_default=True, hide_input_in_errors=True, defer_build=True
    )

    @classmethod
    def meanings(cls) -> Mapping[str, str]:
        """Return what each key means. `use_attribute_docstrings` of pydantic would cost each start 22 ms for it."""
        written = {
            name: meaning
            for kind in reversed(cls.__mro__)
            if issubclass(kind, Section)
            for name, meaning in _written_below(kind.__module__).get(kind.__name__, {}).items()
        }
        return {name: written.get(name) or field.description or "" for name, field in cls.model_fields.items()}

    @classmethod
    def __get_pydantic_json_schema__(cls, core_schema: Any, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        shape = handler(core_schema)
        properties = handler.resolve_ref_schema(shape)["properties"]
        for name, meaning in cls.meanings().items():
            properties[name] |= {"description": meaning} if meaning else {}
        return shape


@cache
def _written_below(module: str) -> Mapping[str, Mapping[str, str]]:
    """Return, for each class of a module, the texts below its fields."""
    source = ast.parse(inspect.getsource(sys.modules[module]))
    return {
        each.name: {
            field.target.id: " ".join(below.value.value.split())
            for field, below in pairwise(each.body)
            if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)
            if isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant)
            if isinstance(below.value.value, str)
        }
        for each in source.body
        if isinstance(each, ast.ClassDef)
    }
