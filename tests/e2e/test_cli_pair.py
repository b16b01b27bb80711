"""`trivet pair`: from the code a stranger was given to a grant that intake sees."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

from gateway.bus.bus import open_bus
from gateway.bus.embedded import EmbeddedValkey
from gateway.contracts.access import Projection
from gateway.contracts.ids import SessionKey
from gateway.contracts.sessions import GrantRole
from gateway.store import open_store
from gateway.store.migrations import migrate
from tests.parts.keepers import pairing

STRANGER = SessionKey("telegram", "42")


async def pair(data_dir: Path, *arguments: str) -> tuple[int, str]:
    """Exit code and everything said."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "gateway", "pair", *arguments),
        env={"PATH": os.environ["PATH"], "HOME": str(data_dir), "TRIVET_DATA_DIR": str(data_dir)},
        cwd=data_dir,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    said, _ = await process.communicate()
    assert process.returncode is not None
    return process.returncode, said.decode()


async def test_a_code_lets_its_stranger_in_once(tmp_path: Path) -> None:
    url = f"sqlite+aiosqlite:///{tmp_path}/trivet.db"
    await migrate(url)
    server = EmbeddedValkey(tmp_path)
    store = open_store(url)
    bus = await open_bus(await server.start(), installation=await store.installation())
    try:
        await bus.access.project(Projection())
        asked = await bus.access.ask_pairing(pairing(STRANGER, "ABCDEFGH"), ttl_s=60, pending_max=3)
        assert asked.code == "ABCDEFGH"
        assert await pair(tmp_path, "abcdefgh", "admin") == (0, "telegram:42 is admin now.\n")
        assert (await bus.access.view(STRANGER)).granted == "admin"
        grants = await store.access.grants()
        assert [(grant.key, grant.role, grant.granted_by) for grant in grants] == [(STRANGER, GrantRole.ADMIN, "cli")]
        exit_code, said = await pair(tmp_path, "ABCDEFGH")
        assert exit_code == 1
        assert said.startswith("trivet: no person waits with the code ABCDEFGH")
    finally:
        await store.close()
        await bus.close()
        await server.stop()
