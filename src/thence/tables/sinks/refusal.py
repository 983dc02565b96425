"""What a sink says of a row that the target refuses: the transaction, the row and the reason."""

from __future__ import annotations

import json

from thence.core.model.plain import Fields
from thence.errors import TraceError
from thence.tables.sources import WholeTransaction


class RowRefused(TraceError):
    """The target refused a row; nothing of its transaction was written."""

    def __init__(self, transaction: WholeTransaction, number: int | None, change: Fields | None, reason: str) -> None:
        """Name the transaction, the row and the reason.

        Args:
            transaction: the transaction that the target refused.
            number: the place of the refused change in it, from 1; None if the check at its end failed.
            change: the refused change.
            reason: what the target said.
        """
        self.transaction, self.number, self.change, self.reason = transaction, number, change, reason
        super().__init__(str(self))

    def __str__(self) -> str:
        unit = self.transaction
        where = f"{unit.kind} {unit.name} of {unit.source}"
        if self.change is None:
            return f"the target refuses {where} at its end: {self.reason}. Nothing of it was written"
        row = self.change.get("after") or self.change.get("before") or self.change.get("key")
        table = (self.change.get("source") or {}).get("table")
        shown = json.dumps(row, default=str)
        shown = shown if len(shown) <= 300 else shown[:300] + "..."
        return (
            f"the target refuses change {self.number} of {len(unit)} of {where}, op {self.change.get('op')!r} on "
            f"{table}, {shown}: {self.reason}. Nothing of the transaction was written"
        )
