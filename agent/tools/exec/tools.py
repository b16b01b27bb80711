"""shell and code_exec: the tools that run in the sandbox."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from agent.limits import CODE_CHARS_MAX, SANDBOX_TIMEOUT_MAX_S, SANDBOX_TIMEOUT_S, SECRET_ENV_BYTES_MAX, SECRET_ENV_MAX
from agent.models.requests import ToolSpec
from agent.schema import object_schema, text_schema
from agent.tools.exec.processes import PROGRAM_PATH
from agent.tools.exec.sandbox import ENVIRONMENT, NoSandbox, Sandbox
from agent.tools.files.workspace import Workspaces
from agent.tools.policy import Risk
from agent.tools.tool import AbsentTool, Tool, ToolContext
from gateway.contracts.errors import ToolError
from gateway.contracts.ids import SessionKey

CATEGORY: Final = "execution"
SHELL: Final = "shell"
CODE: Final = "code_exec"
_ENV: Final = "secret_env"

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
_SECRET_ENV: Final = {
    "type": "object",
    "description": "Environment variables with a secret: names, and placeholders that the user's own messages brought, "
    'as in {"TOKEN": "[redacted:kind#1a2b3c]"}. The command reads $TOKEN; it is never part of the command. The user is '
    "asked.",
    "additionalProperties": {"type": "string"},
    "maxProperties": SECRET_ENV_MAX,
}
_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}", re.ASCII)
_CODE: Final = text_schema(CODE_CHARS_MAX)
_SLACK_S: Final = 15.0  # for starting, killing and hearing the end: the sandbox keeps time itself
_ProgramOf = Callable[[Mapping[str, Any]], tuple[Sequence[str], str]]
"""Makes a program of a tool's arguments, and what it is given to read."""


def no_skills(_owner: SessionKey) -> Mapping[str, Path]:
    """Return none."""
    return {}


def execution_tools(
    sandbox: Sandbox | NoSandbox,
    workspaces: Workspaces,
    *,
    has_vault: bool = False,
    skills_of: Callable[[SessionKey], Mapping[str, Path]] = no_skills,
) -> tuple[Sequence[Tool], Sequence[AbsentTool]]:
    """Return the execution tools that this machine can offer, and those that it cannot, with the reason. With a vault
    they take secrets as environment variables. What runs can read the folders of its owner's skills."""
    if isinstance(sandbox, NoSandbox):
        return (), tuple(AbsentTool(name, CATEGORY, sandbox.reason, Risk.EXECUTE) for name in (SHELL, CODE))

    def running(spec: ToolSpec, program_of: _ProgramOf) -> Tool:
        async def run(context: ToolContext, arguments: Mapping[str, Any]) -> str:
            context.reading.is_foreign = True  # it may print a file that others wrote
            workspace = workspaces.of(context.key)
            program, stdin = program_of(arguments)
            outcome = await sandbox.execute(
                program,
                workspace=workspace.files,
                share=workspace.share,
                timeout_s=arguments.get("timeout_s", SANDBOX_TIMEOUT_S),
                stdin=stdin,
                environment=_environment(arguments),
                skills=skills_of(context.owner),
            )
            if outcome.stopped:
                raise ToolError(f"stopped: {outcome.stopped}\n{outcome.output}".rstrip())
            if outcome.exit_code:
                raise ToolError(f"exit code {outcome.exit_code}\n{outcome.output}".rstrip())
            return outcome.output or "(no output)"

        return Tool(spec, CATEGORY, Risk.EXECUTE, run, timeout_s=SANDBOX_TIMEOUT_MAX_S + _SLACK_S)

    languages = {name: program for name, program in LANGUAGES.items() if shutil.which(program[0], path=PROGRAM_PATH)}
    tools = running(*_shell()), running(*_code(languages))
    return (tuple(tool.with_secrets(_ENV, _SECRET_ENV) for tool in tools) if has_vault else tools), ()


def _shell() -> tuple[ToolSpec, _ProgramOf]:
    spec = ToolSpec(
        SHELL,
        "Run a bash command in the workspace. No network; only the workspace can be written.",
        object_schema({"command": _CODE, "timeout_s": _TIMEOUT}, "command"),
    )
    return spec, lambda arguments: (["bash", "-c", _without_nul(arguments["command"])], "")


def _code(languages: Mapping[str, Sequence[str]]) -> tuple[ToolSpec, _ProgramOf]:
    spec = ToolSpec(
        CODE,
        "Run a program in the workspace and see what it prints. No network; only the workspace can be written.",
        object_schema(
            {"language": {"type": "string", "enum": list(languages)}, "code": _CODE, "timeout_s": _TIMEOUT},
            "language",
            "code",
        ),
    )
    return spec, lambda arguments: (languages[arguments["language"]], arguments["code"])


def _environment(arguments: Mapping[str, Any]) -> Mapping[str, str]:
    """Read the variables that carry secrets. Raises `ToolError` for a name that is no variable, or one that would
    change how programs are found."""
    given: Mapping[str, str] = arguments.get(_ENV, {})
    for name, value in given.items():
        if not _VARIABLE.fullmatch(name) or name in ENVIRONMENT or name.startswith("LD_"):
            raise ToolError(f"{name[:64]!r} is no name for a secret variable")
        if "\0" in value:
            raise ToolError(f"the secret for {name} has a NUL character")
    if sum(len(name) + len(value.encode(errors="replace")) for name, value in given.items()) > SECRET_ENV_BYTES_MAX:
        raise ToolError(f"secret variables hold at most {SECRET_ENV_BYTES_MAX} bytes")
    return given


def _without_nul(command: str) -> str:
    if "\0" in command:
        raise ToolError("a command has no NUL character")
    return command
