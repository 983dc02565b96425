"""Options, results, progress and exit codes shared by all commands.

Invariant: stdout carries the result and nothing else; progress and errors go to stderr. With `--json -` the JSON is the
result, and the text for people goes to stderr.
"""

from __future__ import annotations

import inspect
import json
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from enum import Enum
from functools import wraps
from itertools import islice
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Annotated, NoReturn, TypeVar, get_args

import typer
from typer.models import ArgumentInfo, OptionInfo

from thence.cli._console import Console
from thence.cli._packages import require_packages
from thence.cli._panels import grouped
from thence.cli._targets import check_targets, declared, spelled
from thence.core.model.escape import escaped_json, visible, visible_lines
from thence.core.model.plain import Json, Option
from thence.errors import Argument, MisuseError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from thence.tables.files.source import Quarantined

T = TypeVar("T")

JsonFile = Annotated[
    str | None,
    typer.Option(
        "--json", metavar="FILE", help="Also write the result as JSON; - is standard output.", rich_help_panel="Output"
    ),
]
"""The `--json FILE` that every verb takes: declare a parameter `json_file: JsonFile = None`."""


EngineOption = Annotated[
    str, typer.Option(metavar="auto|local|spark", help="Engine: in-process or Spark; auto decides by size.")
]
"""The `--engine` of commands on tables: declare `engine: EngineOption = "auto"` and call `choose_engine`."""

SHOWN = 20
"""Rows of each table that a terminal shows; `--json` has all."""
CORES = os.cpu_count() or 1
"""The default of `--cores`, as in the library: all cores."""
SparkCores = Annotated[
    int, typer.Option(help="Number of cores of the embedded Spark session.", min=1, show_default="all")
]
"""The `--cores` of verbs that may start Spark: declare `cores: SparkCores = CORES`."""


def _pairs(option: str, accepted: str) -> Callable[[str], dict[str, str]]:
    """Return a parser for `FIRST=SECOND,...`, the value of an option."""

    def read(given: str) -> dict[str, str]:
        pairs = [part.partition("=") for part in given.split(",")]
        for first, sign, _ in pairs:
            if not (first.strip() and sign):
                raise MisuseError(f"{option} {given}: {accepted}")
        return {first.strip(): second.strip() for first, _, second in pairs}

    return read


ColumnsOption = Annotated[
    dict[str, str] | None,
    typer.Option(
        metavar="OURS=YOURS,...",
        help="Your column names, as in message=event_id; message= if you have no such column.",
        parser=_pairs("--columns", "OURS=YOURS,... is accepted, as in message=event_id"),
    ),
]
"""The `--columns` of verbs that read users' tables: declare `columns: ColumnsOption = None`."""
KindsOption = Annotated[
    dict[str, str] | None,
    typer.Option(
        metavar="YOURS=OURS,...",
        help="Your values of kind, as in PRODUCED=send.",
        parser=_pairs("--kinds", "YOURS=OURS,... is accepted, as in PRODUCED=send"),
    ),
]
"""The `--kinds` of verbs that read users' traces: declare `kinds: KindsOption = None`."""


def by_reason(rows: Iterable[Mapping[str, object]]) -> dict[str, tuple[int, Mapping[str, object]]]:
    """Return, for each reason, the number of rows set aside and the first of them, sorted by the first."""
    found: dict[str, tuple[int, Mapping[str, object]]] = {}
    for row in rows:
        reason = str(row["reason"])
        count, first = found.get(reason, (0, row))
        found[reason] = (count + 1, min(first, row, key=_where))
    return dict(sorted(found.items(), key=lambda each: _where(each[1][1])))


def _where(row: Mapping[str, object]) -> tuple[str, int]:
    line = row.get("line")
    return str(row.get("file") or ""), line if isinstance(line, int) else 0


def lines_by_reason(reasons: Mapping[str, tuple[int, Mapping[str, object]]], limit: int) -> Iterator[str]:
    """Yield a line for each reason for which rows were set aside, `limit` at most."""
    for reason, (count, row) in islice(reasons.items(), limit):
        alone = f"set aside: {place_of_row(row)}: {reason}"
        yield alone if count == 1 else f"set aside, {count:,} rows: {reason}; the first: {place_of_row(row)}"
    if more := sum(count for count, _ in islice(reasons.values(), limit, None)):
        yield f"... and {more:,} more rows set aside for other reasons; --json has them all"


def place_of_row(row: Mapping[str, object]) -> str:
    """Return the place of a row: in its file, or in its run."""
    if row.get("file"):
        return f"{row['file']}:{row['line']}" if row.get("line") is not None else str(row["file"])
    return f"run {row.get('run')}, process {row.get('process')}, index {row.get('index')}"


@contextmanager
def standard_input(names: T) -> Iterator[T]:
    """Yield names of files; standard input, `-`, is written to a file first, named by how it begins."""
    if not isinstance(names, list) or "-" not in names or Path("-").exists():
        yield names
        return
    from shutil import copyfileobj
    from tempfile import TemporaryDirectory

    from thence.tables.files.whole_tables import ending_of

    with TemporaryDirectory(prefix="thence-") as folder:
        begins = sys.stdin.buffer.read(STDIN_SAMPLE)
        file = Path(folder) / f"standard-input{ending_of(begins)}"
        with file.open("wb") as into:
            into.write(begins)
            copyfileobj(sys.stdin.buffer, into)
        yield [str(file) if name == "-" else name for name in names]  # type: ignore[misc]


STDIN_SAMPLE = 1 << 16
"""Bytes of standard input from which its format is recognised."""


class Talk(Enum):
    """Verbosity of a command: what it prints besides its JSON and its files."""

    QUIET = "nothing but errors"
    PLAIN = "the result"
    VERBOSE = "the result, with engine, route and timing"


_talk = Talk.PLAIN

Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but errors.", rich_help_panel="Output")]
Verbose = Annotated[
    bool,
    typer.Option("--verbose", "-v", help="Also print engine, route and timing to stderr.", rich_help_panel="Output"),
]


def talking(verb: Callable[..., None]) -> Callable[..., None]:
    """Add `--quiet` and `--verbose` to a command; check its outputs and packages before it begins.

    Errors of the library name their arguments (`columns=`, `after_rows`) as data; here they become options.
    """
    own = inspect.signature(verb, eval_str=True)

    @wraps(verb)
    def spoken(*args: object, quiet: bool = False, verbose: bool = False, **options: object) -> None:
        global _talk
        if quiet and verbose:
            raise MisuseError("--quiet and --verbose were both given; one of them is accepted")
        _talk = Talk.QUIET if quiet else Talk.VERBOSE if verbose else Talk.PLAIN
        try:
            check_targets(own.parameters, options)
            _check_counts(options)
            if options.get("engine") == "spark":
                require_packages("pyspark", "pyarrow")
            with standard_input(options.get("trace")) as names:
                verb(*args, **options if names is None else options | {"trace": names})
        except MisuseError as error:
            error.args = (error.worded(lambda argument: as_option(argument, own.parameters)),)
            raise
        finally:
            _talk = Talk.PLAIN

    place = grouped(own.parameters, verb.__module__.rpartition(".")[2])
    for parameter in own.parameters.values():
        _named_value(parameter)
    more = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=False, annotation=kind)
        for name, kind in (("quiet", Quiet), ("verbose", Verbose))
    ]
    shown = sorted([*own.parameters.values(), *more], key=place)  # help lists groups in the order of their first option
    keywords = [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in shown]
    spoken.__signature__ = own.replace(parameters=keywords)  # type: ignore[attr-defined]
    return spoken


def _check_counts(given: Mapping[str, object]) -> None:
    """Reject counts above the machine's integer limit; a seed may have any size."""
    for name, value in given.items():
        if isinstance(value, int) and abs(value) > sys.maxsize and name != "seed":
            raise MisuseError(Argument(name), f" is {value}; numbers up to {sys.maxsize} are accepted")


def _named_value(parameter: inspect.Parameter) -> None:
    """Name the value of an option or argument that declares no name, since the help would show Python's type."""
    kind, *declarations = get_args(parameter.annotation) or (parameter.annotation,)
    for each in declarations:
        if isinstance(each, ArgumentInfo) and each.metavar is None:
            each.metavar = parameter.name.upper()
        if isinstance(each, OptionInfo) and each.metavar is None:
            kinds = {part for part in (kind, *get_args(kind)) if isinstance(part, type)}
            each.metavar = next((VALUES[part] for part in VALUES if part in kinds), None)


VALUES = {float: "NUMBER", int: "N", str: "TEXT"}
"""What the value of an option is called in the help, by its type; flags and choices are left to typer."""


def as_option(argument: Argument, parameters: Mapping[str, inspect.Parameter]) -> str:
    """Write an argument that an error names as an option of a command, if the command has one for it."""
    option = declared(parameters[argument.name]) if argument.name in parameters else None
    if option is None:
        return str(argument)
    shown = spelled(argument.name, option)
    return f"{shown} {argument.value}" if argument.given else shown


def verbose() -> bool:
    """Return whether `--verbose` was given."""
    return _talk is Talk.VERBOSE


def detail(text: str) -> None:
    """Print engine, route or timing on stderr, with `--verbose`."""
    if verbose():
        print(visible_lines(text), file=sys.stderr)


def tell(text: str) -> None:
    """Print a line on stderr, unless `--quiet`: for verbs whose stdout may carry a trace."""
    if _talk is not Talk.QUIET:
        print(visible(text), file=sys.stderr)


def skipped_files(skipped: Sequence[Quarantined]) -> Iterator[str]:
    """Yield a line for each reason why files of a folder were skipped, with the first of these files."""
    strays: dict[str, list[str]] = {}
    for stray in skipped[:_STRAYS]:
        strays.setdefault(stray.reason, []).append(str(stray.file))
    for reason, files in strays.items():
        yield f"note: skipped {', '.join(files)}: {reason}"
    if len(skipped) > _STRAYS:
        yield f"... and {len(skipped) - _STRAYS:,} more skipped files"


_STRAYS = 20
"""Stray files that are named at most."""


def options_of(texts: Iterable[str] | None) -> dict[str, Option]:
    """Read each NAME=VALUE, an option of a protocol: true and false, whole numbers, text."""
    found: dict[str, Option] = {}
    for text in texts or ():
        name, sign, value = text.partition("=")
        if not sign or not name:
            raise MisuseError(f"option {text!r} is not NAME=VALUE")
        if name in found:
            raise MisuseError(f"option {name} is given more than once; once is accepted")
        number = re.fullmatch("-?[0-9]{1,99}", value)
        found[name] = value == "true" if value in ("true", "false") else int(value) if number else value
    return found


def write_json(target: str | None, result: Json) -> None:
    """Write `result` to the file named by `--json`, to stdout for `-`, nowhere for None."""
    if target is None:
        return
    text = escaped_json(json.dumps(result, indent=2, ensure_ascii=False, allow_nan=False)) + "\n"
    if target == "-":
        sys.stdout.write(text)
    else:
        Path(target).write_text(text, encoding="utf-8")


def write_pieces(target: str | None, pieces: Iterable[str]) -> None:
    """Write a text that is produced in pieces to the file of `--json`, without holding all of it in memory."""
    if target is None:
        return
    if target == "-":
        sys.stdout.writelines(map(escaped_json, pieces))
        return
    with Path(target).open("w", encoding="utf-8") as stream:
        stream.writelines(map(escaped_json, pieces))


def console(json_file: str | None = None) -> Console:
    """Return the console for people: stdout, stderr if the JSON goes to stdout, none if quiet."""
    return Console(sys.stderr if json_file == "-" else sys.stdout, quiet=_talk is Talk.QUIET)


def shows_progress() -> bool:
    """Return whether to show progress: on a terminal, unless `--quiet`."""
    return sys.stderr.isatty() and _talk is not Talk.QUIET


@contextmanager
def working(what: str) -> Iterator[Callable[[str], None]]:
    """Show on a terminal that `what` is in progress, and for how long; show nothing when piped or quiet.

    Yields a function that changes the displayed text.
    """
    if not shows_progress():
        yield lambda stage: None
        return
    from rich.console import Console as Terminal
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=Terminal(stderr=True), transient=True) as shown:
        task = shown.add_task(what, total=None)
        yield lambda stage: shown.update(task, description=stage)


def start_spark(cores: int = CORES, *, quick: bool = False, what: str = "Starting Spark") -> SparkSession:
    """Start the embedded Spark of a command, with a note on a terminal."""
    with working(what):
        from thence.tables.engines.spark.session import command_session

        return command_session(cores, quick=quick)


def progress(items: Iterable[T], what: str, total: int | None = None) -> Iterator[T]:
    """Yield `items` and show their progress on a terminal; show nothing when piped or quiet."""
    if not shows_progress():
        yield from items
        return
    from rich.console import Console as Terminal
    from rich.progress import track

    yield from track(items, what, total=total, console=Terminal(stderr=True), transient=True)


SILENT_SECONDS = 2.0
"""Seconds after which long work shows its progress."""


@contextmanager
def counted() -> Iterator[Callable[[str, int, int | None], None]]:
    """Yield a progress callback that takes the stage, the amount done and, if known, the total.

    On a terminal it shows them with rate and time left, once the work has lasted a while; elsewhere nothing.
    """
    if not shows_progress():
        yield lambda stage, done, total: None
        return
    from rich.console import Console as Terminal

    status = Terminal(stderr=True).status("")
    began = monotonic()
    stages: dict[str, float] = {}

    def tell(stage: str, done: int, total: int | None) -> None:
        now = monotonic()
        since = now - stages.setdefault(stage, now)
        if now - began > SILENT_SECONDS:
            status.update(_how_far(stage, done, total, since))
            status.start()

    try:
        yield tell
    finally:
        status.stop()


def _how_far(stage: str, done: int, total: int | None, seconds: float) -> str:
    """Return a line that shows the progress of a stage."""
    rate = done / seconds if seconds > 0 else 0.0
    of = f" of {total:,}" if total is not None else ""
    left = f", {(total - done) / rate:.0f} s left" if total is not None and rate > 0 else ""
    return f"{stage}: {done:,}{of} ({rate:,.{0 if rate >= 10 else 1}f} a second{left})"


def finish(code: int) -> NoReturn:
    """End the command with this exit code: 1 when the data violates causal order or a check failed."""
    raise typer.Exit(code)
