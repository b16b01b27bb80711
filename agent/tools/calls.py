"""One call between the model that makes it and the tool that runs: checked, and timed."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from itertools import islice
from typing import Any, Final

from jsonschema import Draft202012Validator
from referencing import Registry

from agent.running.deadlines import Deadline
from agent.tools.arguments import parse_arguments
from agent.tools.misfits import misfit
from agent.tools.tool import Tool, ToolContext
from gateway.contracts.errors import ToolError

_PROBLEMS_SHOWN: Final = 5


class Fitting:
    """Makes arguments of what a model wrote, if they fit the schema of a tool."""

    def __init__(self, schema: Mapping[str, Any]) -> None:
        # With an empty registry: without one, a `$ref` in a stranger's schema would be fetched from wherever.
        self._validator = Draft202012Validator(schema, registry=Registry())

    def arguments(self, text: str) -> Mapping[str, Any]:
        """The arguments; broken JSON is repaired where that is possible. Raises `ToolError`."""
        arguments = parse_arguments(text)
        problems = list(islice(self._validator.iter_errors(arguments), _PROBLEMS_SHOWN))
        if problems:
            raise ToolError("; ".join(map(misfit, sorted(problems, key=lambda problem: list(problem.path)))))
        return arguments


def check_schema(schema: Mapping[str, Any]) -> None:
    """Raises `SchemaError`."""
    _check(json.dumps(schema, sort_keys=True))


@cache
def _check(schema: str) -> None:
    """Our own schemas are the same in every registry, and looking at all of them takes 0.2 s."""
    Draft202012Validator.check_schema(json.loads(schema))


async def run_in_time(tool: Tool, context: ToolContext, arguments: Mapping[str, Any]) -> str:
    """Run a tool. Raises `ToolError`, also when its time is over."""
    limit = Deadline(tool.timeout_s)
    try:
        async with limit:
            return await tool.run(context, arguments)
    except TimeoutError as error:
        if not limit.has_passed:
            raise
        raise ToolError(f"{tool.spec.name} did not finish within {tool.timeout_s:g} s") from error
