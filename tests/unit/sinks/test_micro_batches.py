"""What a stream's sink refuses: transactions that would be taken for ones that the target has."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from support import shop as shops

from thence import Orderer
from thence.errors import TraceError
from thence.sources import from_change
from thence.tables.sinks.micro_batches import MicroBatchSink


def transactions() -> list[list[dict[str, Any]]]:
    """Return three transactions of one change each, as arrivals: BEGIN, the change, END."""
    shop = shops.Shop()
    for number in (1, 2, 3):
        assert shop.commit([("c", "category", None, {"id": number, "parent": None})])
    rows = [{**from_change(each), **each._asdict()} for each in shop.records]
    return [[row for row in rows if row["transaction"] == name] for name in shop.names]


@pytest.fixture
def engine(tmp_path: Path) -> sa.Engine:
    made = sa.create_engine(f"sqlite:///{tmp_path / 'target.db'}", poolclass=sa.NullPool)
    with made.begin() as connection:
        for each in shops.sqlite_ddl():
            connection.exec_driver_sql(each)
    return made


def categories(engine: sa.Engine) -> list[int]:
    with engine.connect() as connection:
        return list(connection.exec_driver_sql("select id from category order by id").scalars())


def test_a_transaction_that_was_given_up_and_comes_after_all_is_refused(engine: sa.Engine) -> None:
    one, two, three = transactions()
    orderer = Orderer("depends_on", key=["destination"], policy="release", after_rows=1)
    sink = MicroBatchSink(engine, shops.TABLES)
    assert sink.write([row for each in one + three for row in orderer.push(each)]) == 2
    again = [row for each in two for row in orderer.push(each)]
    for _ in range(2):  # Spark runs a micro-batch again that failed
        with pytest.raises(TraceError, match=r"tx601 comes after .* its END was given up.* since='offset 5'"):
            sink.write(again)
    sink.close()
    assert categories(engine) == [1, 3]


def test_what_is_behind_a_part_of_a_transaction_is_not_applied(engine: sa.Engine) -> None:
    one, (begin, _, end), three = transactions()
    orderer = Orderer("depends_on", key=["destination"], policy="release", after_rows=1)
    batch = [row for each in [*one, begin, end, *three] for row in orderer.push(each)]
    for _ in range(2):  # the second time a position behind it would say that the target has it
        sink = MicroBatchSink(engine, shops.TABLES)
        with pytest.raises(TraceError, match=r"tx601 .* has ended and 0 of its changes are here"):
            sink.write(batch)
        sink.close()
    assert categories(engine) == [1]
