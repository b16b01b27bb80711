"""Machines of one's own on this one: network namespaces on a bridge, each with an address, which can be taken off the
network or cut off from each other. Needs root.

    with machines("h1", "h2") as (net, [one, other]):
        one.unplug()               # nothing passes any more, and nobody is told
        net.part()                 # the two no longer reach each other, but whoever is on this side of the bridge
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

_CLONE_NEWNET: Final = 0x40000000
_LIBC: Final = ctypes.CDLL(None, use_errno=True)


@dataclass(frozen=True, slots=True)
class Machine:
    """One namespace; `port` is its place on the bridge."""

    name: str
    address: str
    port: str

    @property
    def command(self) -> Sequence[str]:
        """What runs a command there."""
        return ("nsenter", f"--net=/run/netns/{self.name}")

    def enter(self) -> None:
        """Bring the process that calls it there."""
        file = os.open(f"/run/netns/{self.name}", os.O_RDONLY)
        if _LIBC.setns(file, _CLONE_NEWNET) != 0:
            raise OSError(ctypes.get_errno(), "setns")
        os.close(file)

    def unplug(self) -> None:
        """Pull its cable."""
        _ip("link", "set", self.port, "down")

    def plug(self) -> None:
        """Put it in again."""
        _ip("link", "set", self.port, "up")


@dataclass(frozen=True, slots=True)
class Network:
    """The bridge, and the address of this side of it."""

    address: str
    ports: Sequence[str]

    def part(self) -> None:
        """Let no machine reach another."""
        for port in self.ports:
            _ip("link", "set", port, "type", "bridge_slave", "isolated", "on")

    def join(self) -> None:
        """Let them again."""
        for port in self.ports:
            _ip("link", "set", port, "type", "bridge_slave", "isolated", "off")


def may_make_namespaces() -> bool:
    """Tell whether this process may: not where it is not root, or in a container without the right to."""
    if os.geteuid() != 0:
        return False
    name = f"trivet-try-{os.getpid()}"
    made = subprocess.run(("ip", "netns", "add", name), capture_output=True, check=False).returncode == 0
    if made:
        _ip("netns", "delete", name)
    return made


@contextlib.contextmanager
def machines(*names: str) -> Iterator[tuple[Network, Sequence[Machine]]]:
    """Machines of these names, gone with their network when the block ends; what runs there has to end before."""
    number = os.getpid()
    bridge, subnet = f"tv{number}", f"10.213.{number % 250}"
    made = [
        Machine(f"trivet-{number}-{name}", f"{subnet}.{place}", f"tv{number}p{place}")
        for place, name in enumerate(names, 1)
    ]
    with contextlib.ExitStack() as stack:
        _ip("link", "add", bridge, "type", "bridge")
        stack.callback(_ip, "link", "delete", bridge)
        _ip("address", "add", f"{subnet}.254/24", "dev", bridge)
        _ip("link", "set", bridge, "up")
        for machine in made:
            _ip("netns", "add", machine.name)
            stack.callback(_ip, "netns", "delete", machine.name)
            _ip("link", "add", machine.port, "type", "veth", "peer", "name", "eth0", "netns", machine.name)
            stack.callback(_ip, "link", "delete", machine.port)  # with a namespace it would go some time later
            _ip("link", "set", machine.port, "master", bridge, "up")
            inside = ("-n", machine.name)
            _ip(*inside, "address", "add", f"{machine.address}/24", "dev", "eth0")
            _ip(*inside, "link", "set", "eth0", "up")
            _ip(*inside, "link", "set", "lo", "up")
        yield Network(f"{subnet}.254", [machine.port for machine in made]), made


def _ip(*words: str) -> None:
    subprocess.run(("ip", *words), check=True, capture_output=True)
