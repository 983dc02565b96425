"""One Spark session for the whole folder: it takes seconds to start."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    from whence.spark.session import local_session

    session = local_session(cores=2, app="whence tests", quick=True)
    yield session
    session.stop()
