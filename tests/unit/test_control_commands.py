"""Which commands never wait behind work."""

from __future__ import annotations

import pytest

from gateway.contracts.commands import Command
from gateway.contracts.messages import ControlKind


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("stop", ControlKind.STOP),
        ("status", ControlKind.STATUS),
        ("where", ControlKind.WHERE),
        ("new", None),
        ("press", None),
    ],
)
def test_control_commands_are_known_by_their_names(name: str, kind: ControlKind | None) -> None:
    assert Command(name).control is kind
