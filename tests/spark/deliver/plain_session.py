"""What a new user does, in a session that nobody has set up: run as a program, so that nothing else has.

python plain_session.py FOLDER ZONE...        leaves what was found in FOLDER/found.json
"""

from __future__ import annotations

import json
import re
import sqlite3
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

GUIDES = Path(__file__).parents[3] / "docs" / "how-to"
ROWS = (
    "select destination, arrival, Event_ID, depends_on, to_timestamp(moment) moment, to_timestamp_ntz(local) local "
    "from values ('d', 2L, 'b', array('a'), '2024-03-31 01:30:00', '2024-03-31 02:30:00'), "
    "('d', 1L, 'a', cast(array() as array<string>), '2024-03-31 00:30:00', '2024-03-31 01:30:00'), "
    "('d', cast(null as long), 'z', array('b'), null, null), "
    "('d', 3L, 'y', array('q'), null, null), "
    "(cast(null as string), 1L, 'n', cast(array() as array<string>), null, null) "
    "as t(destination, arrival, Event_ID, depends_on, moment, local)"
)
OPTIONS: dict[str, Any] = {"columns": {"message": "event_id"}, "key": ["destination"]}


def block(words: str) -> str:
    """Return the block of code in the guides about streams that has these words."""
    text = "".join((GUIDES / name).read_text(encoding="utf-8") for name in ("stream.md", "stream-output.md"))
    blocks = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    (found,) = (each for each in blocks if words in each)
    return str(found)


def started(ordered: Any, folder: Path) -> Any:
    return (
        ordered.writeStream.format("parquet").option("path", str(folder / "out"))
        .option("checkpointLocation", str(folder / "checkpoint")).trigger(availableNow=True).start()
    )  # fmt: skip


BUSY = "Python worker failed to connect back"
"""Spark gives the Python of a stream that starts 10 s, too few for many at once or on a busy machine."""
Running = tuple[Callable[[], Any], Any]
"""a stream: what starts it, and its query"""


def ended(start: Callable[[], Any], query: Any) -> None:
    """Wait until a stream has ended; start it again where its Python was late."""
    while True:
        try:
            query.awaitTermination()
        except Exception as error:
            if BUSY not in str(error):
                raise
            query = start()
        else:
            return


def at_most(count: int, running: list[Running]) -> None:
    """Wait for the first streams until no more than so many run."""
    while len(running) > count:
        ended(*running.pop(0))


def place_of(name: str) -> str:
    """Return the folder of a stream: one with all signs that may be in it, the others as they come."""
    return "Asia-(Kölkata)_.~!'*:@&=+$,;" if name == "Asia/Kolkata" else name.replace("/", "-")


def told(ordered: Any) -> list[Any]:
    """Return the rows, and what their moments are in microseconds."""
    shown = ordered.selectExpr(
        "destination", "event_id", "outcome", "position", "reason", "waited_for", "unix_micros(moment) moment",
        "unix_micros(deep.more[0]) more", "cast(local as string) local",
    )  # fmt: skip
    return sorted((list(row) for row in shown.collect()), key=str)


def zones(spark: Any, folder: Path, names: list[str]) -> dict[str, Any]:
    """Deliver the same rows as a batch and as a stream in each zone."""
    from pyspark.sql import functions as F

    from thence.errors import MisuseError
    from thence.spark import deliver, split, waiting, waiting_in_stream

    spark.conf.set("spark.sql.session.timeZone", "UTC")
    table = spark.sql(ROWS).withColumn("deep", F.struct("moment", F.array("moment").alias("more")))
    table.coalesce(1).write.parquet(str(folder / "in"))
    stream = spark.readStream.schema(table.schema).parquet(str(folder / "in"))
    nested = stream.drop("arrival").selectExpr("struct(destination as d) as who", "*")
    jobs = dict.fromkeys(names, (stream, OPTIONS))
    jobs |= {"no arrival": (stream.drop("arrival"), OPTIONS), "struct key": (nested, OPTIONS | {"key": ["who"]})}
    running, found = list[Running](), dict[str, Any]()
    for name, (arrivals, options) in jobs.items():
        zone = name if name in names else names[-1]

        def start(zone: str = zone, name: str = name, arrivals: Any = arrivals, options: Any = options) -> Any:
            spark.conf.set("spark.sql.session.timeZone", zone)
            return started(deliver(arrivals, "depends_on", **options), folder / place_of(name))

        spark.conf.set("spark.sql.session.timeZone", zone)
        if name in names:
            batch = deliver(spark.read.parquet(str(folder / "in")), "depends_on", **options)
            found[f"{name} batch"] = told(batch)
        running.append((start, start()))
        at_most(2, running)
    at_most(0, running)
    for name in jobs:
        found[name] = told(spark.read.parquet(str(folder / place_of(name) / "out")))
    found["split"] = [each.count() for each in split(batch)]
    found["waits"] = [list(row) for row in waiting(batch).collect()]
    found["waits, told"] = [list(row) for row in waiting(batch, **OPTIONS).collect()]
    try:
        waiting_in_stream(spark, str(folder / "no arrival" / "checkpoint"))
    except MisuseError as error:
        found["waits in a folder with a space"] = str(error)
    kept = waiting_in_stream(spark, str(folder / place_of("Asia/Kolkata") / "checkpoint")).drop("held_for")
    found["waits of a stream"] = [list(row) for row in kept.collect()]
    return found


CASES: dict[str, tuple[str, dict[str, Any], dict[str, list[tuple[Any, ...]]]]] = {
    "given up": ("depends_on", {"policy": "release", "after_rows": 2}, {
        "g": [("b", ["a"]), ("x", []), ("y", []), ("c", ["a", "q"]), ("q", [])],
    }),
    "given up, clocks": ("clock", {"policy": "release", "after_rows": 2}, {
        "g": [("b", {"b": 1, "a": 1}), ("x", {"x": 1}), ("y", {"y": 1}), ("c", {"c": 1, "a": 1, "q": 1}),
              ("q", {"q": 1})],
        "m": [("s", {"s": 1, "a": 1_000_000})],
    }),
    "times": ("depends_on", {"policy": "release", "after_seconds": 4.0, "max_jump": 60.0}, {
        "none": [("b", ["a"], None), ("c", ["z"], 0), ("x", [], 1), ("y", [], 5)],
        "far": [("a", [], 0), ("b", [], 1), ("f", [], 999_999_999), ("c", ["z"], 2), ("x", [], 3), ("y", [], 8)],
    }),
    "held": ("depends_on", {"remember": 2}, {
        "forgotten": [("a", []), ("b", ["a"]), ("c", ["b"]), ("z", ["a", "c"]), ("d", ["z"]), ("e", ["d"])],
        "cycles": [("a", ["c"]), ("b", ["c"]), ("c", ["a", "b"]), ("a", ["c"]), ("w", ["a"]), ("u", None)],
        "order": [("k", ["z9", "y8", "x7"])],
    }),
}  # fmt: skip
"""By what, with which options, and of each key its rows: id, causes, seconds."""
OWN_NAMES = {"message": "event_id", "destination": "Who", "sender": "Of", "time": "At", "arrival": "N"}


def truths(spark: Any, folder: Path) -> dict[str, Any]:
    """Deliver rows whose labels were once untrue, as a batch and as a stream, columns named otherwise."""
    from datetime import UTC, datetime

    from thence.spark import deliver

    running, found = list[Running](), dict[str, Any]()
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    for name, (by, options, keys) in CASES.items():
        causes = "map<string,bigint>" if by == "clock" else "array<string>"
        rows = []
        for who, told_rows in keys.items():
            for n, (message, cause, *second) in enumerate(told_rows):
                at = None if not second or second[0] is None else datetime.fromtimestamp(second[0], UTC).isoformat()
                rows.append((who, n, message, message, at, cause))
        table = spark.createDataFrame(
            rows, f"who string, N bigint, EVENT_ID string, Of string, At string, Why {causes}"
        )
        place = folder / "truths" / place_of(name)
        table.coalesce(1).write.parquet(str(place / "in"))
        chosen: dict[str, Any] = {"columns": OWN_NAMES | {by: "why"}, "key": ["who"], **options}
        stream = spark.readStream.schema(table.schema).parquet(str(place / "in"))
        start = partial(started, deliver(stream, by, **chosen), place)
        running.append((start, start()))
        at_most(2, running)
        found[name] = {"batch": labels(deliver(spark.read.parquet(str(place / "in")), by, **chosen))}
    at_most(0, running)
    for name in CASES:
        found[name]["stream"] = labels(spark.read.parquet(str(folder / "truths" / place_of(name) / "out")))
    return found


def labels(ordered: Any) -> dict[str, Any]:
    """Return of each row what is said of it; of a stream the rows that are held are not there."""
    said = ordered.orderBy("who", "n").select("who", "n", "event_id", "outcome", "missing", "held_seconds", "reason")
    return {f"{who} {n} {message}": rest for who, n, message, *rest in map(list, said.collect())}


def other_columns(spark: Any, folder: Path) -> dict[str, Any]:
    """Go on with a stream of which a row is held: with a column more, with one of another type, under other names."""
    from thence.spark import deliver

    empty = "cast(array() as array<string>)"
    parts = [
        ("'b' message, array('a') depends_on, 1 n", {}),
        (f"'a' message, {empty} depends_on, 2 n, 'new' more", {}),
        (f"'c' message, {empty} depends_on, 'three' n, 'new' more", {}),
        (f"'d' other, {empty} depends_on, '4' n, 'new' more, 'd' message", {"columns": {"message": "other"}}),
    ]
    errors, target = [], folder / "other in"
    for columns, options in parts:
        table = spark.sql(f"select 'd' destination, {columns}")
        table.coalesce(1).write.mode("append").parquet(str(target))
        source = spark.readStream.schema(table.schema).parquet(str(target))
        try:
            start = partial(started, deliver(source, "depends_on", **options), folder / "other")
            ended(start, start())
        except Exception as error:
            errors.append(str(error))
    out = spark.read.option("mergeSchema", "true").parquet(str(folder / "other" / "out"))
    rows = [list(row) for row in out.orderBy("position").select("message", "n", "more", "position").collect()]
    return {"rows": rows, "errors": errors}


def table_once(spark: Any, folder: Path) -> dict[str, Any]:
    """Run the recipe of the page, then let Spark replay its last micro-batch."""
    source = folder / "in"
    arrivals = spark.readStream.schema(spark.read.parquet(str(source)).schema).parquet(str(source))
    arrivals = arrivals.selectExpr("destination account", "Event_ID event_id", "depends_on parent_id")
    names: dict[str, Any] = {"arrivals": arrivals, "target": str(folder / "target.db"), "path": str(folder / "once")}
    columns = "account text, position int, event_id text, outcome text"
    found = []
    with sqlite3.connect(names["target"]) as database:
        database.execute(f"create table ordered({columns}, primary key (account, position))")
    for _ in range(2):
        exec(block("on conflict"), names)
        names["query"].processAllAvailable()
        names["query"].stop()
        with sqlite3.connect(names["target"]) as database:
            found.append(database.execute("select * from ordered order by position").fetchall())
        commits = sorted((folder / "once" / "commits").glob("[0-9]*"))
        commits[-1].unlink()
        commits[-1].with_name(f".{commits[-1].name}.crc").unlink(missing_ok=True)
    return {"first": found[0], "replayed": found[1], "batches": [path.name for path in commits]}


def alike(spark: Any) -> str:
    """Two columns that differ in case only."""
    from thence.errors import MisuseError
    from thence.spark import deliver

    spark.conf.set("spark.sql.caseSensitive", "true")
    table = spark.sql(ROWS).selectExpr("destination", "Event_ID message", "1 Message", "depends_on")
    try:
        assert sorted(deliver(table, "depends_on").toPandas()["outcome"])[0] == "blocked"
        spark.conf.set("spark.sql.caseSensitive", "false")
        deliver(table, "depends_on")
    except MisuseError as error:
        return str(error)
    finally:
        spark.conf.unset("spark.sql.caseSensitive")
    return ""


def sources(spark: Any, folder: Path) -> None:
    """Read foreign records as streams; `elsewhere.py` reads them as tables."""
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
    from support import shown_sources

    shown_sources.streams(spark, folder)


def main(folder: Path, names: list[str]) -> None:
    from pyspark.sql import SparkSession

    from thence.errors import MisuseError
    from thence.spark import deliver

    settings = {"spark.ui.enabled": "false", "spark.python.authenticate.socketTimeout": "600s"}
    spark = SparkSession.builder.master("local[2]").config(map=settings).getOrCreate()
    spark.conf.set("spark.sql.shuffle.partitions", "2")
    rate = spark.readStream.format("rate").load().selectExpr("'d' destination", "'m' message", "array('x') depends_on")
    found: dict[str, Any] = {}
    try:
        deliver(rate, "depends_on")
    except MisuseError as error:
        found["no provider"] = str(error)
    exec(block("providerClass"), {"session": spark})
    found |= {"alike": alike(spark), "other columns": other_columns(spark, folder)}
    found |= zones(spark, folder, names)
    found["truths"] = truths(spark, folder)
    found["once"] = table_once(spark, folder)
    sources(spark, folder / "sources")
    (folder / "found.json").write_text(json.dumps(found, default=str))
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
