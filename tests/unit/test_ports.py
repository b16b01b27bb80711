from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path
from typing import Final

from tests.parts.ports import BLOCK, LOOPBACK, free_port, free_ports

ROOT: Final = Path(__file__).parents[2]
LOWEST_OF_THE_SYSTEM: Final = 32_768


def test_a_port_that_was_given_is_given_to_no_other_process() -> None:
    """Every one of our ports, against every one of somebody else's."""
    program = f"from tests.parts.ports import free_ports; print(*free_ports({BLOCK - 1}))"
    other = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, check=True, text=True)
    ours = free_ports(BLOCK - 1)
    theirs = [int(port) for port in other.stdout.split()]
    assert len(theirs) == BLOCK - 1
    assert not set(ours) & set(theirs)


def test_the_same_port_does_not_come_soon_again() -> None:
    ports = free_ports(BLOCK // 2)
    assert len(set(ports)) == len(ports)
    assert free_port() not in ports


def test_the_system_chooses_none_of_them_for_a_connection() -> None:
    assert max(free_ports(BLOCK // 2)) < LOWEST_OF_THE_SYSTEM


def test_a_port_that_somebody_listens_on_is_passed_over() -> None:
    around = free_ports(2)
    with socket.create_server((LOOPBACK, around[0])):
        assert around[0] not in free_ports(BLOCK // 2) + free_ports(BLOCK // 2)
