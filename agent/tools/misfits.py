"""What does not fit a schema, in words for the model that wrote it. Pure."""

from __future__ import annotations

from typing import Final

from jsonschema import ValidationError

_PROBLEM_CHARS_MAX: Final = 200
_LENGTHS: Final = {"maxItems": "items", "maxLength": "characters"}


def misfit(problem: ValidationError) -> str:
    """Where, and what is wrong. A value that is too long is not quoted: what is wrong would stand behind it."""
    if problem.validator in _LENGTHS and isinstance(problem.instance, str | list):
        said = f"it has {len(problem.instance)} {_LENGTHS[problem.validator]}; at most {problem.validator_value}"
    else:
        said = problem.message[:_PROBLEM_CHARS_MAX]
    is_quoted = isinstance(problem.instance, str) and problem.validator_value in ("array", "object")
    remedy = " (write the JSON itself, not a string of it)" if is_quoted else ""
    return f"{problem.json_path}: {said}{remedy}"
