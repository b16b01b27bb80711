"""Where a Matrix answer goes, and how its ids stand in session keys."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from urllib.parse import quote

from channels.core.message import canonical, target_fields, text
from gateway.contracts.errors import BadEnvelope


@dataclass(frozen=True, slots=True)
class MatrixTarget:
    """A room, and the event that began the thread, None outside of threads."""

    room_id: str
    thread_id: str | None = None

    @property
    def lane(self) -> str:
        return canonical(asdict(self))


def make_target(target: MatrixTarget) -> str:
    """Canonical JSON."""
    return canonical(asdict(target))


def parse_target(target: str) -> MatrixTarget:
    """The inverse of `make_target`. Raises `BadEnvelope`."""
    fields = target_fields(target)
    if not text(fields.get("room_id")):
        raise BadEnvelope("a Matrix target without room_id")
    return MatrixTarget(text(fields.get("room_id")), text(fields.get("thread_id")) or None)


def key_part(matrix_id: str) -> str:
    """`@ann:example.org` as it may stand in a session key, where a colon means something else."""
    return quote(matrix_id, safe="@!$")
