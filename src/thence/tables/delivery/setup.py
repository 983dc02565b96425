"""What all keys of a delivery have in common."""

from __future__ import annotations

from dataclasses import dataclass

from thence.core.model.roster import Roster
from thence.errors import Argument, MisuseError
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

    def check_known(self) -> None:
        """Refuse known ids where causes have numbers instead of ids."""
        if self.by != "depends_on":
            raise MisuseError(
                Argument("known"), " goes with ", Argument("by", "depends_on"), "; ", Argument("by", self.by),
                " names its causes by number",
            )  # fmt: skip

    def reading(self) -> Reading:
        """Return a reader of causes, with nothing read yet."""
        return Reading(self.by, self.rosters, separator=self.separator)
