"""The stateful step by itself, under a clock of the test's own: waits, idle keys, finished keys, an operator's word."""

from __future__ import annotations

import pickle
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

import pandas as pd
import pyarrow as pa
from pyspark.sql.streaming.tws_tester import TwsTester

from thence.tables.delivery import Columns, Policy
from thence.tables.delivery.delivery_terms import DeliveryTerms
from thence.tables.delivery.many_keys import KNOWN
from thence.tables.delivery.shard_state import ipc
from thence.tables.engines.spark.shard_visit import ACTION, CAUSE, DRAIN, GIVE_UP, PACKED, Visits, unpack_rows
from thence.tables.engines.spark.stream_options import StreamOptions
from thence.tables.engines.spark.stream_step import CHATTY, Processor

SCHEMA = pa.schema([("destination", pa.string()), ("arrival", pa.int64()), ("message", pa.string()),
                    ("depends_on", pa.list_(pa.string()))])  # fmt: skip
SETUP = DeliveryTerms("depends_on", (), Columns("depends_on", key=["destination"]), Policy())
KEYS = pa.schema([("destination", pa.string())])
COMMAND = pa.schema([("destination", pa.string()), (ACTION, pa.string()), (CAUSE, pa.string())])
Row = dict[str, Any]


def processor(terms: DeliveryTerms, options: StreamOptions) -> Processor:
    return Processor(Visits(terms, options, SCHEMA, KEYS, "arrival", 1))


class Stream:
    """One key of a stream whose processing time is told."""

    def __init__(self, terms: DeliveryTerms = SETUP, known: Sequence[str] = (), **options: Any) -> None:
        chosen = StreamOptions(**options)
        mode = "ProcessingTime" if chosen.timed else "None"
        ids = [{"destination": "d", "message": each, KNOWN: 0} for each in known]
        packed = [(0, pd.DataFrame({PACKED: [ipc(pa.RecordBatch.from_pylist(ids))]}))] if ids else None
        self.tester = TwsTester(processor(terms, chosen), timeMode=mode, initialStatePandas=packed)
        self.arrival = 0

    def take(self, *rows: tuple[str, list[str]], told: tuple[str, str | None] | None = None) -> list[Row]:
        """Take the rows of one micro-batch, and perhaps an operator's word."""
        made = []
        for message, causes in rows:
            self.arrival += 1
            made.append({"destination": "d", "arrival": self.arrival, "message": message, "depends_on": causes})
        blobs = [ipc(pa.RecordBatch.from_pylist(made, schema=SCHEMA))] if made else []
        if told is not None:
            command = {"destination": "d", ACTION: told[0], CAUSE: told[1]}
            blobs.append(ipc(pa.RecordBatch.from_pylist([command], schema=COMMAND)))
        return _rows(self.tester.testInPandas(0, pd.DataFrame({PACKED: blobs}, dtype=object)))

    def at(self, seconds: float) -> list[Row]:
        """Let the clock show so many seconds."""
        return _rows(self.tester.setProcessingTime(int(1000 * seconds)))


def _rows(frame: Any) -> list[Row]:
    if len(frame) == 0:
        return []
    packed = pa.RecordBatch.from_arrays([pa.array(list(frame[PACKED]), pa.binary())], names=[PACKED])
    return [row for batch in unpack_rows(iter([packed])) for row in batch.to_pylist()]


def _told(rows: list[Row]) -> list[tuple[Any, ...]]:
    return [(row["message"], row["outcome"], row["position"], row["reason"]) for row in rows]


def test_a_row_that_has_waited_too_long_goes() -> None:
    stream = Stream(wait_seconds=10)
    stream.at(100)
    assert _told(stream.take(("b", ["a"]))) == []
    stream.at(105)
    assert _told(stream.take(("c", ["q"]))) == []
    assert stream.at(109.9) == []
    assert _told(stream.at(110)) == [("b", "released", 1, "released without a, after 10 s of waiting")]
    assert _told(stream.at(115)) == [("c", "released", 2, "released without q, after 10 s of waiting")]
    assert _told(stream.take(("a", []))) == [("a", "late", 3, "it came after it was given up")]


def test_an_idle_key_and_a_finished_one() -> None:
    terms = DeliveryTerms("depends_on", (), SETUP.columns, Policy("release", after_rows=100))
    stream = Stream(terms, idle_seconds=10, ttl_seconds=60)
    stream.at(100)
    stream.take(("b", ["a"]))
    stream.at(108)
    stream.take(("c", ["b"]))
    assert stream.at(112) == []
    assert [row[:2] for row in _told(stream.at(118))] == [("b", "released"), ("c", "delivered")]
    stream.at(167)
    assert _told(stream.take(("b", [])))[0][1] == "duplicate"  # it is remembered still
    stream.at(226)
    assert _told(stream.take(("b", [])))[0][1] == "duplicate"
    stream.at(287)
    assert _told(stream.take(("b", []))) == [("b", "delivered", 1, None)]  # the key begins again


def test_known_ids_are_forgotten_with_their_key() -> None:
    stream = Stream(known=["a", "b"], ttl_seconds=60)  # the tester's clock begins at 0
    stream.at(59)
    assert _told(stream.take(("c", ["a"]), ("b", []))) == [
        ("c", "delivered", 1, None),
        ("b", "duplicate", None, "it was delivered before"),
    ]
    stream.at(118)
    assert _told(stream.take(("d", ["b", "c"]))) == [("d", "delivered", 2, None)]  # both are remembered still
    assert stream.at(178) == []
    assert _told(stream.take(("b", []), ("e", ["a"]))) == [("b", "delivered", 1, None)]  # and now neither is
    assert stream.at(1000) == []
    assert _told(stream.take(("a", []))) == [("a", "delivered", 2, None), ("e", "delivered", 3, None)]


def test_a_known_key_without_a_row_is_forgotten_in_time() -> None:
    stream = Stream(known=["a"], ttl_seconds=60)
    assert stream.at(60) == []
    assert _told(stream.take(("b", ["a"]))) == []


def test_an_operators_word() -> None:
    stream = Stream()
    stream.take(("b", ["a"]), ("c", ["b", "q"]), ("d", ["r"]))
    assert _told(stream.take(told=(GIVE_UP, "a"))) == [("b", "released", 1, "released without a, given up by hand")]
    assert _told(stream.take(("q", []), told=(DRAIN, None))) == [
        ("q", "delivered", 2, None),
        ("c", "delivered", 3, None),
        ("d", "released", 4, "released without r, given up by hand"),
    ]


def test_the_worker_beside_the_driver_tells_nobody_what_it_does() -> None:
    sent = pickle.dumps(processor(SETUP, StreamOptions()))
    code = "import pickle, sys\nsys.modules['__main__'].__spec__ = type('Spec', (), {'name': sys.argv[1]})\n"
    code += f"pickle.loads({sent!r})\nprint('Starting execution of UDF')"
    for module, told in ((CHATTY, ""), ("pyspark.daemon", "Starting execution of UDF\n")):
        done = subprocess.run([sys.executable, "-c", code, module], capture_output=True, text=True, check=True)
        assert done.stdout == told
