"""The bytes of files that go out with a reply, from its commit to its receipt."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from sqlalchemy import Connection, Executable, bindparam, delete, select

from gateway.contracts.entries import FileContent
from gateway.contracts.ids import SessionKey
from gateway.store.dialects import InsertInto, per_dialect
from gateway.store.tables import reply_files

_CONTENT: Final = select(reply_files.c.content).where(
    reply_files.c.reply_id == bindparam("reply"),
    reply_files.c.position == bindparam("place"),
    reply_files.c.key == bindparam("k"),
)
_FORGET: Final = delete(reply_files).where(reply_files.c.reply_id.in_(bindparam("replies", expanding=True)))


@per_dialect
def _put(insert: InsertInto) -> Executable:
    return insert(reply_files).on_conflict_do_nothing(index_elements=[reply_files.c.reply_id, reply_files.c.position])


def put(connection: Connection, key: SessionKey, contents: Sequence[FileContent]) -> None:
    """Keep the bytes; what is known keeps its row, as its reply does."""
    rows = [
        {"reply_id": each.reply_id, "position": each.position, "key": str(key), "content": each.content}
        for each in contents
    ]
    if rows:
        connection.execute(_put(connection), rows)


def content(connection: Connection, *, key: SessionKey, reply_id: str, position: int) -> bytes | None:
    """`Store.file_content`."""
    wanted = {"reply": reply_id, "place": position, "k": str(key)}
    return connection.execute(_CONTENT, wanted).scalar_one_or_none()


def forget(connection: Connection, reply_ids: Sequence[str]) -> None:
    """The deliveries of these replies have ended."""
    connection.execute(_FORGET, {"replies": list(reply_ids)})
