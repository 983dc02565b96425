"""Files that a name stands for and their formats; and the likely format of a file that is not accepted.

Invariant of names: a name that exists is that file or folder, with any characters; only a name that does not
exist is read as a glob. A folder stands for every file below it, through symbolic links too; names that begin with `.`
or `_` are left out, as Spark does. A folder of Delta or Iceberg is one table and stands for itself. A link that leads
back to a folder it stands in is refused by name. Each file comes once, and the files are sorted by their names,
in whichever order they were named. Relative names mean the folder that the caller is in.

Invariant of formats: `PAR1` at the beginning is Parquet, `ARROW1` Arrow, gzip and zstandard are unpacked, whatever the
name says. A file that looks like something we do not read (an array of JSON, UTF-16, a zip archive, a journal, ...) is
recognised by what it looks like, with what to do. Otherwise the name decides (`SUFFIXES`, each also with .gz or .zst),
and where it says nothing, how the text begins. An empty file is JSONL without lines. Objects with a host, a vector
clock and no `kind` are a log.
"""

from __future__ import annotations

import codecs
import glob
import json
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Literal, NamedTuple, get_args
from urllib.parse import unquote, urlsplit

from thence.core.model.escape import visible
from thence.errors import Argument, MisuseError, TraceError
from thence.tables.contract.columns import EVENT_COLUMNS, Column, without
from thence.tables.files.lakehouse import TABLE_KINDS, lakehouse_format
from thence.tables.files.record_forms import PROTOBUF, form_of
from thence.tables.files.source import BROKEN, PACKED, first_line, open_bytes

Paths = str | Path | Iterable[str | Path]
"""What a caller may name files by."""
_URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/")
Format = Literal[
    "jsonl", "parquet", "shiviz", "csv", "tsv", "arrow", "delta", "iceberg", "otlp", "cloudevents", "debezium"
]
FORMATS: tuple[Format, ...] = get_args(Format)
WHOLE: tuple[Format, ...] = ("csv", "tsv", "arrow", "delta", "iceberg")
"""Formats of tables that are read whole, by the driver where Spark works."""
RECORDS: tuple[Format, ...] = ("otlp", "cloudevents", "debezium")
"""Forms of records that name their causes (`record_files`)."""
SUFFIXES: dict[str, Format] = {
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "jsonl",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".csv": "csv",
    ".tsv": "tsv",
    ".arrow": "arrow",
    ".arrows": "arrow",
    ".feather": "arrow",
    ".ipc": "arrow",
}
SAMPLE = 1 << 16
PARQUET = b"PAR1"
ARROW = (b"ARROW1", b"\xff\xff\xff\xff")
"""The first bytes of an Arrow file, and of a stream in Arrow's format."""
KEPT_BYTES = 1 << 25
"""Bytes of files that are kept between recognising their format and reading them."""
MARK = ".mark"
"""Suffix of the file that marks the progress of a live endpoint's journal; the rest of its name is the journal's."""
_ENDPOINT = (".toml", ".crt", ".key", ".sock")
"""Suffixes of the files that `thence endpoint --init` writes, and of the socket that `thence why` asks."""
CLOCK = re.compile(r'\{\s*\\?"[^"\n]*"\s*:\s*\d')
PATTERN = re.compile(r"\(\?P?<clock>")
FIRST = 100
"""Rows without a required column after which no more are read."""
LISTED_COLUMNS = 20
"""Names of columns that are listed."""
CLOCKED = 4
"""Lines in which an object with a clock is looked for."""
_HOSTS, _CLOCKS = {"node", "host"}, ("vc", "clock")
_UTF_16 = "UTF-16 text; UTF-8 is accepted: iconv -f UTF-16 -t UTF-8"
_LIKE: tuple[tuple[bytes, str], ...] = (
    (b"PK\x03\x04", "a zip archive; unpack it first"),
    (b"BZh", "bzip2; unpack it first, or pack it with gzip"),
    (b"\xfd7zXZ\x00", "xz; unpack it first, or pack it with gzip"),
    (b"ORC", "ORC; write it as Parquet first"),
    (b"Obj\x01", "Avro; write it as Parquet first"),
    (b"FEA1", "Feather of version 1; write it as Parquet first"),
    (b"SQLite format 3\x00", "a SQLite database; export its rows as JSON lines"),
    (b"%PDF", "a PDF"),
    (codecs.BOM_UTF32_LE, "UTF-32 text; UTF-8 is accepted: iconv -f UTF-32 -t UTF-8"),
    (codecs.BOM_UTF32_BE, "UTF-32 text; UTF-8 is accepted: iconv -f UTF-32 -t UTF-8"),
    (codecs.BOM_UTF16_LE, _UTF_16),
    (codecs.BOM_UTF16_BE, _UTF_16),
)
_JOURNAL = "part of the journal of a `thence endpoint`; its events are in the file that its configuration calls record"
_LINES = "JSON lines are accepted, one object a line"
_BINARY = f"binary data of no format known here; {_LINES}, or Parquet"
SAY_WHICH = f"; name one with --format: {', '.join(FORMATS)}, or give a pattern with the groups host, clock and event"
"""Advice for callers that can name the format."""

ELSEWHERE = (
    "for rows that name their causes use deliver; for spans, events or changes thence.sources, or on the command line "
    "--from otlp, cloudevents or debezium"
)
"""Advice for files that do not look like a recorded execution."""

Parts = tuple[str | Argument, ...]
"""The parts of an error's text; see `thence.errors.MisuseError`."""


class Unfit(NamedTuple):
    """A file that has none of our formats, or not our columns: why, and whether its name says that it has one."""

    reason: str
    claims: bool
    parts: Parts = ()
    """The reason in parts, if the format is right and the caller may say what its columns are called."""


def nameable(parts: Parts) -> Unfit:
    """Return a file of the right format whose columns the caller may name."""
    return Unfit("".join(map(str, parts)), claims=True, parts=parts)


def by_name(path: Path) -> Format | None:
    """Return the format that a name says, if any."""
    inner = path.with_suffix("") if path.suffix.lower() in PACKED else path
    return SUFFIXES.get(inner.suffix.lower())


def detect(
    path: Path,
    *,
    log: bool = False,
    clocks: bool = True,
    records: bool = True,
    kept: dict[Path, bytes] | None = None,
    columns: Sequence[Column] = (),
) -> Format | Unfit:
    """Return the format of a file, or what it looks like instead; `log`: what is not a table is a log.

    Unless `clocks`, objects with a vector clock are a table: arrivals may have one. Unless `records`, objects in the
    form of known records are a table: the caller has named its columns. The content of a small file is put
    into `kept`, so that it is read once. JSON lines of which the first have none of some required column are unfit.
    """
    named = by_name(path)
    if path.is_dir():
        return lakehouse_format(path) or Unfit("it is a folder", claims=False)
    try:
        with path.open("rb") as plain:
            begins = plain.read(SAMPLE)
            if begins.startswith(PARQUET):
                return "parquet"
            if begins.startswith(ARROW) and not log:
                return "arrow"
            if kept is not None and os.fstat(plain.fileno()).st_size + sum(map(len, kept.values())) <= KEPT_BYTES:
                begins = kept[path] = begins + plain.read()
        with open_bytes(path, begins) as stream:
            raw = stream.read1(SAMPLE)
    except PermissionError:
        return Unfit("it cannot be read: no permission", claims=named is not None)
    except BROKEN as error:
        return named or Unfit(f"it cannot be read: {first_line(error)}", claims=False)
    text = raw.decode("utf-8", "replace").removeprefix("\ufeff")
    if records and not log:
        if path.suffix.lower() in PROTOBUF:
            return "otlp"
        if text.lstrip()[:1] in ("{", "[") and (form := form_of(text)):
            return form
    looks = _magic(raw) or (None if log else _layout(text))
    if looks is not None:
        return Unfit(f"this looks like {_JOURNAL if _in_journal(path) else looks}", claims=named is not None)
    separated = None if log else _separated(text)
    if separated is not None and named == "jsonl":
        return Unfit(f"this looks like {separated.upper()}; name it so, or say --format {separated}", claims=True)
    found = named or separated or _by_text(text, log=log)
    if found == "jsonl" and clocks and _has_clocks(text):
        return "shiviz"
    lacking = _lacking(text, columns) if found == "jsonl" else None
    return nameable(lacking) if lacking else found


def _by_text(text: str, *, log: bool) -> Format | Unfit:
    """Return the format of a text whose name says nothing."""
    if log:
        return "shiviz"
    if not text.strip() or text.lstrip().startswith("{"):
        return "jsonl"
    if CLOCK.search(text) or PATTERN.search(text):
        return "shiviz"
    if "\0" in text:
        return Unfit(f"this looks like {_BINARY}", claims=False)
    return Unfit(f"it begins like no format known here{SAY_WHICH}", claims=False)


def _has_clocks(text: str) -> bool:
    """Return whether the first lines are events with vector clocks, as TLA+ validates them, and not rows of a table."""
    for line in text.split("\n", CLOCKED + 1)[:CLOCKED]:
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(row, dict) and "kind" not in row and row.keys() & _HOSTS and "event" in row:
            inner = row["pkt"] if isinstance(row.get("pkt"), dict) else row
            return any(isinstance(inner.get(name), dict) for name in _CLOCKS)
    return False


def _lacking(text: str, columns: Sequence[Column]) -> Parts | None:
    """Return the error for a column that all first rows lack: one that the caller named, or a required one."""
    names: set[str] = set()
    lines = [line for line in text.split("\n", FIRST)[:FIRST] if line.strip()]
    many = len(lines) == FIRST
    for line in lines:
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            return None
        names |= row.keys() if isinstance(row, dict) else set()
    asked = [column for column in columns if column.called or (column.required and many)]
    missing = [column for column in asked if column.theirs not in names]
    if not missing or not names:
        return None
    rows = f"first {FIRST} rows" if many else "rows"
    return f"none of its {rows} has {missing[0].theirs}; ", *say_which(missing[0], names)


def say_which(column: Column, found: Iterable[str]) -> Parts:
    """List the columns, and explain how to name the right one."""
    names = sorted(found)
    listed = ", ".join(map(visible, names[:LISTED_COLUMNS])) + (", ..." if len(names) > LISTED_COLUMNS else "")
    none = "" if column.required else f", or {column.name}= if there is none"
    foreign = not _NAMES & set(names)
    hint = f"; this does not look like a recorded execution: {ELSEWHERE}" * foreign
    return (
        f"found: {listed}; name the right one by ",
        Argument("columns"),
        f", as in {column.name}=NAME{none}{without([column], found)}{hint}",
    )


def _magic(raw: bytes) -> str | None:
    """Return the format that the first bytes of a file show."""
    if raw.startswith(PARQUET):
        return "gzipped Parquet; unpack it first: Parquet packs its own pages"
    for begins, what in _LIKE:
        if raw.startswith(begins):
            return what
    if raw.count(0) * 3 > len(raw):
        return _UTF_16 if _is_wide(raw) else _BINARY
    return None


def _is_wide(raw: bytes) -> bool:
    """Return whether bytes, many of them zero, are text of two bytes a character."""
    whole = raw[: len(raw) // 2 * 2]
    texts = (whole.decode(order, "replace") for order in ("utf-16-le", "utf-16-be"))
    return any(all(each.isprintable() or each.isspace() for each in text) for text in texts)


def of_endpoint(path: Path) -> bool:
    """Return whether a file is one that a live endpoint keeps beside its record: configuration, keys, journal."""
    # a folder with a mark is one of `thence endpoint`; elsewhere a stray .toml is worth a note
    return _in_journal(path) or (path.suffix in _ENDPOINT and any(path.parent.glob(f"*{MARK}")))


def _in_journal(path: Path) -> bool:
    """Return whether a file belongs to a journal: the database, what SQLite keeps beside it, or the mark."""
    name = path.name.removesuffix(MARK).removesuffix("-wal").removesuffix("-shm")
    return path.with_name(name + MARK).is_file()


def _layout(text: str) -> str | None:
    """Return a description of a text in a layout that is not accepted, or None."""
    begins = text.lstrip()
    first, _, rest = begins.partition("\n")
    if re.match(r"\[\s*\{", begins) and not (_is_json(first) and rest.strip()):
        return f"one array of JSON; {_LINES}: jq -c '.[]'"
    if begins.startswith("{") and rest.strip() and not _is_json(first) and _spans_lines(begins, len(first)):
        return f"JSON printed over several lines; {_LINES}: jq -c ."
    if begins.startswith("<") and re.match(r"<(\?xml|!doctype|html)", begins, re.IGNORECASE):
        return f"XML or HTML; {_LINES}"
    return None


def _separated(text: str) -> Format | None:
    """Return whether a text whose name says nothing is CSV or TSV: its first line has names of ours."""
    first = text.lstrip().partition("\n")[0]
    for kind, sign in (("csv", ","), ("csv", ";"), ("tsv", "\t")):
        if "{" not in first and len(_NAMES & {part.strip(' "\r') for part in first.split(sign)}) > 2:
            return kind  # type: ignore[return-value]
    return None


_NAMES = {column.name for column in EVENT_COLUMNS}


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def _spans_lines(text: str, first: int) -> bool:
    """Return whether a text begins with an object that goes on after its first line, of this many characters."""
    if text[:first].strip() == "{":
        return True
    try:
        _, end = json.JSONDecoder().raw_decode(text)
    except (ValueError, RecursionError):
        return False
    return end > first


class File(NamedTuple):
    """A file, and whether it was named itself; else a folder or a glob stands for it."""

    path: Path
    named: bool


def find_files(paths: Paths) -> list[File]:
    """Return the files behind names, folders, globs and `file://` URIs, sorted by name."""
    found: dict[Path, bool] = {}
    for given in [paths] if isinstance(paths, str | Path) else paths:
        for file in _behind(given):
            if str(file.path) != str(file.path).encode(errors="replace").decode():
                raise MisuseError(f"{file.path} is not in UTF-8; rename the file")
            found[file.path] = found.get(file.path, False) or file.named
    if not found:
        raise MisuseError("no file was named; files, folders or globs are accepted")
    return [File(path, found[path]) for path in sorted(found)]


def _behind(given: str | Path) -> list[File]:
    path = _local(given)
    if path.is_dir() and lakehouse_format(path):
        return [File(path, True)]
    if path.is_dir():
        files = [File(each, False) for each in _below(path, [path.resolve()])]
        if not files:
            raise MisuseError(f"{given} holds no files")
        return files
    if path.is_file():
        return [File(path, True)]
    if path.exists():
        raise MisuseError(
            f"{given} is neither a file nor a folder, and can be read only once; write it to a file first"
        )
    if path.is_symlink():
        raise TraceError(f"{given} is a link to {os.readlink(path)}, which does not exist")
    files = [
        File(each, False) for name in sorted(glob.glob(str(path), recursive=True)) for each in _matched(Path(name))
    ]
    if not files and str(given) == "-":
        raise MisuseError("- would be standard input, which can be read only once; write it to a file first")
    if not files:
        raise MisuseError(f"{given} does not exist: a file, a folder or a glob that matches one is accepted")
    return files


def _matched(path: Path) -> Iterator[Path]:
    """Yield the files of one match of a glob."""
    if path.is_dir() and lakehouse_format(path):
        yield path
    elif path.is_dir():
        yield from _below(path, [path.resolve()])
    elif path.is_file():
        yield path


def _local(given: str | Path) -> Path:
    """Return a name or a `file://` URI as a path; other URIs are for Spark's own readers."""
    if isinstance(given, Path) or not _URI.match(given) or Path(given).exists():
        return Path(given)
    uri = urlsplit(given)
    if uri.scheme.lower() != "file" or uri.netloc not in ("", "localhost"):
        raise MisuseError(
            f"{given} is not on this machine; read it with Spark, spark.read.parquet({given!r}) or spark.read.json, "
            "and pass the DataFrame to thence.spark"
        )
    return Path(unquote(given.partition(":")[2].removeprefix("//localhost").removeprefix("//")))


def _below(folder: Path, above: list[Path]) -> Iterator[Path]:
    """Yield the files below a folder; `above` are the real folders that lead to it."""
    for path in sorted(folder.iterdir()):
        if path.name.startswith((".", "_")):
            continue
        if path.is_dir():
            real = path.resolve()
            if real in above:
                raise TraceError(
                    f"{path} is a link back to {real}, a folder that contains it; name the folder to be read"
                )
            if kind := lakehouse_format(path):
                raise MisuseError(f"{path} is {TABLE_KINDS[kind]}, one of several things in {folder}; name it itself")
            yield from _below(path, [*above, real])
        elif path.is_file():
            yield path
        elif path.is_symlink():
            raise TraceError(f"{path} is a link to {os.readlink(path)}, which does not exist")
