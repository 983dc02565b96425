"""Metrics as Prometheus reads them."""

from __future__ import annotations

import urllib.request

import pytest

from thence.errors import MisuseError
from thence.metrics import CONTENT, Metrics


def test_the_text_is_the_exposition_format() -> None:
    metrics = Metrics()
    rows = metrics.counter("rows_total", "rows\nthat left", "query", "outcome")
    rows.add(2, 'o"r\\d', "late")
    rows.add(1, "a", "late")
    rows.add(0.5, "a", "late")
    held = metrics.gauge("held", "rows that wait")
    held.set(3)
    held.add(-1)
    took = metrics.histogram("took_seconds", "time of a batch", "query", buckets=(0.1, 1.0))
    for seconds in (0.1, 0.5, 7):
        took.observe(seconds, "q")
    assert metrics.text().splitlines() == [
        "# HELP rows_total rows\\nthat left",
        "# TYPE rows_total counter",
        'rows_total{query="a",outcome="late"} 1.5',
        'rows_total{query="o\\"r\\\\d",outcome="late"} 2',
        "# HELP held rows that wait",
        "# TYPE held gauge",
        "held 2",
        "# HELP took_seconds time of a batch",
        "# TYPE took_seconds histogram",
        'took_seconds_bucket{query="q",le="0.1"} 1',
        'took_seconds_bucket{query="q",le="1"} 2',
        'took_seconds_bucket{query="q",le="+Inf"} 3',
        'took_seconds_sum{query="q"} 7.6',
        'took_seconds_count{query="q"} 3',
    ]


def test_what_is_refused() -> None:
    metrics = Metrics()
    rows = metrics.counter("rows_total", "rows", "query")
    with pytest.raises(MisuseError, match="only goes up"):
        rows.add(-1, "q")
    with pytest.raises(MisuseError, match="has labels query"):
        rows.add(1)
    with pytest.raises(MisuseError, match="there already"):
        metrics.gauge("rows_total", "again")


def test_they_are_served() -> None:
    metrics = Metrics()
    metrics.gauge("held", "rows").set(1)
    server = metrics.serve()
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{server.port}/metrics") as answer:
            assert answer.headers["Content-Type"] == CONTENT
            assert answer.read().decode() == metrics.text()
    finally:
        server.close()
