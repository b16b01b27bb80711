"""Public addresses that are this machine's own or its neighbours': nothing is fetched from them. In network namespaces
of their own, which are given the addresses of a server in a data centre."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import sys
from typing import Any, Final

import pytest

from agent.subagents.confinement import ROOT
from gateway.public_web import is_near

OWN: Final = ("185.199.108.1", "2606:4700:1:2::1", "93.184.216.34", "2606:4700:9::1", "64:ff9b::93.184.216.34")
"""In a network with others, and alone; the last is reached through a translator."""
NEIGHBOURS: Final = ("185.199.108.7", "185.199.108.255", "2606:4700:1:2::77", "185.50.3.3", "64:ff9b::185.199.108.7")
ELSEWHERE: Final = ("1.1.1.1", "9.1.1.1", "2606:4700:4700::1111")
PLACES: Final = """
ip link set lo up
ip link add net type veth peer name far
ip addr add 185.199.108.1/24 dev net
ip addr add 2606:4700:1:2::1/64 dev net nodad
ip addr add 93.184.216.34/32 dev lo
ip addr add 2606:4700:9::1/128 dev lo
ip link set net up
ip link set far up
ip route add default via 185.199.108.254
ip route add 185.50.3.3/32 dev net
ip route add 8.0.0.0/7 dev far
ip -6 route add default via 2606:4700:1:2::fe
"""
"""A server with guests: two addresses of a network, two that are routed to it, a guest of its own, and a tunnel (`far`)
that takes a part of the internet without naming a gateway."""
ASKING: Final = """
import asyncio, json, sys
from agent.tools.web import session
from agent.tools.web.session import WebSession
from gateway import public_web
from gateway.contracts.errors import ToolError
from gateway.public_web import PublicConnector, Unreachable

session.WEB_TIMEOUT_S = public_web.WEB_CONNECT_S = 0.2  # nobody answers elsewhere
WAYS = {"web_fetch": lambda web, host: web.get(f"http://{host}:8080/"),
        "browser": lambda web, host: PublicConnector().connect(host.strip("[]"), 8080)}

async def main():
    reached = []
    async def serve(reader, writer):
        reached.append(writer.get_extra_info("sockname")[0])
        writer.close()
    server = await asyncio.start_server(serve, None, 8080)
    said = {}
    async with WebSession() as web:
        for address in sys.argv[1:]:
            for name, ask in WAYS.items():
                try:
                    await ask(web, f"[{address}]" if ":" in address else address)
                    said.setdefault(address, {})[name] = "was let through"
                except ToolError as error:
                    said.setdefault(address, {})[name] = str(error)
    server.close()
    print(json.dumps([said, reached]))

asyncio.run(main())
"""


def in_a_data_centre(places: str, code: str, *arguments: str) -> Any:
    """What the code prints there, as JSON."""
    command = f'set -e\n{places}\nexec "$@"'
    inside = ["unshare", "--user", "--map-root-user", "--net", "sh", "-c", command, "sh", sys.executable, "-c", code]
    done = subprocess.run([*inside, *arguments], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def has_namespaces() -> bool:
    """Whether a network can be made here. Some systems let only root do that, and Linux alone has it."""
    if not (shutil.which("unshare") and shutil.which("ip")):
        return False
    return subprocess.run(["unshare", "--user", "--map-root-user", "--net", "true"], check=False).returncode == 0


@pytest.mark.skipif(not has_namespaces(), reason="no network namespaces here")
@pytest.mark.long
def test_neither_this_machine_nor_its_neighbours_are_fetched_from() -> None:
    said, reached = in_a_data_centre(PLACES, ASKING, *OWN, *NEIGHBOURS, *ELSEWHERE)
    assert reached == []
    refused = [
        address for address, told in said.items() if all("not on the public web" in one for one in told.values())
    ]
    assert refused == [*OWN, *NEIGHBOURS]
    assert not any("not on the public web" in one for address in ELSEWHERE for one in said[address].values())


@pytest.mark.parametrize("address", ["127.0.0.1", "::1"])
def test_a_system_that_does_not_tell_its_networks_knows_its_own_addresses(
    monkeypatch: pytest.MonkeyPatch, address: str
) -> None:
    def refusing(family: int, *rest: int) -> socket.socket:
        if family not in (socket.AF_INET, socket.AF_INET6):
            raise OSError("Address family not supported by protocol")
        return made(family, *rest)

    made = socket.socket
    monkeypatch.setattr(socket, "socket", refusing)
    assert is_near(address)
    assert not is_near("1.1.1.1")
