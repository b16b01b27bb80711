"""Names and types of sent files, for people on any platform. Pure.

The name is what a workspace calls it, without whatever could deceive a reader or a file system: folders,
control characters, marks that turn the direction of writing (`exe.gpj` for `jpg.exe`), invisible ones."""

from __future__ import annotations

import mimetypes
import posixpath
import re
import unicodedata
from collections.abc import Mapping
from typing import Any, Final

from agent.limits import FILE_CAPTION_CHARS_MAX, FILE_NAME_BYTES_MAX, FILE_NAME_CHARS_MAX, SENT_FILE_BYTES_MAX
from agent.models.requests import ToolSpec
from agent.schema import object_schema
from agent.tools.files.paths import path_locks
from agent.tools.files.tools import PATH
from agent.tools.files.workspace import Workspaces
from agent.tools.policy import Risk
from agent.tools.tool import Enclosed, Tool, ToolContext
from gateway.contracts.errors import ToolError
from gateway.limits import SCRUBBED_FILE_BYTES_MAX
from gateway.scrub import Scrubber
from gateway.scrub.raw_text import is_text
from gateway.scrub.scrubber import without_secrets
from gateway.tasks import SharedThreads

OCTETS: Final = "application/octet-stream"
_PLAIN: Final = "text/plain"
_NAMELESS: Final = "file"
_HIDDEN: Final = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
"""Categories of characters that nobody sees, the marks of direction among them."""

_RESERVED: Final = re.compile(r'[<>:"/\\|?*]')
_ENDING_CHARS_MAX: Final = 16
_TEXTUAL: Final = re.compile(r"text/.+|image/svg\+xml|application/(?:.+\+)?(?:json|xml|yaml|toml|sql|javascript)")
_BY_NAME: Final = {".md": "text/markdown", ".csv": "text/csv", ".yaml": "application/yaml", ".yml": "application/yaml"}
"""Types that the system's table may lack."""


def safe_name(path: str) -> str:
    """Turn the last part of a path into a file name that is safe everywhere, of at most FILE_NAME_CHARS_MAX characters
    and FILE_NAME_BYTES_MAX bytes."""
    name = unicodedata.normalize("NFC", posixpath.basename(path.replace("\\", "/")))
    seen = "".join(char for char in name if unicodedata.category(char) not in _HIDDEN)
    tidy = _RESERVED.sub("_", seen).strip(" .")
    stem, ending = posixpath.splitext(tidy)
    if len(ending) > _ENDING_CHARS_MAX:
        stem, ending = tidy, ""
    short = stem[: FILE_NAME_CHARS_MAX - len(ending)].encode()[: FILE_NAME_BYTES_MAX - len(ending.encode())]
    return (short.decode(errors="ignore").rstrip(" .") + ending) or _NAMELESS


def media_type(name: str, content: bytes) -> str:
    """Detect the media type from the content. The name only chooses among the kinds of text, and among packed formats
    that look alike."""
    if is_text(content):
        named = _BY_NAME.get(posixpath.splitext(name)[1].lower()) or mimetypes.guess_type(name)[0] or _PLAIN
        return named if _TEXTUAL.fullmatch(named) else _PLAIN
    import puremagic  # noqa: PLC0415 - start-up: it reads a table of a thousand signatures

    try:
        return puremagic.from_string(content, mime=True, filename=name) or OCTETS
    except (puremagic.PureError, ValueError):
        return OCTETS


# send_file: a file of the workspace goes to the person who asked, after the text of the turn's answer.


_CAPTION: Final = {
    "type": "string",
    "maxLength": FILE_CAPTION_CHARS_MAX,
    "description": "A line below the file; plain text.",
}
_SPEC: Final = ToolSpec(
    "send_file",
    "Send a file of the workspace to the user, together with your answer. It is sent as it is now: later changes "
    "do not matter.",
    object_schema({"path": PATH, "caption": _CAPTION}, "path"),
)


def sending_tool(workspaces: Workspaces, scrubber: Scrubber, threads: SharedThreads) -> Tool:
    """Build `send_file` for the workspace of the conversation that calls it.

    Its risk is that of an answer: it sends to the person who asked only what this conversation already holds."""

    async def run(context: ToolContext, arguments: Mapping[str, Any]) -> str:
        if context.enclosures is None:
            raise ToolError("no file can be sent from here")
        path = arguments["path"]
        workspace = workspaces.of(context.key)
        content = await threads.call(context.owner, lambda: workspace.read(path, bytes_max=SENT_FILE_BYTES_MAX))
        if not content:
            raise ToolError(f"{path} is empty: platforms refuse empty files")
        is_readable, of_chat = is_text(content), scrubber.for_chat(str(context.key))
        clean = await _scrubbed(path, content, of_chat) if is_readable else content
        name, caption = of_chat.scrub(safe_name(path)), of_chat.scrub(" ".join(arguments.get("caption", "").split()))
        context.enclosures.add(Enclosed(name, media_type(name, content), clean, caption))
        return f"{name} ({len(clean)} bytes) goes out with your answer.{_note(content, clean, is_readable=is_readable)}"

    return Tool(_SPEC, "files", Risk.READ, run, locks=path_locks("path"), quotes=True)


def _note(content: bytes, clean: bytes, *, is_readable: bool) -> str:
    if not is_readable:
        return " It is no text, so nobody looked for secrets in it."
    return " Secrets in it were replaced by placeholders." if clean != content else ""


async def _scrubbed(path: str, content: bytes, scrubber: Scrubber) -> bytes:
    """Scrub the secrets from a text file. Raises `ToolError` for one that is too long to be scanned."""
    if len(content) > SCRUBBED_FILE_BYTES_MAX:
        raise ToolError(f"{path} is a text of more than {SCRUBBED_FILE_BYTES_MAX} bytes: send it in parts")
    clean = await without_secrets(content, scrubber)
    if clean is None:
        raise ToolError(f"{path} could not be looked through for secrets in time, so it is not sent")
    return clean
