"""A model's arguments: JSON, sometimes broken, sometimes in escapes. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any, Final, Never

import json_repair

from agent.limits import TOOL_ARGUMENTS_CHARS_MAX
from gateway.contracts.errors import ToolError
from gateway.contracts.messages import CleanText
from gateway.scrub.structured import each_text

_ESCAPED: Final = re.compile(r"\\u([0-9a-fA-F]{4})")


def parse_arguments(text: str) -> Mapping[str, Any]:
    """The arguments as an object; broken JSON is repaired where that is possible. Raises `ToolError`."""
    if len(text) > TOOL_ARGUMENTS_CHARS_MAX:
        raise ToolError(f"the arguments are longer than {TOOL_ARGUMENTS_CHARS_MAX} characters")
    try:
        value = _loaded(text or "{}")
    except RecursionError as error:
        raise ToolError("the arguments are nested too deeply") from error
    if not isinstance(value, dict):
        raise ToolError("the arguments are no JSON object")
    return value


def _loaded(text: str) -> object:
    try:
        return json.loads(text, parse_constant=_no_number)
    except ValueError:
        return json_repair.loads(text)


def _no_number(name: str) -> Never:
    """NaN is within all bounds, because it is beyond none."""
    raise ToolError(f"the arguments hold {name}, which is no number in JSON")


def cleaned(text: str, scrub: Callable[[str], CleanText]) -> CleanText:
    """The same arguments, clean: each text in them as it is, then all of it as it is written, where the name of a
    value may say that it is secret."""
    try:
        value = json.loads(text or "{}")
    except (ValueError, RecursionError):
        return scrub(written_out(text))
    return scrub(written_out(json.dumps(each_text(value, scrub))))


def written_out(text: str) -> str:
    """The same arguments with every character as itself: a word in `\\u` escapes is hidden from the scrubber."""
    try:
        written = json.dumps(json.loads(text or "{}"), ensure_ascii=False)
    except (ValueError, RecursionError):
        written = _ESCAPED.sub(lambda escaped: chr(int(escaped[1], 16)), text)
    return written.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
