"""What may stand in a file, and which files a call touches. Pure."""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Mapping
from typing import Any

from agent.tools.files.walk import MOUNT
from gateway.contracts.errors import ToolError
from gateway.scrub.placeholder import PLACEHOLDER


def text_of(path: str, content: bytes) -> str:
    """The content as text, line ends as they are. Raises `ToolError` for anything but UTF-8."""
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ToolError(f"{path} is no text ({len(content)} bytes)") from error


def refuse_placeholder(text: str) -> None:
    """Raises `ToolError` if a secret's stand-in is among what is to be written: it would replace the secret
    that the file may hold, or pass for one."""
    found = PLACEHOLDER.search(text)
    if found:
        raise ToolError(
            f"{found[0]} stands for a secret that was removed before you saw it; it cannot be written into a file. "
            "Change only other lines, or let the user fill it in."
        )


def path_locks(*names: str) -> Callable[[Mapping[str, Any]], tuple[str, ...]]:
    """For `Tool.locks`: the files named by these arguments, in one spelling each."""

    def locks(arguments: Mapping[str, Any]) -> tuple[str, ...]:
        return tuple(_one_spelling(arguments[name]) for name in names if name in arguments)

    return locks


def _one_spelling(path: str) -> str:
    return posixpath.normpath(path.removeprefix(MOUNT).lstrip("/") or ".")
