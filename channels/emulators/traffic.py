"""What travels on an emulated wire, and how much of it is remembered."""

from __future__ import annotations

from typing import Any, Final, TypeAlias

Json: TypeAlias = dict[str, Any]
"""One JSON object as a vendor's wire carries it. It stays at the edge: inside, there are dataclasses."""

RECORDED_MAX: Final = 10_000  # how much of what came and went is kept for tests to look at
