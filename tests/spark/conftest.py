"""One Spark session for the whole folder: it takes seconds to start."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


INTERPRETED = {
    "spark.sql.codegen.wholeStage": False, "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.adaptive.enabled": False,
    "spark.sql.optimizer.excludedRules": "org.apache.spark.sql.catalyst.optimizer.ConvertToLocalRelation",
}  # fmt: skip
"""A third less work on small tables; commands and the plain session run as Spark comes. The rule works through a table
that came from Python again for every plan, in one thread: seconds for two hundred thousand rows."""


EARLY = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote"
"""for every JVM of these tests, those of commands and other programs too: most do little more than start"""
os.environ.setdefault("JDK_JAVA_OPTIONS", EARLY)


LONGEST = (
    "test_audit",
    "test_elsewhere",
    "test_plain_session",
    "test_readme",
    "test_crash",
    "test_commands",
    "test_java",
)
"""files that go first, so that the two processes end together; each file is one process's (`--dist loadfile`)"""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    last = len(LONGEST)
    items.sort(key=lambda item: LONGEST.index(item.path.stem) if item.path.stem in LONGEST else last)


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    from thence.spark.session import local_session

    session = local_session(cores=2, app="thence tests", quick=True, conf=INTERPRETED)
    yield session
    session.stop()
