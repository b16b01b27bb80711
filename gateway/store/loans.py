"""The book of secrets that tools were given: written only, read by the operator and in the export of its owner."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final

from sqlalchemy import Connection

from gateway.contracts.vault import Loan
from gateway.store.engine import Database
from gateway.store.tables import loans

_RECORD: Final = loans.insert()


class SqlLoans:
    """`gateway.contracts.ports.LoanBook`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def record(self, lent: Sequence[Loan]) -> None:
        """Write it down."""
        await self._database.write(partial(_record, lent=lent))


def _record(connection: Connection, lent: Sequence[Loan]) -> None:
    connection.execute(
        _RECORD,
        [
            {
                "at_ms": loan.at_ms,
                "owner": str(loan.name.key.owner),
                "key": str(loan.name.key),
                "person": str(loan.name.sent_by),
                "placeholder": loan.name.placeholder,
                "tool": loan.tool,
                "turn_id": loan.turn_id,
            }
            for loan in lent
        ],
    )
