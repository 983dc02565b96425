"""Causal delivery of a whole table in this process: Arrow in, Arrow out.

Law. Every input row comes out exactly once with the columns of `OUTPUT_COLUMNS` added, as `thence.spark.deliver` gives
it for the same table: the same state of each key takes the same rows, by arrival (null first), then message.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from thence.delivery.arrow_rows import OUTPUT, in_utc
from thence.delivery.columns import Columns
from thence.delivery.key_state import KeyState, Setup
from thence.delivery.outcome import OUTPUT_COLUMNS, WAITING_COLUMNS, Kind
from thence.delivery.policy import Policy
from thence.delivery.reading import BYS, By, Rosters, rosters_of
from thence.errors import MisuseError
from thence.model.plain import Row

PLAIN_UP_TO: dict[By, int] = {"depends_on": 5_000, "clock": 80_000, "stamp": 25_000}
"""Rows of a table up to which the plain stepper is done before the arrays' programs are loaded, by the kind of causes;
measured by `benchmarks/deliver/compiling.py`. That of explicit causes is from before all rows of a batch were looked at
together for cycles, when plain Python took far longer than arrays where rows came in random order."""


def setup_of(
    by: str, roster: Rosters, columns: Mapping[str, str], key: Iterable[str] | None, policy: Mapping[str, object]
) -> Setup:
    """Return what every key is told; `policy` names the fields of a Policy, `policy` being its name."""
    if by not in BYS:
        raise MisuseError(f"by={by!r}; one of {', '.join(BYS)} is accepted")
    how: By = by
    fields: Row = {"name" if name == "policy" else name: value for name, value in policy.items()}
    return Setup(how, rosters_of(how, roster), Columns(how, columns, key), Policy(**fields).of(how))


def deliver_table(table: pa.Table, setup: Setup, say: Callable[[str], None] = lambda stage: None) -> pa.Table:
    """Return the rows of a table in causal order, key after key; `say` is told when loops are compiled, then ""."""
    _check(table, setup)
    whole = [batch for key, rows in _by_key(table, setup) for batch in _delivered(key, rows, setup, say)]
    if whole:
        return pa.Table.from_batches(whole)
    fields = {field.name: field.type for field in table.schema} | OUTPUT
    return pa.table({name: pa.array([], kind) for name, kind in fields.items()})


def keyed(setup: Setup, table: pa.Table) -> Setup:
    """Return the setup for a table whose key nobody named: one without runs is parted by destination alone."""
    names = setup.columns
    return setup if names.run in table.column_names else replace(setup, columns=names.with_key((names.destination,)))


def sized(setup: Setup, table: pa.Table) -> Setup:
    """Return the setup for a table: one of few rows does not go through arrays, and numba is not even loaded."""
    return replace(setup, fast_from=len(table) + 1) if len(table) <= PLAIN_UP_TO[setup.by] else setup


def counts_in(ordered: pa.Table) -> dict[tuple[str, str | None], int]:
    """Return how many rows had each outcome and, of those in quarantine, each reason; the most frequent first."""
    rows = zip(ordered.column("outcome").to_pylist(), ordered.column("reason").to_pylist(), strict=True)
    found = Counter((outcome, reason if outcome == Kind.QUARANTINED.value else None) for outcome, reason in rows)
    return dict(sorted(found.items(), key=lambda each: (-each[1], each[0][1] or "")))


def waiting_in(ordered: pa.Table, setup: Setup) -> list[Row]:
    """Return the rows that are blocked: key, message if the table has one, and what they wait for."""
    names = setup.columns
    blocked = ordered.filter(pc.equal(ordered.column("outcome"), Kind.BLOCKED.value))
    shown = [*names.key, *([names.message] if names.message in ordered.column_names else []), *WAITING_COLUMNS]
    rows: list[Row] = (
        blocked.select(shown)
        .rename_columns(["message" if name == names.message else name for name in shown])
        .to_pylist()
    )
    return rows


def _check(table: pa.Table, setup: Setup) -> None:
    names = setup.columns
    needed = [*names.key, names.cause]
    needed += [names.sender] if setup.by == "clock" else [names.message] if setup.by == "depends_on" else []
    for name in needed:
        if name not in table.column_names:
            raise names.lacks(name, table.column_names)
    kind = table.schema.field(names.cause).type
    if setup.by == "depends_on" and (
        pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_primitive(kind)
    ):
        raise MisuseError(f"column {names.cause!r} is {kind}; an array of ids is accepted")
    for name in table.column_names:
        if name.lower() in OUTPUT_COLUMNS:
            raise MisuseError(f"column {name!r} is one that delivery adds; rename or drop it first")
    if setup.policy.after_seconds is not None and names.time not in table.column_names:
        raise MisuseError(f"after_seconds needs event time in column {names.time!r}; columns= says another name")


def _by_key(table: pa.Table, setup: Setup) -> Iterator[tuple[tuple[object, ...], pa.Table]]:
    """Yield the rows of each key in the order in which they are taken."""
    names = setup.columns
    if names.arrival in table.column_names:
        table = table.take(pa.array(_taken(table, [names.arrival, names.message]), pa.int64()))
    places: dict[str, list[int]] = {}
    values: dict[str, tuple[object, ...]] = {}
    columns = [table.column(name).to_pylist() for name in names.key]
    for place, key in enumerate(zip(*columns, strict=True)):
        text = repr(key)  # keys may be structs, which do not hash
        values.setdefault(text, key)
        places.setdefault(text, []).append(place)
    for text, rows in places.items():
        yield values[text], table.take(pa.array(np.array(rows), pa.int64()))


def _taken(table: pa.Table, by: list[str]) -> list[int]:
    """Return the places of the rows by some columns, null first; rows that are alike stay as they were read."""
    columns = [table.column(name).to_pylist() for name in by if name in table.column_names]
    keys = [tuple((value is not None, value) for value in row) for row in zip(*columns, strict=True)]
    return sorted(range(len(table)), key=lambda place: [each if each[0] else (False,) for each in keys[place]])


def _delivered(
    key: tuple[object, ...], rows: pa.Table, setup: Setup, say: Callable[[str], None]
) -> Iterator[pa.RecordBatch]:
    state = KeyState(setup, key)
    for batch in rows.combine_chunks().to_batches():
        with _telling(say) if len(batch) >= setup.fast_from else nullcontext():
            out = state.take(in_utc(batch))
        if len(out):
            yield out
    rest = state.end()
    if rest is not None and len(rest):
        yield rest


def _telling(say: Callable[[str], None]) -> AbstractContextManager[None]:
    from thence.kernels.compiling import COMPILING, telling

    return telling(lambda count: say(f": {COMPILING} ({count})"), lambda: say(""))
