"""One key, as a batch and a stream run many."""

from __future__ import annotations

from collections import OrderedDict

import numpy as np
import pyarrow as pa
from unit.delivery.stored_states import Shelf

from thence.core.model.plain import Row
from thence.tables.delivery import shard_memory
from thence.tables.delivery.columns import Key
from thence.tables.delivery.delivery_terms import DeliveryTerms
from thence.tables.delivery.many_keys import ManyKeys
from thence.tables.delivery.shard import Shard
from thence.tables.delivery.shard_memory import opened


class OneKey:
    """A key in memory; `again` writes it as a shard of one key and reads it back."""

    def __init__(self, terms: DeliveryTerms, key: Key, schema: pa.Schema | None = None) -> None:
        self.terms, self.key, self.shelf = terms, key, Shelf()
        self.keys: ManyKeys = ManyKeys(terms)
        if schema is not None:
            fields = [schema.field(name) for name in terms.columns.key]
            self.keys = Shard(terms, schema, pa.schema(fields), 1)
            assert self.keys.number(key) == 0
        else:
            self.keys.begin(0, key)

    @property
    def rule(self):  # type: ignore[no-untyped-def]
        return self.keys.rules[0]

    def __len__(self) -> int:
        return self.keys.held.count

    def take(self, rows: pa.RecordBatch) -> list[Row]:
        if isinstance(self.keys, Shard):
            self.keys.touched[0] = None
        out = self.keys.take(rows, np.zeros(1, np.int64), np.array([0, len(rows)]))
        return [] if out is None else out.to_pylist()

    def flush(self, why: str) -> pa.RecordBatch | None:
        return self.keys.flush(0, why)

    def give_up(self, cause: str, why: str) -> pa.RecordBatch | None:
        return self.keys.give_up(0, cause, why)

    def end(self) -> pa.RecordBatch | None:
        return self.keys.end(0)

    def again(self) -> None:
        here = self.keys
        assert isinstance(here, Shard)
        here.touched[0] = None
        here.write(self.shelf)
        shard_memory.KEPT = OrderedDict()
        self.keys = opened(here.head(), self.shelf, Shard(self.terms, here.schema, here.keys, 1))
