"""Metrics as Prometheus reads them: names, labels and types that dashboards rely on."""

from __future__ import annotations

import urllib.request
from collections.abc import Iterator
from types import SimpleNamespace

import pytest
from prometheus_client import CollectorRegistry, Gauge
from prometheus_client.parser import text_string_to_metric_families

from thence.errors import MisuseError
from thence.tables.metrics import Server


@pytest.fixture
def served() -> Iterator[tuple[CollectorRegistry, Server]]:
    registry = CollectorRegistry()
    server = Server(registry)
    yield registry, server
    server.close()


def _key(labels: dict[str, str]) -> tuple[str, ...]:
    return tuple(labels[name] for name in sorted(labels))


def read(server: Server) -> dict[str, tuple[str, dict[tuple[str, ...], float]]]:
    """Return type and samples, by label values in the order of label names, of every metric that is served."""
    with urllib.request.urlopen(f"http://127.0.0.1:{server.port}/metrics") as answer:
        assert answer.headers["Content-Type"].startswith("text/plain; version=")
        text = answer.read().decode()
    return {
        sample.name: (family.type, {_key(s.labels): s.value for s in family.samples if s.name == sample.name})
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_a_registry_is_served(served: tuple[CollectorRegistry, Server]) -> None:
    registry, server = served
    Gauge("held", "rows", ["query"], registry=registry).labels('o"r\\d').set(1)
    assert read(server)["held"] == ("gauge", {('o"r\\d',): 1.0})


def test_a_port_that_is_taken(served: tuple[CollectorRegistry, Server]) -> None:
    with pytest.raises(OSError):
        Server(CollectorRegistry(), served[1].port)


def test_names_and_labels_of_a_delivering_stream(served: tuple[CollectorRegistry, Server]) -> None:
    from thence.tables.engines.spark.metrics import METRICS, DeliveryListener

    registry, server = served
    listener = DeliveryListener(registry)
    observed = {"delivered": 5, "late": 1, "held": 3, "held_before": 1, "oldest_seconds": 2.5, "state_bytes": 80}
    row = SimpleNamespace(asDict=lambda: observed)
    for number in (1, 2):
        progress = SimpleNamespace(id=7, name="orders", numInputRows=9, observedMetrics={METRICS: row})
        listener.onQueryProgress(SimpleNamespace(progress=progress))
        assert listener.latest("orders").batches == number
    found = read(server)
    outcomes = {"delivered": 10, "released": 0, "late": 2, "duplicate": 0, "quarantined": 0}
    rows = {(outcome, "orders"): count for outcome, count in outcomes.items()}
    assert found["thence_delivery_rows_total"] == ("counter", rows)
    assert found["thence_delivery_held"] == ("gauge", {("orders",): 4})
    assert found["thence_delivery_oldest_seconds"] == ("gauge", {("orders",): 2.5})
    assert found["thence_delivery_state_bytes"] == ("gauge", {("orders",): 80})


def test_an_endpoint_without_the_package_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    from thence.live.config import Address
    from thence.live.metrics import LiveMetrics

    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    with pytest.raises(MisuseError, match=r'needs the package prometheus-client: pip install "thence\[live\]"'):
        LiveMetrics(None, Address("127.0.0.1", 0))  # type: ignore[arg-type]
