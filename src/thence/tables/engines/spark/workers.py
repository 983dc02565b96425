"""Checks of the Python workers before a job, and translation of the errors that come back from them.

Invariant. Only what can be known without a job is checked: whether a table is a DataFrame, and whether a local session
has workers that run another interpreter than this process. Spark would report the latter in fifty lines of Java.
Clusters and Connect are left to `thence doctor`. Spark passes on what a worker raised as text alone, a line of a
traceback with the name of its class: that text is read here and nowhere else, and other errors go on unchanged.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from thence.errors import MisuseError, PeerError, ThenceError, TraceError
from thence.tables.engines.spark.versions import repartition_by_id
from thence.tables.files.inputs import input_table, is_path
from thence.tables.judge.tasks import BatchFunction

NEEDED = ("pyarrow", "numpy", "pandas", "thence")
"""What the operators import in a worker."""
_CLASSES = {f"{cls.__module__}.{cls.__qualname__}": cls for cls in (MisuseError, PeerError, TraceError)}
_LINE = re.compile(rf"({'|'.join(map(re.escape, _CLASSES))}): (.*)")


def check_frame(data: object, function: str) -> None:
    """Reject data that is not a Spark DataFrame, with the function that takes it; Spark Connect's are accepted."""
    if isinstance(data, DataFrame):
        return
    found = f"{type(data).__module__.partition('.')[0]}.{type(data).__qualname__}".removeprefix("builtins.")
    known = is_path(data) or isinstance(data, list) or input_table(data) is not None
    hint = f"thence.{function} takes it, or " if known else ""
    raise MisuseError(
        f"found {found}; thence.spark.{function} takes a DataFrame of Spark: {hint}spark.createDataFrame makes one"
    )


def check_workers(spark: SparkSession) -> None:
    """Raise `MisuseError` if the workers' Python lacks a package that the operators need."""
    context = getattr(spark, "sparkContext", None)  # Connect has none
    if context is None or not context.master.startswith("local"):
        return
    python = shutil.which(context.pythonExec)
    shipped = bool(context.getConf().get("spark.submit.pyFiles", ""))
    needed = tuple(name for name in NEEDED if not (shipped and name == "thence"))
    if python is None or python == sys.executable:
        return
    lacking = _lacking(python, needed)
    if lacking:
        raise MisuseError(
            f"the workers of this session run {python}, which has no {lacking}. Set PYSPARK_PYTHON={sys.executable} "
            "before the session starts, or activate the environment of this program first"
        )


@cache
def _lacking(python: str, needed: tuple[str, ...]) -> str:
    """Return the packages among those needed that an interpreter does not find."""
    program = "import sys, importlib.util as u; print(', '.join(n for n in sys.argv[1:] if u.find_spec(n) is None))"
    try:
        done = subprocess.run(
            [python, "-c", program, *needed], capture_output=True, text=True, timeout=60, check=False, cwd="/"
        )
    except (OSError, subprocess.TimeoutExpired):  # Spark then reports the problem itself
        return ""
    return done.stdout.strip()


def run_placed(
    spark: SparkSession, rows: Sequence[tuple[Any, ...]], schema: str, place: str, work: BatchFunction, result: str
) -> DataFrame:
    """Return the frame that `work` makes of the rows; computing it runs them.

    Column `place` numbers the task of each row, from 0; `schema` and `result` declare what goes in and comes out.
    """
    frame = spark.createDataFrame(list(rows), schema)
    tasks = 1 + max((row[frame.columns.index(place)] for row in rows), default=0)
    return repartition_by_id(frame, tasks, F.col(place)).mapInArrow(work, result)


def error_of_ours(text: str) -> ThenceError | None:
    """Return the thence error that a text of Spark's contains, or None."""
    found = _LINE.search(text)
    return None if found is None else _CLASSES[found[1]](found[2])


@contextmanager
def errors_of_workers() -> Iterator[None]:
    """Raise thence errors from workers as such, if the block fails because of one."""
    try:
        yield
    except Exception as error:
        ours = error_of_ours(str(error))
        if ours is None:
            raise
        raise ours from error
