"""The columns of both tables, stated once: events (a trace) and arrivals (copies waiting to be delivered).

*Invariant.* Names, types, bounds and meanings stand here and nowhere else. The Arrow schema
(`tables.contract.spark_to_arrow_types`), Spark's schema (`ddl`), the checks of a row (`tables.contract.row_validity`)
and of a batch of rows (`tables.files.checked_batches`), the columns that the kernels judge and those that a replay
reads are all derived from these tuples.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple, TypedDict

from thence.core.model.events import EVENT_KINDS
from thence.errors import Argument, MisuseError


@dataclass(frozen=True, slots=True)
class Column:
    """A column: name, type in Spark SQL's notation, whether it is required, meaning."""

    name: str
    type: str
    required: bool
    meaning: str
    called: str | None = None
    """The caller's name for it, if it differs; empty: the caller has no such column."""
    named: bool = False
    """Text: the empty text counts as missing."""
    among: frozenset[str] = frozenset()
    """Text: the allowed values, if they are limited."""
    least: int | None = None
    """Numbers: the least value."""
    below: str = ""
    """Numbers: the reason given for a value below the least."""
    words: tuple[tuple[str, str], ...] = ()
    """Text: the caller's values, each with its value in the contract."""

    @property
    def theirs(self) -> str:
        """Return the caller's name for it."""
        return self.name if self.called is None else self.called


class _Least(TypedDict):
    """The bound of a number."""

    least: int
    below: str


DEPENDENCIES = "array<struct<message:string,destinations:array<string>>>"
"""The type of the column `dependencies`."""

_SIZE: _Least = {"least": 0, "below": "a size is not negative"}

EVENT_COLUMNS: tuple[Column, ...] = (
    Column("run", "string", True, "which execution"),
    Column("process", "string", True, "where it happened", named=True),
    Column(
        "index", "long", True, "position among all rows of that process, from 1", least=1, below="indexes count from 1"
    ),
    Column("kind", "string", True, "send, receive, deliver, internal or crash", among=EVENT_KINDS),
    Column("message", "string", False, "id, unique in its run, never parsed; on send, receive and deliver"),
    Column("destinations", "array<string>", False, "the set it is addressed to; on send"),
    Column("label", "string", False, "which causal order; null is the one order"),
    Column("order", "long", False, "position in an order in which causes come first"),
    Column("time", "double", False, "seconds; never trusted for order"),
    Column("entries", "int", False, "elements of the stamp as its paper counts them; on receive and deliver", **_SIZE),
    Column("facts", "int", False, "pairs (message, destination) in the stamp", **_SIZE),
    Column("bytes", "int", False, "size of the stamp on the wire", **_SIZE),
    Column("dependencies", DEPENDENCIES, False, "the stamp in the clear, on request"),
)

NEEDED: dict[str, tuple[str, ...]] = {
    "message": ("send", "receive", "deliver"),
    "destinations": ("send",),
}
"""Columns that are required in some kinds of rows only, with these kinds."""

_REQUIRED = frozenset(column.name for column in EVENT_COLUMNS if column.required)

PLACE_COLUMNS: tuple[Column, ...] = (
    Column("file", "string", True, "the file a row was read from"),
    Column("line", "long", False, "its line there, from 1 (in Parquet its row); null: the file as a whole"),
    Column("reason", "string", False, "why the row is not an event; null where it is one"),
)
"""Columns that a reader adds to those of an event: where the row was read, and why it is unusable."""


def event_columns(*names: str) -> tuple[Column, ...]:
    """Return the columns of these names, in the order of the table."""
    return tuple(column for column in EVENT_COLUMNS if column.name in names)


JUDGED_COLUMNS = event_columns("run", "process", "index", "kind", "message", "destinations", "label", "order")
"""What an audit reads."""

REPLAYED_COLUMNS = (*JUDGED_COLUMNS, *event_columns("time"))
"""What a replay through a protocol reads."""

By = Literal["stamp", "clock", "depends_on"]
"""The columns of an arrival's causes."""

ARRIVAL_COLUMNS: tuple[Column, ...] = (
    Column("run", "string", True, "which execution"),
    Column("destination", "string", True, "where the copy arrived"),
    Column("arrival", "long", False, "position among the arrivals of that destination; default: as read"),
    Column("message", "string", True, "id, unique in its run"),
    Column("sender", "string", True, "who sent it"),
)

CAUSE_COLUMNS: dict[By, Column] = {
    "stamp": Column("stamp", "binary", True, "a stamp in the wire format"),
    "clock": Column("clock", "map<string,long>", True, "for each sender, its messages this destination gets"),
    "depends_on": Column(
        "depends_on", "array<string>", False, "the ids of its causes: an array, or one id; null means no cause"
    ),
}


def arrival_columns(by: By) -> tuple[Column, ...]:
    """Return the columns of an arrivals table whose causes are given in one of the three ways."""
    return (*ARRIVAL_COLUMNS, CAUSE_COLUMNS[by])


def names_of(columns: Iterable[Column]) -> list[str]:
    """Return the names of columns."""
    return [column.name for column in columns]


def renamed(
    columns: Sequence[Column], called: Mapping[str, str] | None = None, kinds: Mapping[str, str] | None = None
) -> tuple[Column, ...]:
    """Return columns of an event under the caller's names; an empty name: the caller has no such column.

    An optional column is left out if the caller uses its name for another one. `kinds` are the caller's
    words for values of `kind`, each with ours.
    """
    called, words = called or {}, _checked_kinds(kinds or {})
    known = names_of(EVENT_COLUMNS)  # whatever a caller reads of them, all may be named
    for name, given in called.items():
        if name not in known:
            raise MisuseError(Argument("columns"), f" names {name!r}; the columns are {', '.join(known)}")
        if not given and name in _REQUIRED:
            raise MisuseError(Argument("columns"), f" gives {name!r} no name, and every event has one")
    unread = set(called.values()) - set(names_of(JUDGED_COLUMNS))
    found = tuple(
        replace(
            c,
            called=called.get(c.name, "" if c.name in unread else None),
            words=words if c.name == "kind" else (),
        )
        for c in EVENT_COLUMNS
    )
    theirs = [column.theirs for column in found]
    for column in found:
        if column.called and theirs.count(column.called) > 1:
            raise MisuseError(
                Argument("columns"), f" takes {column.called!r} for more than one column; name the other one too"
            )
    return tuple(column for column in found if column.name in names_of(columns))


def _checked_kinds(kinds: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    for theirs, ours in kinds.items():
        if ours not in EVENT_KINDS:
            raise MisuseError(
                Argument("kinds"), f" maps {theirs!r} to {ours!r}; one of {', '.join(sorted(EVENT_KINDS))} is accepted"
            )
    return tuple(kinds.items())


class Called(NamedTuple):
    """The caller's names of our columns, and the caller's words for the values of `kind`."""

    names: dict[str, str]
    kinds: dict[str, str]


def called_by(columns: Sequence[Column]) -> Called:
    """Return the caller's names and words for these columns."""
    return Called(
        {column.name: column.theirs for column in columns}, dict(word for column in columns for word in column.words)
    )


def their_names(columns: Sequence[Column]) -> Called | None:
    """Return the caller's names and words for these columns; None if they are those of the contract."""
    called = called_by(columns)
    return called if called.kinds or any(ours != theirs for ours, theirs in called.names.items()) else None


def without(columns: Iterable[Column], found: Iterable[str]) -> str:
    """Return advice for a missing column that can be made from the others."""
    lacking = {column.name for column in columns if column.theirs not in set(found)}
    return "; without index, number the rows of each process from 1" * ("index" in lacking)


def ddl(columns: Sequence[Column] = EVENT_COLUMNS, *, nullable: bool = False) -> str:
    """Return the columns as a Spark schema string; `nullable`: required columns may be null."""
    return ", ".join(f"`{c.name}` {c.type}{' NOT NULL' if c.required and not nullable else ''}" for c in columns)
