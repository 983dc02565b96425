"""The terms of a delivery, common to all its keys: how rows are read, which columns they have, and the policy."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass

from thence.core.model.roster import Roster
from thence.errors import Argument, MisuseError
from thence.tables.contract.columns import By
from thence.tables.delivery.columns import Columns
from thence.tables.delivery.outcome import OUTPUT_COLUMNS
from thence.tables.delivery.policy import Policy
from thence.tables.delivery.reading import Reading

ASK_AT_ONCE = 1000
"""ids that `known` is asked for at once: databases bound the length of a list"""


def check_known(by: By) -> None:
    """Refuse known ids where causes have numbers instead of ids."""
    if by != "depends_on":
        raise MisuseError(
            Argument("known"), " goes with ", Argument("by", "depends_on"), "; ", Argument("by", by),
            " names its causes by number",
        )  # fmt: skip


def known_texts(there: Iterable[object]) -> set[str]:
    """Return the answer of `known` as texts; refuse rows of a query, which would equal no id."""
    found = list(there)
    for each in found:
        if isinstance(there, str) or (hasattr(each, "__len__") and not isinstance(each, str)):
            shown = there if isinstance(there, str) else each
            raise MisuseError(
                f"known returned {shown!r:.60}; a list of ids is expected, as texts, whole numbers or UUIDs: of the "
                "rows of a query, the column of the id"
            )
    return set(map(str, found))


@dataclass(frozen=True)
class DeliveryTerms:
    """How rows are read, which columns they have, and the policy."""

    by: By
    rosters: tuple[Roster, ...]
    columns: Columns
    policy: Policy
    separator: str | None = None
    """Separator of the ids in a text that names several causes."""

    @property
    def needed(self) -> list[str]:
        """Columns that a row must have: those of its key, of its causes, and of what other rows name it by."""
        names = self.columns
        own = {"clock": [names.sender], "depends_on": [names.message]}.get(self.by, [])
        return [*names.key, names.cause, *own]

    def check_columns(self, present: Collection[str], spelled: Callable[[str], str] = str.lower) -> None:
        """Reject a table that lacks a column, or has one that delivery adds; `spelled` normalises names."""
        names = self.columns
        for name in self.needed:
            if name not in present:
                raise names.lacks(name, present)
        for name in present:
            if spelled(name) in OUTPUT_COLUMNS:
                raise MisuseError(f"column {name!r} is one that delivery adds; rename or drop it first")
        if self.policy.after_seconds is not None and names.time not in present:
            raise MisuseError(
                Argument("after_seconds"), f" needs event time in column {names.time!r}; ", Argument("columns"),
                " gives another name",
            )  # fmt: skip

    def reading(self) -> Reading:
        """Return a reader of causes, with nothing read yet."""
        return Reading(self.by, self.rosters, separator=self.separator)
