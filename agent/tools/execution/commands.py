"""shell and code_exec: what the sandbox offers to the model."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from typing import Any, Final

from agent.limits import CODE_CHARS_MAX, SANDBOX_TIMEOUT_MAX_S, SANDBOX_TIMEOUT_S
from agent.model.client import ToolSpec
from agent.tools.execution.sandbox import PATH, NoSandbox, Outcome, Sandbox
from agent.tools.files.workspace import Workspaces
from agent.tools.permissions import Risk
from agent.tools.tool import AbsentTool, Tool, ToolContext
from gateway.contracts.errors import ToolError

CATEGORY: Final = "execution"
SHELL: Final = "shell"
CODE: Final = "code_exec"

LANGUAGES: Final[Mapping[str, Sequence[str]]] = {
    "python": ("python3", "-"),
    "bash": ("bash", "-s"),
    "javascript": ("node", "-"),
    "perl": ("perl", "-"),
    "ruby": ("ruby", "-"),
}
"""Each reads its program from standard input, so that no file is left behind."""

_TIMEOUT: Final = {
    "type": "number",
    "minimum": 0.1,
    "maximum": SANDBOX_TIMEOUT_MAX_S,
    "description": f"Seconds it may take, {SANDBOX_TIMEOUT_S:g} unless given.",
}
_CODE: Final = {"type": "string", "minLength": 1, "maxLength": CODE_CHARS_MAX}
_SLACK_S: Final = 15.0  # for starting, killing and hearing the end: the sandbox keeps time itself


def execution_tools(
    sandbox: Sandbox | NoSandbox, workspaces: Workspaces
) -> tuple[Sequence[Tool], Sequence[AbsentTool]]:
    """The tools that this machine can offer, and those that it cannot with the reason."""
    if isinstance(sandbox, NoSandbox):
        return (), tuple(AbsentTool(name, CATEGORY, sandbox.reason, Risk.EXECUTE) for name in (SHELL, CODE))
    return (_shell(sandbox, workspaces), _code(sandbox, workspaces, _languages())), ()


def _languages() -> dict[str, Sequence[str]]:
    return {name: program for name, program in LANGUAGES.items() if shutil.which(program[0], path=PATH)}


def _shell(sandbox: Sandbox, workspaces: Workspaces) -> Tool:
    spec = ToolSpec(
        SHELL,
        "Run a bash command in the workspace. No network; only the workspace can be written.",
        {"type": "object", "properties": {"command": _CODE, "timeout_s": _TIMEOUT}, "required": ["command"]},
    )

    async def run(context: ToolContext, arguments: Mapping[str, Any]) -> str:
        return _told(
            await sandbox.run(
                ["bash", "-c", _without_nul(arguments["command"])],
                workspace=workspaces.of(context.key).files,
                timeout_s=arguments.get("timeout_s", SANDBOX_TIMEOUT_S),
            )
        )

    return Tool(spec, CATEGORY, Risk.EXECUTE, run, timeout_s=SANDBOX_TIMEOUT_MAX_S + _SLACK_S)


def _code(sandbox: Sandbox, workspaces: Workspaces, languages: Mapping[str, Sequence[str]]) -> Tool:
    spec = ToolSpec(
        CODE,
        "Run a program in the workspace and see what it prints. No network; only the workspace can be written.",
        {
            "type": "object",
            "properties": {
                "language": {"type": "string", "enum": list(languages)},
                "code": _CODE,
                "timeout_s": _TIMEOUT,
            },
            "required": ["language", "code"],
        },
    )

    async def run(context: ToolContext, arguments: Mapping[str, Any]) -> str:
        return _told(
            await sandbox.run(
                languages[arguments["language"]],
                workspace=workspaces.of(context.key).files,
                timeout_s=arguments.get("timeout_s", SANDBOX_TIMEOUT_S),
                stdin=arguments["code"],
            )
        )

    return Tool(spec, CATEGORY, Risk.EXECUTE, run, timeout_s=SANDBOX_TIMEOUT_MAX_S + _SLACK_S)


def _without_nul(command: str) -> str:
    if "\0" in command:
        raise ToolError("a command has no NUL character")
    return command


def _told(outcome: Outcome) -> str:
    """The output of a run that ended well. Raises `ToolError` with the output for any other."""
    if outcome.stopped:
        raise ToolError(f"stopped: {outcome.stopped}\n{outcome.output}".rstrip())
    if outcome.exit_code:
        raise ToolError(f"exit code {outcome.exit_code}\n{outcome.output}".rstrip())
    return outcome.output or "(no output)"
