"""The names of the columns: the contract's, unless the caller has other ones.

Invariant: a key is the unit of parallelism and of order: rows of two keys never wait for each other. A delivered clock
belongs to one destination, so stamps and clocks need the destination in the key; explicit causes may be split by any
columns. A null anywhere in the key but in `run` quarantines the row.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple

from thence.core.model.plain import Field
from thence.errors import Argument, MisuseError
from thence.tables.contract.columns import By
from thence.tables.delivery.outcome import OUTPUT_COLUMNS

NAMES = ("run", "destination", "arrival", "message", "sender", "time", "stamp", "clock", "depends_on")


Family = Literal["text", "number", "null", "value of another type"]
"""What ids of a type are compared as: widths do not matter. Ids of another type, say moments, are equal in one type."""

Key = tuple[Field, ...]
"""The values that separate rows into independent orders."""


@dataclass(frozen=True, init=False)
class Columns:
    """Maps the columns of the contract to those of the caller's table."""

    run: str
    destination: str
    arrival: str
    message: str
    sender: str
    time: str
    cause: str
    key: tuple[str, ...]

    def __init__(
        self,
        by: By,
        columns: Mapping[str, str] | None = None,
        key: Iterable[str] | None = None,
        spell: Callable[[str], str] = str,
    ) -> None:
        """Take the caller's names and key columns; `spell` returns a name in the table's spelling."""
        given = dict(columns or {})
        for name in given:
            if name not in NAMES:
                raise MisuseError(Argument("columns"), f" names {name!r}; the columns are {', '.join(NAMES)}")
        chosen = {
            name: spell(given.get(name, name))
            for name in ("run", "destination", "arrival", "message", "sender", "time")
        }
        asked = (chosen["run"], chosen["destination"]) if key is None else (key,) if isinstance(key, str) else key
        keys = tuple(spell(name) for name in asked)
        if by != "depends_on" and chosen["destination"] not in keys:
            raise MisuseError(
                Argument("by", by), " needs the destination in the key: a delivered clock belongs to one destination; ",
                Argument("columns"), " names yours",
            )  # fmt: skip
        for name in keys:
            if name in OUTPUT_COLUMNS:
                raise MisuseError(f"key column {name!r} has the name of an output column")
        self._set(**chosen, cause=spell(given.get(by, by)), key=keys)

    def _set(self, **names: str | tuple[str, ...]) -> Columns:
        for name, value in names.items():
            object.__setattr__(self, name, value)
        return self

    def lacks(self, name: str, has: Iterable[str]) -> MisuseError:
        """Return the error for a missing column: the columns there are, and how to name another."""
        found = f"; found: {', '.join(has) or 'no column at all'}. "
        if name in self.key:
            hint: tuple[str | Argument, ...] = (Argument("key"), " names the columns that separate independent orders")
            if name == self.destination:
                hint = (*hint, ", ", Argument("columns"), " the one that is the destination")
            return MisuseError(f"the table has no column {name!r} for the key{found}", *hint)
        # an explicit cause has a name of the contract only if the caller gave none
        explicit = {"depends_on": ("causes", "the ids of a row's causes"), "message": ("id", "the id of a row")}
        if name in explicit:
            short, what = explicit[name]
            return MisuseError(
                f"the table has no column {name!r}{found}", Argument(short), f" names the column of {what}"
            )
        return MisuseError(f"the table has no column {name!r}{found}", Argument("columns"), " gives other names")

    def lacks_causes(self, has: Iterable[str]) -> MisuseError:
        """Return the error for a row without a column of causes, of which it is unclear whether it has causes."""
        found = ", ".join(map(str, has)) or "no column at all"
        return MisuseError(
            f"a row has no column {self.cause!r} of causes; found: {found}. In a row "
            "without causes it is null; ", Argument("columns", {"depends_on": "..."}), " names another column",
        )  # fmt: skip

    @staticmethod
    def check_given(given: Mapping[str, str] | None, has: Iterable[str]) -> None:
        """Reject a given column name that the table lacks; an empty name means that there is no such column."""
        present = list(has)
        for ours, theirs in (given or {}).items():
            if theirs and theirs not in present:
                known = ", ".join(present) or "no column at all"
                what = {"message": "the ids (message)", "depends_on": "the causes (depends_on)"}.get(ours, ours)
                raise MisuseError(f"the table has no column {theirs!r} for {what}; found: {known}")

    def check_ids(self, message: str, own: Family | None, cause: str, others: Family | None) -> None:
        """Reject causes of a type that never equals the ids; None stands for a type that holds no ids."""
        if own is None:
            raise MisuseError(f"column {self.message!r} is {message}; an id is a text, a whole number or a UUID")
        if others is None:
            raise MisuseError(f"column {self.cause!r} is {cause}; one id or an array of ids is accepted")
        if own != others and "null" not in (own, others):
            raise MisuseError(
                f"column {self.message!r} is {message} and column {self.cause!r} {cause}: a {others} is never equal "
                f"to a {own}; cast one of them"
            )

    def lacks_known(self, name: str, has: Iterable[str]) -> MisuseError:
        """Return the error for a table of known ids that lacks a column."""
        wanted = ", ".join(dict.fromkeys([*self.key, self.message]))
        return MisuseError(
            Argument("known"), f" has no column {name!r}; it has {', '.join(has) or 'no column at all'}. It needs the "
            f"columns of the key and of the ids: {wanted}",
        )  # fmt: skip

    def check_known(self, name: str, ours: str, own: Family | None, theirs: str, other: Family | None) -> None:
        """Reject a column of known ids of a type that never equals the ids of the rows."""
        if own != other and "null" not in (own, other):
            raise MisuseError(
                f"column {name!r} is {ours}, and in ", Argument("known"), f" it is {theirs}: a "
                f"{other or 'nested value'} is never equal to a {own or 'nested value'}; cast one of them",
            )  # fmt: skip

    def with_key(self, key: Iterable[str]) -> Columns:
        """Return the same names with another key."""
        return Columns.__new__(Columns)._set(**vars(self) | {"key": tuple(key)})

    def with_default_key(self, present: Collection[str], *, one_order: bool) -> Columns:
        """Return the names for a table whose key was not given: run and destination, if it has them.

        With `one_order` a table without both is one order; otherwise it must have a destination.
        """
        needed = () if one_order else (self.destination,)
        return self.with_key([name for name in (self.run, self.destination) if name in present or name in needed])

    def refuse(self, key: Key) -> str | None:
        """Explain why a row with this key cannot be delivered, or None."""
        if None not in key:
            return None
        for name, value in zip(self.key, key, strict=True):
            if value is None and name != self.run:
                return f"no {name}"
        return None

    def where(self, key: Key) -> KeyName:
        """Name a key in an error."""
        return KeyName(self.key, key)


class KeyName(NamedTuple):
    """A key as errors name it; a text of it is made when an error needs one, since a stream has many keys."""

    columns: tuple[str, ...]
    values: Key

    def __str__(self) -> str:
        """Return columns and values; a table that is one order has no name."""
        named = ", ".join(f"{name} {value}" for name, value in zip(self.columns, self.values, strict=True))
        return f"{named}: " if named else ""


def named_once(columns: Mapping[str, str], short: Mapping[str, str | None]) -> dict[str, str]:
    """Return the caller's names of columns; a column that is named in two ways is refused."""
    found = dict(columns)
    for name, value in short.items():
        if value is None:
            continue
        if name in columns:
            word = "id" if name == "message" else "causes"
            twice = Argument("columns", {name: columns[name]})
            raise MisuseError(Argument(word, value), " and ", twice, " name one column; give one")
        found[name] = value
    return found
