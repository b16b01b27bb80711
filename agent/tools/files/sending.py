"""send_file: a file of the workspace goes to whoever asked, behind the words of the turn's answer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from agent.limits import FILE_CAPTION_CHARS_MAX, SENT_FILE_BYTES_MAX
from agent.model.client import ToolSpec
from agent.running.slots import Threads
from agent.tools.enclosures import Enclosed
from agent.tools.files.content import path_locks
from agent.tools.files.naming import media_type, safe_name
from agent.tools.files.reading import PATH
from agent.tools.files.workspace import Workspaces
from agent.tools.permissions import Risk
from agent.tools.tool import Tool, ToolContext
from gateway.contracts.errors import ToolError
from gateway.contracts.messages import CleanText
from gateway.contracts.ports import Scrubber
from gateway.limits import SCRUBBED_FILE_BYTES_MAX
from gateway.scrub.files import without_secrets
from gateway.scrub.readable import is_text

_SPEC: Final = ToolSpec(
    "send_file",
    "Send a file of the workspace to the user, together with your answer. It is sent as it is now: later changes "
    "do not matter.",
    {
        "type": "object",
        "properties": {
            "path": PATH,
            "caption": {
                "type": "string",
                "maxLength": FILE_CAPTION_CHARS_MAX,
                "description": "A line below the file; plain text.",
            },
        },
        "required": ["path"],
    },
)


def sending_tool(workspaces: Workspaces, scrubber: Scrubber, threads: Threads) -> Tool:
    """`send_file` on the workspace of whoever asks.

    As harmless as an answer, hence its risk: it tells the person who asked what this conversation already holds.
    """

    async def run(context: ToolContext, arguments: Mapping[str, Any]) -> str:
        if context.enclosures is None:
            raise ToolError("no file can be sent from here")
        path = arguments["path"]
        workspace = workspaces.of(context.key)
        content = await threads.run(context.owner, lambda: workspace.read(path, bytes_max=SENT_FILE_BYTES_MAX))
        if not content:
            raise ToolError(f"{path} is empty: platforms refuse empty files")
        is_readable, of_chat = is_text(content), scrubber.for_chat(str(context.key))
        clean = await _scrubbed(path, content, of_chat) if is_readable else content
        name = of_chat.scrub(safe_name(path))
        context.enclosures.add(Enclosed(name, media_type(name, content), clean, _one_line(arguments, of_chat)))
        return f"{name} ({len(clean)} bytes) goes out with your answer.{_note(content, clean, is_readable=is_readable)}"

    return Tool(_SPEC, "files", Risk.READ, run, locks=path_locks("path"), quotes=True)


def _one_line(arguments: Mapping[str, Any], scrubber: Scrubber) -> CleanText:
    return scrubber.scrub(" ".join(arguments.get("caption", "").split()))


def _note(content: bytes, clean: bytes, *, is_readable: bool) -> str:
    if not is_readable:
        return " It is no text, so nobody looked for secrets in it."
    return " Secrets in it were replaced by placeholders." if clean != content else ""


async def _scrubbed(path: str, content: bytes, scrubber: Scrubber) -> bytes:
    """A text without secrets. Raises `ToolError` for one that is too long to be looked through."""
    if len(content) > SCRUBBED_FILE_BYTES_MAX:
        raise ToolError(f"{path} is a text of more than {SCRUBBED_FILE_BYTES_MAX} bytes: send it in parts")
    clean = await without_secrets(content, scrubber)
    if clean is None:
        raise ToolError(f"{path} could not be looked through for secrets in time, so it is not sent")
    return clean
