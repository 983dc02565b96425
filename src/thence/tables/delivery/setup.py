"""What all keys of a delivery have in common."""

from __future__ import annotations

from dataclasses import dataclass

from thence.core.model.roster import Roster
from thence.tables.contract.columns import By
from thence.tables.delivery.columns import Columns
from thence.tables.delivery.policy import Policy
from thence.tables.delivery.reading import Reading


@dataclass(frozen=True)
class Setup:
    """How rows are read, which columns they have, and the policy."""

    by: By
    rosters: tuple[Roster, ...]
    columns: Columns
    policy: Policy
    separator: str | None = None
    """Between the ids of a text that names several causes."""

    def reading(self) -> Reading:
        """Return a reader of causes, with nothing read yet."""
        return Reading(self.by, self.rosters, separator=self.separator)
