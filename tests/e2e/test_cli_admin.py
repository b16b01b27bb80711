"""The admin role as a process: it serves, it refuses a taken port, it leaves in good order."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from asyncio.subprocess import PIPE, Process
from pathlib import Path

import httpx
import pytest

from gateway.preflight import http_get
from tests.parts.ports import free_port
from tests.parts.waiting import PATIENCE_S


async def admin(tmp_path: Path, valkey_url: str, port: int) -> Process:
    """Start the role on a database of its own."""
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "gateway", "admin"),
        env={
            "PATH": os.environ["PATH"],
            "HOME": str(tmp_path),
            "TRIVET_DATA_DIR": str(tmp_path),
            "TRIVET_REDIS__URL": valkey_url,
            "TRIVET_HTTP__PORT": str(port),
            "TRIVET_CHANNELS__TELEGRAM__ENABLED": "true",
        },
        cwd=tmp_path,
        stderr=PIPE,
    )


async def test_the_role_serves_until_it_is_told_to_stop(tmp_path: Path, valkey_url: str, sqlite_url: str) -> None:
    """Whoever listens to the task board holds nothing up."""
    assert sqlite_url.endswith(f"{tmp_path}/trivet.db")
    port = free_port()
    process = await admin(tmp_path, valkey_url, port)
    while await http_get("127.0.0.1", port, "/healthz") is None:
        assert process.returncode is None, await process.stderr.read() if process.stderr else b""
        await asyncio.sleep(0.05)
    ready = await http_get("127.0.0.1", port, "/readyz", timeout_s=PATIENCE_S)
    assert ready is not None
    assert ready.status == 503
    token = await asyncio.to_thread((tmp_path / "admin-token").read_text)
    base = f"http://127.0.0.1:{port}"
    async with httpx.AsyncClient(base_url=base, trust_env=False, timeout=PATIENCE_S) as client:
        assert (await client.get("/api/v1/sessions")).status_code == 401
        client.headers["Authorization"] = f"Bearer {token.strip()}"
        answer = await client.get("/api/v1/sessions")
        assert (answer.status_code, answer.json()) == (200, [])
        async with client.stream("GET", "/api/v1/tasks/events") as events:
            lines = events.aiter_lines()
            assert await anext(lines) == "retry: 2000"
            process.send_signal(signal.SIGTERM)
            assert "event: board" in [line async for line in lines]  # the stream comes to its own end
    _, said = await process.communicate()
    assert process.returncode == 0
    assert b"Traceback" not in said


@pytest.mark.long
async def test_a_second_one_on_the_same_port_says_so(tmp_path: Path, valkey_url: str) -> None:
    server = await asyncio.start_server(lambda _reader, writer: writer.close(), "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        process = await admin(tmp_path, valkey_url, port)
        _, said = await process.communicate()
    assert process.returncode == 2
    assert said.decode().startswith(f"trivet: cannot listen on 127.0.0.1:{port} (address already in use)")
