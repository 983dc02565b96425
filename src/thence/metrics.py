"""Counters, gauges and histograms with labels, as Prometheus reads them: the standard library alone.

    metrics = Metrics()
    rows = metrics.counter("thence_delivery_rows_total", "rows that left", "query", "outcome")
    rows.add(3, "orders", "delivered")
    server = metrics.serve(9464)             # http://127.0.0.1:9464/metrics
    ...
    server.close()

Law. `text()` is the text exposition format, version 0.0.4: every metric once, with its help and type, its series in the
order of their labels. A counter never goes down. Whoever writes and whoever reads may be different threads. What stands
in `before` is called ahead of every reading: whoever counts elsewhere brings the numbers up to date there.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Lock, Thread
from typing import TypeVar

from thence.errors import MisuseError

CONTENT = "text/plain; version=0.0.4; charset=utf-8"
BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
Labels = tuple[str, ...]
M = TypeVar("M", bound="Metric")


class Metric:
    """One name with its series, one for each set of label values."""

    kind = "untyped"

    def __init__(self, name: str, about: str, labels: Labels, lock: Lock) -> None:
        """Take the name, a sentence, and the names of the labels."""
        self.name, self.about, self.labels, self._lock = name, about, labels, lock

    def _of(self, values: Sequence[object]) -> Labels:
        if len(values) != len(self.labels):
            raise MisuseError(f"{self.name} has labels {', '.join(self.labels) or 'none'}; {len(values)} values given")
        return tuple(str(value) for value in values)

    def _line(self, values: Labels, number: float, suffix: str = "", more: str = "") -> str:
        pairs = [f'{name}="{_escaped(value)}"' for name, value in zip(self.labels, values, strict=True)]
        labels = ",".join([*pairs, more] if more else pairs)
        return f"{self.name}{suffix}{f'{{{labels}}}' if labels else ''} {_number(number)}"

    def series(self) -> list[str]:
        """Return the lines of its series."""
        raise NotImplementedError

    def lines(self) -> list[str]:
        """Return its lines: help, type, series."""
        about = self.about.replace("\\", "\\\\").replace("\n", "\\n")
        return [f"# HELP {self.name} {about}", f"# TYPE {self.name} {self.kind}", *self.series()]


class Gauge(Metric):
    """A number that goes up and down."""

    kind = "gauge"

    def __init__(self, name: str, about: str, labels: Labels, lock: Lock) -> None:
        """Start with no series."""
        super().__init__(name, about, labels, lock)
        self._values: dict[Labels, float] = {}

    def set(self, value: float, *labels: object) -> None:
        """Say what it is now."""
        key = self._of(labels)
        with self._lock:
            self._values[key] = float(value)

    def add(self, value: float, *labels: object) -> None:
        """Change it by so much."""
        key = self._of(labels)
        with self._lock:
            self._values[key] = self._values.get(key, 0.0) + value

    def series(self) -> list[str]:
        """Return the lines of its series."""
        return [self._line(key, value) for key, value in sorted(self._values.items())]


class Counter(Gauge):
    """A number that only goes up."""

    kind = "counter"

    def add(self, value: float, *labels: object) -> None:
        """Count so many more."""
        if value < 0:
            raise MisuseError(f"{self.name} only goes up; {value} was added")
        super().add(value, *labels)

    def set(self, value: float, *labels: object) -> None:
        """Say a total that was counted elsewhere."""
        if value < self._values.get(self._of(labels), 0.0):
            raise MisuseError(f"{self.name} only goes up; {value} is less than before")
        super().set(value, *labels)


class Histogram(Metric):
    """How many observations are at most so large."""

    kind = "histogram"

    def __init__(self, name: str, about: str, labels: Labels, lock: Lock, buckets: Sequence[float] = BUCKETS) -> None:
        """Take the upper ends of the buckets, ascending."""
        super().__init__(name, about, labels, lock)
        self.buckets = tuple(buckets)
        self._counts: dict[Labels, list[int]] = {}
        self._sums: dict[Labels, float] = {}

    def observe(self, value: float, *labels: object) -> None:
        """Note one observation."""
        key = self._of(labels)
        with self._lock:
            counts = self._counts.setdefault(key, [0] * (len(self.buckets) + 1))
            counts[bisect_left(self.buckets, value)] += 1
            self._sums[key] = self._sums.get(key, 0.0) + value

    def series(self) -> list[str]:
        """Return the lines of its series."""
        lines = []
        for key, counts in sorted(self._counts.items()):
            total = 0
            for end, count in zip((*self.buckets, math.inf), counts, strict=True):
                total += count
                lines.append(self._line(key, total, "_bucket", f'le="{_number(end)}"'))
            lines += [self._line(key, self._sums[key], "_sum"), self._line(key, total, "_count")]
        return lines


class Metrics:
    """A set of metrics, and how they are shown."""

    def __init__(self) -> None:
        """Start with none."""
        self._metrics: dict[str, Metric] = {}
        self._lock = Lock()
        self.before: list[Callable[[], None]] = []

    def counter(self, name: str, about: str, *labels: str) -> Counter:
        """Return a new counter."""
        return self._new(Counter(name, about, labels, self._lock))

    def gauge(self, name: str, about: str, *labels: str) -> Gauge:
        """Return a new gauge."""
        return self._new(Gauge(name, about, labels, self._lock))

    def histogram(self, name: str, about: str, *labels: str, buckets: Sequence[float] = BUCKETS) -> Histogram:
        """Return a new histogram."""
        return self._new(Histogram(name, about, labels, self._lock, buckets))

    def _new(self, metric: M) -> M:
        if metric.name in self._metrics:
            raise MisuseError(f"metric {metric.name} is there already")
        self._metrics[metric.name] = metric
        return metric

    def text(self) -> str:
        """Return all of them as Prometheus reads them."""
        for each in self.before:
            each()
        with self._lock:
            return "".join(f"{line}\n" for metric in self._metrics.values() for line in metric.lines())

    def serve(self, port: int = 0, host: str = "127.0.0.1") -> Server:
        """Answer GET /metrics until closed; port 0 takes any that is free."""
        return Server(self, host, port)


class Server:
    """An HTTP endpoint in a thread of its own."""

    def __init__(self, metrics: Metrics, host: str, port: int) -> None:
        """Listen at once."""

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                known = self.path.partition("?")[0] == "/metrics"
                body = metrics.text().encode() if known else b"see /metrics\n"
                self.send_response(200 if known else 404)
                self.send_header("Content-Type", CONTENT)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:
                pass

        self._server = ThreadingHTTPServer((host, port), Handler)
        self._server.daemon_threads = True
        self.port: int = self._server.server_address[1]
        self._thread = Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop listening."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _number(value: float) -> str:
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    if math.isnan(value):
        return "NaN"
    return repr(int(value)) if value == int(value) and abs(value) < 1e15 else repr(value)
