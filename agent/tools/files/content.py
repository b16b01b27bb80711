"""What may stand in a file, and which files a call touches. Pure."""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Mapping
from typing import Any

from agent.tools.files.walk import MOUNT
from gateway.contracts.errors import ToolError


def text_of(path: str, content: bytes) -> str:
    """The content as text, line ends as they are. Raises `ToolError` for anything but UTF-8."""
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ToolError(f"{path} is no text ({len(content)} bytes)") from error


def path_locks(*names: str) -> Callable[[Mapping[str, Any]], tuple[str, ...]]:
    """For `Tool.locks`: the files named by these arguments, in one spelling each."""

    def locks(arguments: Mapping[str, Any]) -> tuple[str, ...]:
        return tuple(_one_spelling(arguments[name]) for name in names if name in arguments)

    return locks


def _one_spelling(path: str) -> str:
    return posixpath.normpath(path.removeprefix(MOUNT).lstrip("/") or ".")
