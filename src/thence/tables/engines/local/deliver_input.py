"""`thence.deliver`: causal delivery of the caller's table in this process; the same kind of table comes out.

    import thence
    rows = [{"id": "paid", "parent": "ordered"}, {"id": "ordered", "parent": None}]
    thence.deliver(rows, id="id", causes="parent")      # "ordered" first; dicts in, dicts out

*Invariant.* Only the columns that the rule reads become Arrow. The rule gives places and outcomes; the caller's rows
are put into the order of those places, so that no other column is converted.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, Unpack, overload

from thence.errors import Argument, MisuseError
from thence.tables.contract.columns import By
from thence.tables.delivery.columns import NAMES, Columns, named_once
from thence.tables.delivery.outcome import OUTPUT_COLUMNS
from thence.tables.delivery.policy import Policy, PolicyLimits, PolicyName, WhenFull, policy_of
from thence.tables.delivery.reading import Rosters, rosters_of
from thence.tables.files.inputs import (
    ArrowTable,
    DictTable,
    InputTable,
    column_values,
    input_refusal,
    input_table,
    is_path,
    with_plain_lists,
)

if TYPE_CHECKING:
    import pyarrow as pa

    from thence.tables.delivery.delivery_terms import DeliveryTerms
    from thence.tables.files.arrival_reader import ArrivalTable

ROW_COLUMN = "__thence_row"
"""The column that says where a row stood."""
Data = TypeVar("Data")


class DeliverOptions(PolicyLimits, total=False):
    """The keyword arguments of `deliver`."""

    id: str | None
    causes: str | None
    roster: Rosters
    key: str | Iterable[str] | None
    columns: Mapping[str, str] | None
    separator: str | None
    known: Any
    policy: PolicyName | Policy


@overload
def deliver(data: str | Path, by: By = "depends_on", **options: Unpack[DeliverOptions]) -> pa.Table: ...


@overload
def deliver(data: Data, by: By = "depends_on", **options: Unpack[DeliverOptions]) -> Data: ...


def deliver(
    data: Any,
    by: By = "depends_on",
    *,
    id: str | None = None,
    causes: str | None = None,
    roster: Rosters = None,
    key: str | Iterable[str] | None = None,
    columns: Mapping[str, str] | None = None,
    separator: str | None = None,
    known: Any = None,
    policy: PolicyName | Policy = "wait",
    after_rows: int | None = None,
    after_seconds: float | None = None,
    remember: int | None = None,
    held_limit: int | None = None,
    when_full: WhenFull | None = None,
    max_jump: float | None = None,
    filter_limit: int | None = None,
) -> Any:
    """Put the rows of a table into causal order, key by key, and add each row's outcome.

    Every row comes out once, with the columns of `thence.tables.delivery.OUTPUT_COLUMNS` added.

        thence.deliver(orders, id="event_id", causes="parent_id")

    Args:
        data: a pandas, Polars, Narwhals or pyarrow table, a DuckDB relation, an Ibis table or a list of dicts, which
            comes out as the same kind; anything else with Arrow's capsule interface, or the path of files, which comes
            out as a pyarrow Table.
        by: how rows name their causes: `depends_on` (explicit ids), `clock` (vector clocks) or `stamp` (thence's
            stamps).
        id: the column of the row's id, short for `columns={"message": ...}`.
        causes: the column of the causes, short for `columns={"depends_on": ...}`.
        roster: the processes in order of position, for stamps.
        key: the columns whose values separate independent orders; by default run and destination, where the table has
            them.
        columns: your names for columns of the contract, as in `{"message": "event_id"}`.
        separator: the separator of the ids where one text names several causes.
        known: ids that count as delivered before the first row: a table in any of the forms of `data` but a path, with
            the columns of the key and of the ids, or ids alone where there is no key. Of the result of an earlier
            delivery only rows with a position count.
        policy: `wait` (forever), `release` or `fail` when a limit is reached, or a `thence.Policy`, which has its own
            limits.
        after_rows: with `release` and `fail`: how many later rows of the key may arrive while a row is held.
        after_seconds: with `release` and `fail`: how far the event time of the key may advance while a row is held.
        remember: how many delivered ids of a key are kept in full; of older ones only a fingerprint of 8 bytes is kept.
        held_limit: how many rows of a key may be held at a time.
        when_full: what happens beyond `held_limit`: `fail`, or `release` the oldest row.
        max_jump: ignore a row's time if it is more than this many seconds ahead, until a second row confirms it.
        filter_limit: with `remember`: how many fingerprints of a key are kept before it is an error.
    """
    chosen = policy_of(
        policy, after_rows=after_rows, after_seconds=after_seconds, remember=remember, held_limit=held_limit,
        when_full=when_full, max_jump=max_jump, filter_limit=filter_limit,
    ).of(by)  # fmt: skip
    given = named_once(columns or {}, {"message": id, by: causes})
    names = Columns(by, given, key)
    from thence.tables.delivery.delivery_terms import DeliveryTerms

    if is_path(data):
        from thence.tables.files.arrival_reader import arrival_files, read_arrivals

        files = arrival_files(os.fspath(data), records=by == "depends_on" and not given)
        roster = files.rosters() if roster is None and by == "stamp" else roster
        terms = DeliveryTerms(by, rosters_of(by, roster), names, chosen, separator)
        return deliver_arrivals(read_arrivals(files, by, names), terms, given, default_key=key is None, known=known)[0]
    if isinstance(data, list | tuple) and not data:
        return data
    table = input_table(data)
    if table is None:
        raise input_refusal(data)
    terms = DeliveryTerms(by, rosters_of(by, roster), names, chosen, separator)
    places, added, _ = ordered_input(table, terms, given, default_key=key is None, known=known)
    return table.taken(places, added)


class Ordered(NamedTuple):
    """Rows in causal order: their places in the input, the added columns, and the terms with the key that was used."""

    places: pa.Array
    added: pa.Table
    terms: DeliveryTerms


def ordered_input(
    table: InputTable, terms: DeliveryTerms, given: Mapping[str, str], *, default_key: bool, known: Any = None
) -> Ordered:
    """Put a table into causal order; `given` are the names of columns that the caller gave."""
    import numpy as np
    import pyarrow as pa

    from thence.tables.contract.columns import CAUSE_COLUMNS
    from thence.tables.contract.spark_to_arrow_types import arrow_type
    from thence.tables.engines.local.deliver import deliver_table

    names = terms.columns
    names.check_given(given, table.names)
    if default_key:
        names = names.with_default_key(table.names, one_order=terms.by == "depends_on")
        terms = replace(terms, columns=names)
    terms.check_columns(table.names)
    read = [getattr(names, name) for name in NAMES if hasattr(names, name)] + [names.cause, *names.key]
    types = {} if terms.by == "depends_on" else {names.cause: arrow_type(CAUSE_COLUMNS[terms.by].type)}
    if isinstance(table, DictTable) and terms.by == "depends_on":
        table = table.with_lists(names.cause)
    rows = with_plain_lists(table.arrow(read, types))
    there = None if known is None else _known(known, terms)
    ordered = deliver_table(rows.append_column(ROW_COLUMN, pa.array(np.arange(len(rows)))), terms, [ROW_COLUMN], there)
    return Ordered(ordered.column(ROW_COLUMN).combine_chunks(), ordered.select(list(OUTPUT_COLUMNS)), terms)


def _known(known: Any, terms: DeliveryTerms) -> pa.Table:
    """Return the known ids as a table of the key's columns and the ids."""
    import pyarrow as pa

    from thence.tables.delivery.delivery_terms import check_known

    names = terms.columns
    check_known(terms.by)
    values = column_values(known)
    known = known if values is None else values
    if isinstance(known, pa.Table | Collection) and not isinstance(known, str | bytes | Mapping) and not len(known):
        return pa.table({name: pa.nulls(0) for name in dict.fromkeys((*names.key, names.message))})
    table = input_table(known)
    if table is not None:
        wanted = (*names.key, names.message)
        for name in wanted:
            if name not in table.names:
                raise names.lacks_known(name, table.names)
        return table.arrow([*wanted, *(["outcome"] if "outcome" in table.names else [])])
    if isinstance(known, str | bytes | Path | Mapping) or not isinstance(known, Iterable):
        raise _known_refusal(known)
    if names.key:
        raise MisuseError(
            Argument("known"), " has ids alone, and the rows have a key: pass a table with the columns "
            f"{', '.join(dict.fromkeys([*names.key, names.message]))}",
        )  # fmt: skip
    try:
        return DictTable([{names.message: each} for each in known]).arrow([names.message])
    except MisuseError as error:
        raise MisuseError(Argument("known"), f": {error}") from None


def _known_refusal(known: object) -> MisuseError:
    """Return the error for known ids that are neither a table nor ids."""
    accepted = "; a table in this process, or ids, are accepted"
    if is_path(known):
        return MisuseError(Argument("known"), f" is the path {str(known)!r}{accepted}: read the file first")
    if callable(known):
        return MisuseError(Argument("known"), f" is a function{accepted}; Gate and Orderer take a function")
    return MisuseError(Argument("known"), f" is of type {type(known).__name__}{accepted}")


def _no_rows(terms: DeliveryTerms, given: Mapping[str, str], *, default_key: bool) -> InputTable:
    """Return the table for an empty file of JSON lines, which cannot show whether it has the named columns."""
    import pyarrow as pa

    from thence.tables.contract.columns import CAUSE_COLUMNS
    from thence.tables.contract.spark_to_arrow_types import arrow_type

    names = terms.columns
    key = names.with_default_key((), one_order=terms.by == "depends_on") if default_key else names
    found = dict.fromkeys([*replace(terms, columns=key).needed, *filter(None, given.values())], pa.string())
    if terms.by != "depends_on":
        found[names.cause] = arrow_type(CAUSE_COLUMNS[terms.by].type)
    if terms.policy.after_seconds is not None:
        found[names.time] = pa.float64()
    return ArrowTable(pa.schema(found.items()).empty_table())


def deliver_arrivals(
    arrivals: ArrivalTable, terms: DeliveryTerms, given: Mapping[str, str], *, default_key: bool, known: Any = None
) -> tuple[pa.Table, DeliveryTerms]:
    """Put rows that were read from files into causal order; return them, and the terms with the key that was used."""
    from thence.tables.files.arrival_reader import with_reasons

    rows: InputTable = arrivals.input(terms.columns)
    if not rows.names:
        rows = _no_rows(terms, given, default_key=default_key)
    places, added, terms = ordered_input(rows, terms, given, default_key=default_key, known=known)
    return with_reasons(rows.taken(places, added), arrivals.lines, arrivals.kind), terms
