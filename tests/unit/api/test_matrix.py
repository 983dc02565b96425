"""The same small tables through every kind of input in this process: the same rows, positions and reasons.

Spark's batches and streams take the same tables in tests/spark/deliver/test_matrix.py.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import ibis
import narwhals
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import csv
from support.odd_files import write_delta, write_iceberg
from support.small_tables import NUMBER_TYPES, NUMBERS, OTHER_TYPES, TEXTS, arrow, seen, wanted
from support.some import some

import thence
from thence.cli import main
from thence.errors import MisuseError
from thence.tables.files.formats import FORMATS, RECORDS
from thence.tables.files.inputs import INPUT_READERS

ASKED: dict[str, Any] = {"id": "id", "causes": "causes", "key": "run"}
Driver = Callable[[pa.Table, Path, dict[str, Any]], list[dict[str, Any]]]


def in_memory(make: Callable[[pa.Table], Any], listed: Callable[[Any], list[dict[str, Any]]]) -> Driver:
    return lambda table, folder, more: listed(thence.deliver(make(table), **ASKED, **more))


def in_a_file(write: Callable[[pa.Table, Path], None], name: str) -> Driver:
    def driver(table: pa.Table, folder: Path, more: dict[str, Any]) -> list[dict[str, Any]]:
        write(table, folder / name)
        return thence.deliver(folder / name, **ASKED, **more).to_pylist()

    return driver


def as_texts(table: pa.Table) -> pa.Table:
    moments = pa.array([each.isoformat() for each in table.column("at").to_pylist()])
    return table.set_column(table.column_names.index("at"), "at", moments)


def write_lines(table: pa.Table, path: Path) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in as_texts(table).to_pylist()))


def write_arrow(table: pa.Table, path: Path) -> None:
    with pa.ipc.new_file(path, table.schema) as writer:
        writer.write_table(table)


def in_utc(table: pa.Table) -> pa.Table:
    """Iceberg has moments in UTC alone."""
    return table.set_column(table.column_names.index("at"), "at", table.column("at").cast(pa.timestamp("us", "UTC")))


def write_separated(sign: str) -> Callable[[pa.Table, Path], None]:
    options = csv.WriteOptions(delimiter=sign)
    return lambda table, path: csv.write_csv(as_texts(table), path, options)


def command_line(table: pa.Table, folder: Path, more: dict[str, Any]) -> list[dict[str, Any]]:
    pq.write_table(table, folder / "in.parquet")
    asked = [part for name, value in (ASKED | more).items() for part in (f"--{name}", value)]
    code = main(["deliver", str(folder / "in.parquet"), *asked, "--out", str(folder / "out.jsonl")])
    if code == 2:
        raise MisuseError("exit code 2")
    return [json.loads(line) for line in (folder / "out.jsonl").read_text().splitlines()]


INPUTS: dict[str, Driver] = {
    "pandas": in_memory(
        lambda t: t.to_pandas(), lambda out: pa.Table.from_pandas(out, preserve_index=False).to_pylist()
    ),
    "polars": in_memory(pl.from_arrow, lambda out: out.to_dicts()),
    "narwhals": in_memory(lambda t: narwhals.from_native(pl.from_arrow(t)), lambda out: out.to_native().to_dicts()),
    "duckdb": in_memory(duckdb.from_arrow, lambda out: pa.RecordBatchReader.from_stream(out).read_all().to_pylist()),
    "ibis": in_memory(ibis.memtable, lambda out: out.to_pyarrow().to_pylist()),
    "arrow": in_memory(lambda t: t, lambda out: out.to_pylist()),
    "dicts": in_memory(lambda t: t.to_pylist(), lambda out: out),
    "jsonl": in_a_file(write_lines, "t.jsonl"),
    "parquet": in_a_file(pq.write_table, "t.parquet"),
    "csv": in_a_file(write_separated(","), "t.csv"),
    "tsv": in_a_file(write_separated("\t"), "t.tsv"),
    "arrow file": in_a_file(write_arrow, "t.arrow"),
    "delta": in_a_file(lambda table, path: write_delta(path, table), "t"),
    "iceberg": in_a_file(lambda table, path: write_iceberg(path, in_utc(table)), "t"),
    "command line": command_line,
}
UNTYPED = {"csv", "tsv"}
"""Formats in which every id is a text, so that no two types can differ."""


def test_every_input_that_is_taken_is_in_the_matrix() -> None:
    files = {"arrow file" if each == "arrow" else each for each in FORMATS if each not in ("shiviz", *RECORDS)}
    assert INPUTS.keys() == {*INPUT_READERS, *files, "command line"}


def test_there_are_forty_tables_and_their_answers_are_right() -> None:
    """By the definition alone: positions count from 1, and no delivered row precedes a cause of its own."""
    assert len(TEXTS) + len(NUMBERS) + len(OTHER_TYPES) >= 40
    outcomes = set()
    for name, text in (TEXTS | NUMBERS).items():
        (rows,) = wanted({name: text}).values()
        assert len(rows) == len(text.split(" "))
        placed = [(row[0], row[2]) for row in rows if row[2] is not None]
        assert [int(position) for _, position in placed] == list(range(1, len(placed) + 1)), name
        causes = {
            part.split("@")[0].partition("<")[0]: part.split("@")[0].partition("<")[2] for part in text.split(" ")
        }
        done: list[str] = []
        for own, _ in placed:
            assert all(each in done for each in causes[own.replace(" ", "%20")].replace("%20", " ").split("|") if each)
            done.append(own)
        outcomes |= {row[1] for row in rows}
    assert outcomes == {"delivered", "duplicate", "blocked", "quarantined"}


@pytest.mark.parametrize("kind", INPUTS)
def test_texts(kind: str, tmp_path: Path) -> None:
    found = seen(INPUTS[kind](arrow(TEXTS), tmp_path, {"separator": "|"}))
    for name, rows in some(wanted(TEXTS).items()):
        assert found[name] == rows, name


@pytest.mark.parametrize("types", NUMBER_TYPES)
@pytest.mark.parametrize("kind", INPUTS)
def test_numbers(kind: str, types: str, tmp_path: Path) -> None:
    found = seen(INPUTS[kind](arrow(NUMBERS, pa.int64(), NUMBER_TYPES[types]), tmp_path, {}))
    for name, rows in some(wanted(NUMBERS).items()):
        assert found[name] == rows, name


@pytest.mark.parametrize("types", OTHER_TYPES)
@pytest.mark.parametrize("kind", sorted(INPUTS.keys() - UNTYPED))
def test_other_types_are_refused(kind: str, types: str, tmp_path: Path) -> None:
    table = arrow({"t": "1<2 2<1"}, *OTHER_TYPES[types])
    with pytest.raises(MisuseError, match=r"exit code 2|is never equal to a"):
        INPUTS[kind](table, tmp_path, {})
