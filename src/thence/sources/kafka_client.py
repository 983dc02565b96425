"""What our producer and our consumer share of confluent-kafka: its import, its settings, and patience with a broker."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import TypeVar

from thence.errors import MisuseError
from thence.model.plain import Fields, Row

PATIENCE = 60.0
"""seconds to wait for a broker that is away"""
_EVERYBODYS = (
    "bootstrap.",
    "metadata.",
    "security.",
    "sasl.",
    "ssl.",
    "socket.",
    "broker.",
    "client.",
    "reconnect.",
    "log",
)
T = TypeVar("T")


def client() -> ModuleType:
    """Return the package, which an extra brings."""
    try:
        import confluent_kafka
    except ImportError:
        raise MisuseError("Kafka needs confluent-kafka: pip install 'thence[kafka]'") from None
    return confluent_kafka


def connection(config: Fields) -> Row:
    """Return the settings that say how to reach the broker, and not those of a consumer alone."""
    return {key: value for key, value in config.items() if key.startswith(_EVERYBODYS)}


def patiently(act: Callable[[], T]) -> T:
    """Do something that a broker may be away for; Kafka says which errors pass."""
    for _ in range(10):
        try:
            return act()
        except client().KafkaException as error:
            if not error.args[0].retriable():
                raise
    return act()
