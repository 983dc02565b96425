"""The plain stepper behind the face of the array stepper: Arrow columns in, output columns out.

Law. What leaves is what `plain.Delivery` lets go, row by row.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from thence.delivery.arrow_rows import Ints, Leaving, Rows, leaving
from thence.delivery.outcome import Outcome
from thence.delivery.plain import Delivery
from thence.delivery.plain_state import resumed, state_of
from thence.delivery.policy import Policy
from thence.delivery.reading import Read, Reading
from thence.delivery.state import State
from thence.model.plain import Field


class PlainStepper:
    """Steps through rows one by one; `refused` says why no row of this key can be used, or is None."""

    def __init__(self, delivery: Delivery, refused: str | None = None) -> None:
        """Take the delivery of a key."""
        self.delivery, self.refused = delivery, refused

    @classmethod
    def resume(
        cls, state: State | None, reading: Reading, policy: Policy, where: str, refused: str | None
    ) -> PlainStepper:
        """Go on from a state, or begin."""
        made = Delivery(reading, policy, where) if state is None else resumed(state, reading, policy, where)
        return cls(made, refused)

    @property
    def tickets(self) -> Ints:
        """The tickets of the held rows."""
        return np.array(list(self.delivery.kept), np.int64)

    @property
    def rows(self) -> int:
        """How many rows have come."""
        return self.delivery.rows

    def step(self, rows: Rows) -> Leaving:
        """Take new rows; return those that leave."""
        columns = (rows.message, rows.sender, rows.destination, rows.cause)
        lists: list[list[Field]] = [[None] * rows.count if c is None else c.to_pylist() for c in columns]
        delivery, out = self.delivery, list[Outcome]()
        delivery.moment = rows.moment
        reads: Iterable[Read | str] = (self.refused or delivery.reading.read(*row) for row in zip(*lists, strict=True))
        if delivery.reading.by == "depends_on":  # a stamp is read as those before it say
            reads = list(reads)
            delivery.expect(reads)
        for read, time, message in zip(reads, rows.times.tolist(), lists[0], strict=True):
            out += delivery.push(read, None if message is None else str(message), None if time != time else time)
        delivery.expect(())
        return leaving(out)

    def state(self, messages: list[str | None]) -> State:
        """Return the state; the ids of held rows are known already."""
        return state_of(self.delivery)
