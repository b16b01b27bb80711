"""The images of conversations, as the model client asks for them."""

from __future__ import annotations

import asyncio

from agent.limits import IMAGE_BYTES_MAX
from agent.tools.files.workspace import Homes
from gateway.contracts.errors import ToolError
from gateway.contracts.ids import SessionKey


class WorkspaceGallery:
    """`agent.model.client.Gallery` over the workspaces: nobody sees what lies in another's."""

    def __init__(self, workspaces: Homes) -> None:
        self._workspaces = workspaces

    async def bytes_of(self, key: SessionKey, path: str) -> bytes | None:
        """An image of the conversation, as long as it is there."""
        return await asyncio.to_thread(self._read, key, path)

    def _read(self, key: SessionKey, path: str) -> bytes | None:
        try:
            return self._workspaces.of(key).read(path, bytes_max=IMAGE_BYTES_MAX)
        except ToolError:
            return None
