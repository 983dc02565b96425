"""Causal delivery of a whole table in this process: Arrow in, Arrow out.

*Invariant.* Every input row comes out exactly once with the columns of `OUTPUT_COLUMNS` added, as
`thence.spark.deliver` gives it for the same table: the rule of each key takes the same rows in the same order
(`partition.py`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from thence.core.model.plain import Row
from thence.errors import Argument, MisuseError
from thence.tables.contract.columns import By
from thence.tables.delivery.arrow_rows import OUTPUT, check_ids, family
from thence.tables.delivery.columns import Columns
from thence.tables.delivery.delivery_terms import DeliveryTerms
from thence.tables.delivery.many_keys import KNOWN, delivered
from thence.tables.delivery.outcome import UNPLACED, WAITING_COLUMNS, Kind
from thence.tables.delivery.partition_by_key import by_key
from thence.tables.delivery.policy import Policy
from thence.tables.delivery.reading import BYS, Rosters, rosters_of

MOST_ROWS = 1 << 24
"""Rows that are taken together: their causes are counted in 32 bits."""


def terms_of(
    by: str, roster: Rosters, columns: Mapping[str, str], key: Iterable[str] | None, policy: Mapping[str, object]
) -> DeliveryTerms:
    """Return the terms that every key shares; `policy` names the fields of a Policy, `policy` being its name."""
    if by not in BYS:
        raise MisuseError(Argument("by", by), f"; one of {', '.join(BYS)} is accepted")
    how: By = by
    fields: Row = {"name" if name == "policy" else name: value for name, value in policy.items()}
    return DeliveryTerms(how, rosters_of(how, roster), Columns(how, columns, key), Policy(**fields).of(how))


def deliver_table(
    table: pa.Table, terms: DeliveryTerms, carried: Sequence[str] | None = None, known: pa.Table | None = None
) -> pa.Table:
    """Return the rows of a table in causal order, key after key.

    `carried`: which of its columns come out. `known`: keys and ids that count as delivered before the first row.
    """
    terms.check_columns(table.column_names)
    if terms.by == "depends_on":
        check_ids(table.schema, terms.columns)
    empty = table.schema
    if known is not None:
        table = _after_known(table, known, terms.columns)
    names, table = terms.columns, table.combine_chunks()
    present = table.column_names
    arrival = [name for name in (names.arrival, names.message) if name in present] if names.arrival in present else []
    if known is not None:
        arrival = [KNOWN, *arrival]
    starts = np.zeros(1, np.int64)
    if (names.key or arrival) and len(table) > 1:
        key = [table.column(name) for name in names.key] or [pa.nulls(len(table))]
        parted = by_key(table, key, arrival, lambda firsts: np.arange(len(firsts)))
        table, starts = parted.rows, np.array(parted.starts[:-1], np.int64)
    batches = table.to_batches(max_chunksize=MOST_ROWS)
    whole = list(delivered(batches, terms, names.key, carried=carried, starts=starts))
    if whole:
        return pa.Table.from_batches(whole)
    fields = {field.name: field.type for field in empty if carried is None or field.name in carried} | OUTPUT
    return pa.table({name: pa.array([], kind) for name, kind in fields.items()})


def _after_known(table: pa.Table, known: pa.Table, names: Columns) -> pa.Table:
    """Return the known ids followed by the table; `delivered` removes the ids again."""
    if "outcome" in known.column_names and family(known.schema.field("outcome").type) == "text":
        outcome = known.column("outcome").cast(pa.string())
        known = known.filter(pc.invert(pc.is_in(outcome, pa.array(sorted(UNPLACED)))))
    columns = {}
    for name in dict.fromkeys([*names.key, names.message]):
        ours, theirs = (each.schema.field(name).type for each in (table, known))
        names.check_known(name, str(ours), family(ours), str(theirs), family(theirs))
        try:
            common = _common_type(ours, known.column(name))
            columns[name] = known.column(name).cast(common)
        except pa.ArrowInvalid as error:
            raise MisuseError(Argument("known"), f": column {name!r} is {theirs}, here it is {ours}: {error}") from None
        if common != ours:
            table = table.set_column(table.schema.get_field_index(name), name, table.column(name).cast(common))
    first = pa.table(columns | {KNOWN: pa.array(np.zeros(len(known), np.int32))})
    table = table.append_column(KNOWN, pa.array(np.ones(len(table), np.int32)))
    return pa.concat_tables([table.slice(0, 0), first, table], promote_options="default")


def _common_type(ours: pa.DataType, known: pa.ChunkedArray) -> pa.DataType:
    """Return the type of a column of the rows; a wider one if known values do not fit: more categories, more digits."""
    try:
        known.cast(ours)
        return ours
    except pa.ArrowInvalid:
        pair = [kind.value_type if pa.types.is_dictionary(kind) else kind for kind in (ours, known.type)]
        schemas = [pa.schema([("", kind)]) for kind in pair]
        return pa.unify_schemas(schemas, promote_options="permissive").field(0).type


def counts_in(ordered: pa.Table) -> dict[tuple[str, str | None], int]:
    """Return how many rows had each outcome and, of those in quarantine, each reason; the most frequent first."""
    outcome, reason = ordered.column("outcome"), ordered.column("reason")
    shown = pc.if_else(pc.equal(outcome, Kind.QUARANTINED.value), reason, pa.scalar(None, reason.type))
    counted = (
        pa.table({"outcome": outcome, "reason": shown}).group_by(["outcome", "reason"]).aggregate([([], "count_all")])
    )
    found = {(row["outcome"], row["reason"]): row["count_all"] for row in counted.to_pylist()}
    return dict(sorted(found.items(), key=lambda each: (-each[1], each[0][1] or "")))


def waiting_in(ordered: pa.Table, terms: DeliveryTerms) -> list[Row]:
    """Return the rows that are blocked: key, message if the table has one, and what they wait for."""
    names = terms.columns
    blocked = ordered.filter(pc.equal(ordered.column("outcome"), Kind.BLOCKED.value))
    shown = [*names.key, *([names.message] if names.message in ordered.column_names else []), *WAITING_COLUMNS]
    rows: list[Row] = (
        blocked.select(shown)
        .rename_columns(["message" if name == names.message else name for name in shown])
        .to_pylist()
    )
    return rows
