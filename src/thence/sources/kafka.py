"""Kafka producers and consumers that keep causal order; they live in `thence.tables.sources.kafka`."""

from thence.tables.sources.kafka import CausalConsumer, CausalProducer

__all__ = ["CausalConsumer", "CausalProducer"]
