"""One Spark session for the whole folder: it takes seconds to start."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


INTERPRETED = {"spark.sql.codegen.wholeStage": False, "spark.sql.codegen.factoryMode": "NO_CODEGEN"}
"""a fifth less time on small tables; `elsewhere.py` and whatever starts a session of its own runs compiled plans"""


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    from whence.spark.session import local_session

    session = local_session(cores=2, app="whence tests", quick=True, conf=INTERPRETED)
    yield session
    session.stop()
