"""One Spark session for the whole folder: it takes seconds to start."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from thence.tables.engines.spark import archive
from thence.tables.engines.spark.java import find_java

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


def early() -> str:
    """Return the options of these JVMs. One whose class path is another does without the archive, and must not say so
    where its caller reads what it prints."""
    return " ".join([EARLY, "-Xlog:disable", *archive.options(find_java())])


os.environ.setdefault("JDK_JAVA_OPTIONS", early())


LONGEST = (
    "test_plain_session",
    "test_into_database",
    "test_causes",
    "test_audit",
    "test_crash",
    "test_cluster",
    "test_into_lakehouse",
    "test_frames",
    "test_readme",
    "test_elsewhere",
    "test_commands",
    "test_pipeline",
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
