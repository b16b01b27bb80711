"""Who the agent is and whom it talks to, as the operator wrote it into files of the workspace."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final
from urllib.parse import quote

from agent.editable import EditableFiles
from agent.limits import IDENTITY_FILE_CHARS_MAX
from gateway.contracts.ids import SessionKey
from gateway.contracts.messages import CleanText
from gateway.contracts.ports import Scrubber

ABOUT_THE_USER: Final = "USER.md"
IDENTITY_FILES: Final = ("AGENT.md", "IDENTITY.md", "SOUL.md", ABOUT_THE_USER, "SHIELD.md")


class IdentityFiles:
    """Reads the files in their order; what is said of one user stands in that user's prompts only."""

    def __init__(self, workspace: Path, users: Path, scrubber: Scrubber) -> None:
        self._workspace = workspace
        self._users = users
        self._files = EditableFiles(lambda _path, text: scrubber.scrub(text.strip()), chars_max=IDENTITY_FILE_CHARS_MAX)

    def texts(self, owner: SessionKey) -> Iterator[CleanText]:
        """What the files say to `owner`; missing and empty ones are left out. The user's own `USER.md` follows
        the operator's, and the shield has the last word."""
        for name in IDENTITY_FILES:
            yield from filter(None, (self._files.read(self._workspace / name),))
            if name == ABOUT_THE_USER:
                folder = user_folder(self._users, owner)
                yield from filter(None, (self._files.read(folder / name, within=folder),))


def user_folder(users: Path, owner: SessionKey) -> Path:
    """Where the operator keeps what belongs to one user: `users/telegram:123`. One folder name, whatever the key
    holds: it begins with the channel, and a slash is written %2F."""
    return users / quote(str(owner), safe=":@")
