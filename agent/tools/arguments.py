"""A model's arguments: JSON, sometimes broken, sometimes in escapes. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from math import isinf
from typing import Any, Final, Never

import json_repair
from jsonschema import ValidationError

from agent import limits
from gateway.contracts.errors import ToolError
from gateway.contracts.messages import CleanText, each_text
from gateway.contracts.sessions import ToolCall

_ESCAPED: Final = re.compile(r"\\u([0-9a-fA-F]{4})")


def parse_arguments(text: str) -> Mapping[str, Any]:
    """Read the arguments as an object; short broken JSON is repaired where that is possible. Raises `ToolError`.

    Runs on the event loop, so every bound is one at which the worst case was measured."""
    if len(text) > limits.TOOL_ARGUMENTS_CHARS_MAX:
        raise ToolError(f"the arguments are longer than {limits.TOOL_ARGUMENTS_CHARS_MAX} characters")
    try:
        value = _loaded(text or "{}")
    except RecursionError as error:
        raise ToolError("the arguments are nested too deeply") from error
    if not isinstance(value, dict):
        raise ToolError("the arguments are no JSON object")
    _check_size(value)
    return value


def _loaded(text: str) -> object:
    try:
        return json.loads(text, parse_float=_number, parse_constant=_no_number)
    except json.JSONDecodeError as error:
        if _ends_early(text, error):
            raise ToolError(
                "the arguments end before they are complete, so nothing was done: write it again"
            ) from error
        first, rest = text[: error.pos].strip(), text[error.pos :].strip(" \t\r\n,;")
        if error.msg == "Extra data" and rest.startswith("{") and "{}" not in (first, rest) and first != rest:
            raise ToolError(  # a repair would keep the last
                "the arguments hold more than one object, so nothing was done: make a call for each"
            ) from error
        openings = sum(map(text.count, "{[("))
        if len(text) > limits.REPAIRED_CHARS_MAX or openings > limits.REPAIRED_OPENINGS_MAX:
            raise ToolError(f"the arguments are not JSON ({error}): write it again") from error
        return json_repair.loads(text)


def _ends_early(text: str, error: json.JSONDecodeError) -> bool:
    """Tell whether the arguments are cut off at their end. A repair would close the open string, and half of a text
    would be taken for all of it."""
    if error.msg == "Extra data":
        return False
    has_open_text = error.msg.startswith("Unterminated string")
    return has_open_text or error.pos >= len(text.rstrip()) or not text.rstrip("` \t\r\n").endswith("}")


def _check_size(value: object) -> None:
    """Raise `ToolError` for more values, or deeper ones, than the checks that follow can bear."""
    level, count = [value], 0
    for _ in range(limits.ARGUMENTS_DEPTH_MAX):
        level = [inner for each in level for inner in _inside(each)]
        count += len(level)
        if count > limits.ARGUMENTS_VALUES_MAX:
            raise ToolError(
                f"the arguments hold more than {limits.ARGUMENTS_VALUES_MAX} values: do it in several calls"
            )
        if not level:
            return
    raise ToolError("the arguments are nested too deeply")


def _inside(value: object) -> Iterable[object]:
    match value:
        case dict():
            return value.values()
        case list():
            return value
    return ()


def _number(written: str) -> float:
    """Read a number with a point or an exponent; a whole one is an integer, which code that counts wants. Raises
    `ToolError`."""
    number = float(written)
    return int(number) if number.is_integer() else _no_number(written) if isinf(number) else number


def _no_number(name: str) -> Never:
    """Refuse NaN and Infinity: NaN would pass every bound, because it exceeds none. Raises `ToolError`."""
    raise ToolError(f"the arguments hold {name}, which is no number that can be used")


def cleaned(text: str, scrub: Callable[[str], CleanText]) -> CleanText:
    """Scrub the arguments twice: each text by itself, then the whole JSON, where the name of a value may show that the
    value is secret."""
    try:
        value = json.loads(text or "{}")
    except (ValueError, RecursionError):
        return scrub(written_out(text))
    return scrub(written_out(json.dumps(each_text(value, scrub))))


def clean_call(id_: str, name: str, arguments: str, scrub: Callable[[str], CleanText]) -> ToolCall:
    """Clean a call with its name and id, because a model wrote these too."""
    return ToolCall(scrub(id_), scrub(name), cleaned(arguments, scrub))


def written_out(text: str) -> str:
    r"""Write the arguments with every character unescaped: the scrubber does not recognise a word in `\u` escapes."""
    try:
        written = json.dumps(json.loads(text or "{}"), ensure_ascii=False)
    except (ValueError, RecursionError):
        written = _ESCAPED.sub(lambda escaped: chr(int(escaped[1], 16)), text)
    return written.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


# What does not fit a schema, in words for the model that wrote it. Pure.


_PROBLEM_CHARS_MAX: Final = 200
_LENGTHS: Final = {"maxItems": "items", "maxLength": "characters"}


def schema_problem(problem: ValidationError) -> str:
    """Say which argument is wrong and why. A value that is too long is not quoted, because the quotation would push the
    reason out of sight."""
    if problem.validator in _LENGTHS and isinstance(problem.instance, str | list):
        said = f"it has {len(problem.instance)} {_LENGTHS[problem.validator]}; at most {problem.validator_value}"
    else:
        said = problem.message[:_PROBLEM_CHARS_MAX]
    is_quoted = isinstance(problem.instance, str) and problem.validator_value in ("array", "object")
    remedy = " (write the JSON itself, not a string of it)" if is_quoted else ""
    return f"{problem.json_path}: {said}{remedy}"


# What a model is told of a schema. Pure.


_BOUNDS: Final = frozenset(
    {
        *("minLength", "maxLength", "pattern", "minItems", "maxItems"),
        *("minimum", "maximum", "exclusiveMinimum", "additionalProperties"),
    }
)


def without_bounds(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """Copy the schema without the bounds of its values: they would take room in every prompt, and a model that exceeds
    one is told so. Arguments still have to fit the full schema."""
    return {name: _told(name, value) for name, value in schema.items() if name not in _BOUNDS}


def _told(name: str, value: Any) -> Any:
    if name == "properties":  # the names below are the model's to use, whatever they are called
        return {field: without_bounds(of_field) for field, of_field in value.items()}
    return without_bounds(value) if isinstance(value, dict) else value
