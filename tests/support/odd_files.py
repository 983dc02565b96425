"""A corpus of odd files: each is written on demand, together with what docs/reference/any-file.md says must come out.

`CORPUS` is one list for all engines. A case writes its files into an empty folder, with or without `order`, and returns
what to name on the command line, to be run in that folder. `verdict` and `runs` are what an audit says, `exit` its exit
code; `reasons` are how the quarantine records of reading begin, file by file and line by line, `skipped` the strays;
with exit code 2 the one reason is part of the sentence. `ours` counts the events that can be read.
"""

from __future__ import annotations

import gzip
import json
import os
import zipfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import csv

from thence.cli import main
from thence.core.model.events import Event, parse
from thence.tables.contract.row_validity import row_of
from thence.tables.contract.spark_to_arrow_types import arrow_schema
from thence.tables.files.jsonl import format_line
from thence.tables.files.line_reader import LINE_LIMIT

EVENTS = parse("a!1>bc b?a1 b!1>c c?a1 c?b1", run="r")
"""A causal run of five rows."""
OTHER = parse("p!1>q q?p1", run="s")
"""Another one, of two."""
CLOCKS = b'a {"a":1}\none\nb {"a":1, "b":1}\ntwo\n'
ODD_NAMES = (
    "[a].jsonl",
    "{b,c}.jsonl",
    "d*.jsonl",
    "e\\f.jsonl",
    "g:h.jsonl",
    "i j.jsonl",
    "k%20l.jsonl",
    "m#n?.jsonl",
)
ODD_TABLES = ("[a].parquet", "{b,c}.parquet", "d*.parquet", "e\\f.parquet", "g:h.parquet", "i j%20#?.parquet")

Make = Callable[[Path, bool], list[str]]
"""Writes the files of a case, with or without `order`; returns what to name."""


@dataclass(frozen=True)
class OddFile:
    """One kind of input, and what must come out."""

    kind: str
    """As the table in the docs calls it."""
    says: str
    """As the table in the docs says it."""
    make: Make
    exit: int = 0
    verdict: str | None = "causal"
    """Of all; null with exit code 2."""
    runs: dict[str, str] = field(default_factory=lambda: {"r": "causal"})
    ours: int = len(EVENTS)
    reasons: tuple[str, ...] = ()
    skipped: tuple[str, ...] = ()

    @property
    def row(self) -> str:
        """The row of the table in the docs."""
        return f"| {self.kind} | {self.says} | {self.verdict or ''} | {self.exit} |"


def _events(events: Iterable[Event], order: bool) -> list[Event]:
    return [event if order else replace(event, order=None) for event in events]


def lines(events: Sequence[Event] = EVENTS, order: bool = True) -> bytes:
    """Return events as JSONL."""
    return b"".join(format_line(event) for event in _events(events, order))


def table(events: Sequence[Event] = EVENTS, order: bool = True) -> pa.Table:
    """Return events as a table whose columns may be null."""
    rows = pa.Table.from_pylist([row_of(event) for event in _events(events, order)], arrow_schema(nullable=True))
    return rows if order else rows.drop_columns(["order"])


def _bytes(change: Callable[[bytes], bytes], name: str = "t.jsonl") -> Make:
    """Return a case of one file made from the lines of a good one."""

    def make(folder: Path, order: bool) -> list[str]:
        (folder / name).write_bytes(change(lines(EVENTS, order)))
        return [name]

    return make


def _line(line: bytes) -> Make:
    """Return a case of a good file with one more line, before the last."""
    return _bytes(lambda good: b"\n".join([*good.splitlines()[:-1], line, good.splitlines()[-1]]) + b"\n")


def _table(change: Callable[[pa.Table], pa.Table], *, row_group: int = 1000) -> Make:
    """Return a case of one Parquet file made from a good table."""

    def make(folder: Path, order: bool) -> list[str]:
        pq.write_table(change(table(EVENTS, order)), folder / "t.parquet", row_group_size=row_group)
        return ["t.parquet"]

    return make


def _set(name: str, row: int, value: object) -> Callable[[pa.Table], pa.Table]:
    """Return a change of one value of a table."""

    def change(rows: pa.Table) -> pa.Table:
        values = rows.column(name).to_pylist()
        values[row] = value
        return rows.set_column(rows.column_names.index(name), name, pa.array(values, rows.column(name).type))

    return change


def _other(name: str, values: pa.Array) -> Callable[[pa.Table], pa.Table]:
    return lambda rows: rows.set_column(rows.column_names.index(name), name, values)


def _own(rows: pa.Table) -> pa.Table:
    for name in ("line", "reason", "file", "odd", "Run", "INDEX", "run.x", "tag", "slot"):
        rows = rows.append_column(name, pa.array([f"{name} of mine"] * len(rows)))
    return rows


def _not_utf8(rows: pa.Table) -> pa.Table:
    names = pa.array([*rows.column("process").to_pylist()[:-1], b"\xff"], pa.binary())
    names = pa.array([each if isinstance(each, bytes) else each.encode() for each in names.to_pylist()], pa.binary())
    return _other("process", names.cast(pa.string(), safe=False))(rows)


def _damaged(folder: Path, order: bool) -> list[str]:
    path = folder / "t.parquet"
    good = pa.concat_tables([table(EVENTS, order), table(OTHER, order)])
    pq.write_table(good, path, row_group_size=3)
    page = pq.read_metadata(path).row_group(1).column(0)
    start = page.dictionary_page_offset or page.data_page_offset
    data = bytearray(path.read_bytes())
    data[start : start + 20] = b"\xaa" * 20
    path.write_bytes(data)
    return ["t.parquet"]


def _parquet_cut(folder: Path, order: bool) -> list[str]:
    pq.write_table(table(EVENTS, order), folder / "t.parquet")
    data = (folder / "t.parquet").read_bytes()
    (folder / "t.parquet").write_bytes(data[: len(data) // 2])
    return ["t.parquet"]


def _in_folder(name: str, data: bytes) -> Make:
    """Return a case of a folder that holds a good file and another."""

    def make(folder: Path, order: bool) -> list[str]:
        (folder / "d").mkdir()
        (folder / "d" / "good.jsonl").write_bytes(lines(EVENTS, order))
        (folder / "d" / name).write_bytes(data)
        return ["d"]

    return make


def _two_runs(bad: bytes) -> Make:
    def make(folder: Path, order: bool) -> list[str]:
        (folder / "t.jsonl").write_bytes(lines(EVENTS, order) + bad + b"\n" + lines(OTHER, order))
        return ["t.jsonl"]

    return make


def _two_files(folder: Path, order: bool) -> list[str]:
    (folder / "one.jsonl").write_bytes(lines(EVENTS, order) + b"nonsense\n")
    (folder / "two.jsonl").write_bytes(lines(OTHER, order))
    return ["one.jsonl", "two.jsonl"]


def _odd_names(folder: Path, order: bool) -> list[str]:
    """Each row in a file of its own, whose name looks like a glob or a URI; other files that those would match."""
    for name, event in zip(ODD_NAMES, EVENTS, strict=False):
        (folder / name).write_bytes(lines([event], order))
    for name in ODD_NAMES[len(EVENTS) :]:
        (folder / name).write_bytes(b"")
    for name in ("a.jsonl", "b.jsonl", "dd.jsonl", "ef.jsonl", "mn.jsonl"):
        (folder / name).write_bytes(b"nonsense\n")
    return list(ODD_NAMES)


def _odd_tables(folder: Path, order: bool) -> list[str]:
    parts = [table([event], order) for event in EVENTS] + [table([], order)]
    for name, part in zip(ODD_TABLES, parts, strict=True):
        pq.write_table(part, folder / name)
    for name in ("a.parquet", "b.parquet", "dd.parquet"):
        (folder / name).write_bytes(b"nonsense")
    return list(ODD_TABLES)


def _link(folder: Path, order: bool) -> list[str]:
    (folder / "d").mkdir()
    (folder / "elsewhere").mkdir()
    (folder / "d" / "1.jsonl").write_bytes(lines(EVENTS[:2], order))
    (folder / "elsewhere" / "2.jsonl").write_bytes(lines(EVENTS[2:], order))
    os.symlink("../elsewhere", folder / "d" / "linked")
    return ["d"]


def _loop(folder: Path, order: bool) -> list[str]:
    (folder / "d" / "e").mkdir(parents=True)
    (folder / "d" / "t.jsonl").write_bytes(lines(EVENTS, order))
    os.symlink("..", folder / "d" / "e" / "back")
    return ["d"]


def _dangling(folder: Path, order: bool) -> list[str]:
    (folder / "d").mkdir()
    (folder / "d" / "t.jsonl").write_bytes(lines(EVENTS, order))
    os.symlink("nowhere", folder / "d" / "gone.jsonl")
    return ["d"]


def _hidden(folder: Path, order: bool) -> list[str]:
    (folder / "d" / "_spark_metadata").mkdir(parents=True)
    (folder / "d" / "t.jsonl").write_bytes(lines(EVENTS, order))
    (folder / "d" / "_spark_metadata" / "0.json").write_bytes(b"v1\n{}\n")
    (folder / "d" / "_SUCCESS").write_bytes(b"")
    (folder / "d" / ".t.jsonl.crc").write_bytes(b"\0\1")
    return ["d"]


def _pipe(folder: Path, order: bool) -> list[str]:
    os.mkfifo(folder / "pipe")
    return ["pipe"]


def _uri(folder: Path, order: bool) -> list[str]:
    (folder / "a b.jsonl").write_bytes(lines(EVENTS, order))
    return [f"file://{folder}/a%20b.jsonl"]


def _zip(folder: Path, order: bool) -> list[str]:
    with zipfile.ZipFile(folder / "t.zip", "w") as packed:
        packed.writestr("t.jsonl", lines(EVENTS, order))
    return ["t.zip"]


def _array(good: bytes, indent: int | None = None) -> bytes:
    return json.dumps([json.loads(line) for line in good.splitlines()], indent=indent).encode()


def _csv(folder: Path, order: bool) -> list[str]:
    rows = table(EVENTS, order).drop_columns(["dependencies"]).to_pylist()
    for row in rows:
        row["destinations"] = row["destinations"] and json.dumps(row["destinations"])
    csv.write_csv(pa.Table.from_pylist(rows), folder / "t.csv")
    return ["t.csv"]


def _arrow(folder: Path, order: bool) -> list[str]:
    rows = table(EVENTS, order)
    with pa.ipc.new_file(folder / "t.arrow", rows.schema) as writer:
        writer.write_table(rows)
    return ["t.arrow"]


def _folder_of(write: Callable[[Path, pa.Table], None]) -> Make:
    """Return a case of a folder that is a table, of which removed files are still there."""

    def make(folder: Path, order: bool) -> list[str]:
        write(folder / "t", table(EVENTS, order).drop_columns(["dependencies"]))
        return ["t"]

    return make


def write_delta(folder: Path, rows: pa.Table) -> None:
    """Write a table twice: the files of the first time are no longer part of it."""
    from deltalake import write_deltalake

    write_deltalake(folder, rows)
    write_deltalake(folder, rows, mode="overwrite")


def write_iceberg(folder: Path, rows: pa.Table) -> None:
    """Write a table twice, as `write_delta` does."""
    from pyiceberg.catalog.memory import InMemoryCatalog

    catalog = InMemoryCatalog("here", warehouse=folder.parent.absolute().as_uri())
    catalog.create_namespace("n")
    made = catalog.create_table("n.t", schema=rows.schema, location=folder.absolute().as_uri())
    made.append(rows)
    made.overwrite(rows)


_UNKNOWN = {"exit": 1, "verdict": "unknown", "runs": {"r": "unknown"}}
_REFUSED = {"exit": 2, "verdict": None, "runs": {}, "ours": 0}
_SEND = b'{"run":"r","process":"a","index":2,"kind":"internal"'

CORPUS: tuple[OddFile, ...] = (
    OddFile("JSONL", "its rows", _bytes(lambda good: good)),
    OddFile("gzipped, whatever its name", "its rows", _bytes(gzip.compress)),
    OddFile("named .gz, but not gzipped", "its rows", _bytes(lambda good: good, "t.jsonl.gz")),
    OddFile(
        "a byte-order mark, carriage returns, blank lines",
        "its rows",
        _bytes(lambda good: b"\xef\xbb\xbf" + good.replace(b"\n", b"\r\n\r\n \t\n")),
    ),
    OddFile("no newline at the end", "its rows", _bytes(bytes.rstrip)),
    OddFile(
        "a last line that is cut off", "the line is set aside", _bytes(lambda good: good[:-20]),
        ours=4, reasons=("the last line is cut off or not an event: not JSON",), **_UNKNOWN,
    ),
    OddFile(
        "gzip that breaks off", "what came before it; the line where it breaks off is named",
        _bytes(lambda good: gzip.compress(good + b" " * 100_000)[:-12]),
        reasons=("the file breaks off",), **_UNKNOWN,
    ),
    OddFile(
        "a line that holds a bare value", "the line is set aside", _line(b"7"),
        reasons=("the line holds 7; a JSON object is accepted",), **_UNKNOWN,
    ),
    OddFile(
        "a line in which a column stands twice", "the line is set aside", _line(_SEND + b',"index":3}'),
        reasons=("index stands twice in the line",), **_UNKNOWN,
    ),
    OddFile(
        "a line with NaN or Infinity", "the line is set aside", _line(_SEND + b',"time":NaN}'),
        reasons=("not JSON: NaN is not JSON",), **_UNKNOWN,
    ),
    OddFile(
        "a line with a bare control character in a string", "the line is set aside", _line(_SEND + b',"label":"\x1b"}'),
        reasons=("not JSON: Invalid control character at position",), **_UNKNOWN,
    ),
    OddFile(
        "a line that is not UTF-8", "the line is set aside", _line(_SEND + b',"label":"\xff"}'),
        reasons=("not UTF-8: byte 0xff at position",), **_UNKNOWN,
    ),
    OddFile(
        "a line of 64 MB or more", "the line is set aside, and never held in memory",
        _line(_SEND + b',"label":"' + b"x" * LINE_LIMIT + b'"}'),
        reasons=("the line is longer than 67108864 bytes",), **_UNKNOWN,
    ),
    OddFile(
        "a line nested more than 200 levels deep", "the line is set aside",
        _line(_SEND + b',"more":' + b"[" * 5000 + b"]" * 5000 + b"}"),
        reasons=("not JSON that we read: nested more than 200 levels deep",), **_UNKNOWN,
    ),
    OddFile(
        "a row that is not an event, in a file of several runs", "it counts in the run it names",
        _two_runs(b'{"run":"s","process":"q","index":0,"kind":"internal"}'),
        exit=1, verdict="unknown", runs={"r": "causal", "s": "unknown"}, ours=7,
        reasons=("index is 0; indexes count from 1",),
    ),
    OddFile(
        "a row whose run cannot be read, in a file of several runs", "every run of its file is unknown",
        _two_runs(b"nonsense"),
        exit=1, verdict="unknown", runs={"r": "unknown", "s": "unknown"}, ours=7,
        reasons=("not JSON: Expecting value at position 1",),
    ),
    OddFile(
        "a row whose run cannot be read, in one of several files", "every run of its file is unknown, and no other",
        _two_files,
        exit=1, verdict="unknown", runs={"r": "unknown", "s": "causal"}, ours=7,
        reasons=("not JSON: Expecting value at position 1",),
    ),
    OddFile(
        "control characters in names, written as JSON has them", "its rows; a terminal shows them as escapes",
        _bytes(lambda good: good.replace(b'"a1"', b'"\\u001b[2Ja\\u009b"')),
    ),
    OddFile(
        "an empty file", "no event: nothing can be said", _bytes(lambda good: b""),
        exit=1, verdict="unknown", runs={}, ours=0,
    ),
    OddFile("one array of JSON", "refused by its format", _bytes(_array, "t.json"),
            reasons=("this looks like one array of JSON; JSON lines are accepted",), **_REFUSED),
    OddFile("one array of JSON, printed over lines", "refused by its format",
            _bytes(lambda good: _array(good, 2), "t.json"),
            reasons=("this looks like one array of JSON; JSON lines are accepted",), **_REFUSED),
    OddFile("JSON printed over several lines", "refused by its format",
            _bytes(lambda good: json.dumps(json.loads(good.splitlines()[0]), indent=2).encode(), "t.json"),
            reasons=("this looks like JSON printed over several lines",), **_REFUSED),
    OddFile("UTF-16", "refused by its format", _bytes(lambda good: good.decode().encode("utf-16")),
            reasons=("this looks like UTF-16 text; UTF-8 is accepted",), **_REFUSED),
    OddFile("UTF-16 without a mark", "refused by its format", _bytes(lambda good: good.decode().encode("utf-16-le")),
            reasons=("this looks like UTF-16 text; UTF-8 is accepted",), **_REFUSED),
    OddFile("a zip archive", "refused by its format", _zip,
            reasons=("this looks like a zip archive; unpack it first",), **_REFUSED),
    OddFile("CSV, lists written as JSON", "its rows", _csv),
    OddFile("Arrow", "its rows", _arrow),
    OddFile("packed by zstandard, whatever its name", "its rows",
            _bytes(lambda good: bytes(pa.Codec("zstd").compress(good, asbytes=True)))),
    OddFile("a folder of Delta, in which removed files are left", "the rows of its newest version",
            _folder_of(write_delta)),
    OddFile("a folder of Iceberg, in which removed files are left", "the rows of its newest version",
            _folder_of(write_iceberg)),
    OddFile("a file of no format known here, named itself", "refused, with what would be accepted",
            _bytes(lambda good: b"Dear reader,\n", "letter.txt"),
            reasons=("it begins like no format known here",), **_REFUSED),
    OddFile("a file of no format known here, in a folder", "named and skipped",
            _in_folder("letter.txt", b"Dear reader,\n"), skipped=("it begins like no format known here",)),
    OddFile("a file in a folder with the name of a trace and other content", "the file is set aside",
            _in_folder("more.json", _array(lines())), exit=1, verdict="unknown",
            reasons=("this looks like one array of JSON",)),
    OddFile("a folder with names that begin with . or _", "these are left out, as Spark does", _hidden),
    OddFile("a folder without files", "refused", lambda folder, order: [(folder / "d").mkdir() or "d"],
            reasons=("d holds no files",), **_REFUSED),
    OddFile("a name of nothing", "refused", lambda folder, order: ["nothing*.jsonl"],
            reasons=("does not exist: a file, a folder or a glob that matches one",), **_REFUSED),
    OddFile("names with [ ] { } * \\\\ : % # ? and spaces", "just names, if there is a file of that name", _odd_names),
    OddFile("such names of Parquet files", "just names too", _odd_tables),
    OddFile("a name that is not in UTF-8", "refused by name",
            lambda folder, order: [(folder / "d").mkdir() or (folder / "d/caf\udce9.jsonl").touch() or "d"],
            reasons=("is not in UTF-8; rename the file",), **_REFUSED),
    OddFile("a folder that is a symbolic link", "followed", _link),
    OddFile("a link that leads back to a folder it stands in", "refused by name", _loop,
            reasons=("is a link back to",), **_REFUSED),
    OddFile("a link to nothing", "refused by name", _dangling, reasons=("is a link to nowhere",), **_REFUSED),
    OddFile("a pipe", "refused: it can be read only once", _pipe,
            reasons=("is neither a file nor a folder",), **_REFUSED),
    OddFile("a file:// URI", "the file", _uri),
    OddFile("any other URI", "refused, with Spark's own reader named", lambda folder, order: ["s3://bucket/t.jsonl"],
            reasons=("is not on this machine; read it with Spark",), **_REFUSED),
    OddFile("Parquet", "its rows", _table(lambda good: good)),
    OddFile("Parquet that its name calls something else", "its rows",
            lambda folder, order: [pq.write_table(table(EVENTS, order), folder / "t.jsonl") or "t.jsonl"]),
    OddFile("Parquet with columns of your own, whatever their names", "its rows", _table(_own)),
    OddFile("Parquet with an unsigned index",  "its rows",
            _table(lambda good: _other("index", good.column("index").cast(pa.uint64()))(good))),
    OddFile("Parquet with a damaged page", "its row group is set aside, and named with its rows", _damaged,
            exit=1, verdict="unknown", runs={"r": "unknown", "s": "unknown"}, ours=4,
            reasons=("row group 2, rows 4 to 6, cannot be read as Parquet",)),
    OddFile("Parquet that breaks off", "the file is set aside", _parquet_cut, exit=1, verdict="unknown", runs={},
            ours=0, reasons=("it cannot be read as Parquet",)),
    OddFile("Parquet without a column that is needed", "refused at once, with the columns that it has",
            _table(lambda good: good.drop_columns(["process"])),
            reasons=("column process is missing; found: ",), **_REFUSED),
    OddFile("Parquet with a column of another type", "refused at once, with the column named",
            _table(lambda good: _other("index", good.column("index").cast(pa.string()))(good)),
            reasons=("column index is string; long is accepted",), **_REFUSED),
    OddFile("a hundred JSON lines without a column that is needed", "refused at once, with the columns that they have",
            _bytes(lambda good: b'{"run":"r","pid":"a","index":1,"kind":"internal"}\n' * 100),
            reasons=("none of its first 100 rows has process; found: index, kind, pid, run; ",), **_REFUSED),
    OddFile("a row of Parquet that is not an event", "the row is set aside, by its number", _table(_set("index", 4, 0)),
            ours=4, reasons=("index is 0; indexes count from 1",), **_UNKNOWN),
    OddFile("a row of Parquet without a run", "the row is set aside; every run of its file is unknown",
            _table(_set("run", 4, None)), ours=4, reasons=("run is missing",), **_UNKNOWN),
    OddFile("a row of Parquet that is not UTF-8", "the row is set aside", _table(_not_utf8),
            ours=4, reasons=("not UTF-8: invalid start byte",), **_UNKNOWN),
    OddFile("an index of Parquet beyond 64 bits", "the row is set aside",
            _table(lambda good: _other("index", pa.array([1, 1, 2, 1, 2**63], pa.uint64()))(good)),
            ours=4, reasons=("index is 9223372036854775808, which does not fit in 64 bits",), **_UNKNOWN),
)  # fmt: skip
"""Every kind of table that the docs speak of; logs with clocks have no rows and stand in `LOGS`."""

LOGS: tuple[OddFile, ...] = (
    OddFile("a log with vector clocks", "its clocks are audited",
            _bytes(lambda good: CLOCKS, "t.log"), runs={}, ours=2),
    OddFile("a log with escaped quotes", "they are read where nothing else is found",
            _bytes(lambda good: CLOCKS.replace(b'"', b'\\"'), "t.log"), runs={}, ours=2),
    OddFile("a log whose first line is a pattern that would hang others", "read in linear time",
            _bytes(lambda good: rb"(?<host>(a+)+)b (?<clock>{.*}) (?<event>.*)" b"\n\n" + b"a" * 5000
                   + b'\nab {"a":1} one\n', "t.log"),
            exit=1, verdict="unknown", runs={}, ours=1, reasons=("the line belongs to no event with a clock",)),
    OddFile("a log whose pattern looks around or refers back", "refused",
            _bytes(lambda good: rb"(?<host>a)(?!b) (?<clock>{.*}) (?<event>.*)" b"\n\n" + CLOCKS, "t.log"),
            reasons=("it uses lookaround",), **_REFUSED),
)  # fmt: skip
"""The same for logs."""


def audit_case(case: OddFile, folder: Path, engine: str, order: bool) -> tuple[int, dict[str, object] | None]:
    """Audit a case from the command line, in its folder; return exit code and JSON."""
    names = case.make(folder, order)
    out = folder.parent / f"{folder.name}.json"
    code = main(["audit", *names, "--engine", engine, "--json", str(out), "--quiet"])
    return code, json.loads(out.read_text()) if out.exists() else None


def check_case(case: OddFile, code: int, said: dict[str, object] | None) -> None:
    """Hold what an audit says against the table."""
    assert code == case.exit, said
    assert (None if said is None else said["verdict"]) == case.verdict
    if said is not None:
        runs = {run["run"]: run["verdict"] for run in said["runs"]}  # type: ignore[attr-defined]
        assert runs == case.runs
        reasons = [row["reason"] for row in said["quarantine"]]  # type: ignore[attr-defined]
        judged = [each for each in reasons if each.startswith("message ")]  # those are for the judge, not the reader
        assert len(reasons) - len(judged) == len(case.reasons), reasons
        for reason in case.reasons:
            assert any(each.startswith(reason) for each in reasons), reasons
