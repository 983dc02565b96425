"""FastStream handlers of Kafka records in causal order; they live in `thence.tables.integrations.faststream`."""

from thence.tables.integrations import need

need("faststream", "faststream")

from thence.tables.integrations.faststream import CausalMiddleware, causal_headers  # noqa: E402

__all__ = ["CausalMiddleware", "causal_headers"]
