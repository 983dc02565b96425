"""One broker for the whole folder; `make kafka` runs it, `make test` does not."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from support.broker import Broker, broker


@pytest.fixture(scope="session")
def kafka() -> Iterator[Broker]:
    with broker() as running:
        yield running
