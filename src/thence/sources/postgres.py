"""A reader of an outbox in PostgreSQL; it lives in `thence.tables.sources.postgres`."""

from thence.tables.sources.postgres import OutboxReader

__all__ = ["OutboxReader"]
