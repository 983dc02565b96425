"""Java archives that only the tests of Kafka need, resolved from Maven Central into a cache outside the repo.

The machine's Maven resolves them where there is one, Spark's own resolver otherwise. `connector` takes the connector of
our Spark version, or the newest one that the registry has: a registry may be behind, and Spark's Kafka connector of an
earlier minor version works with ours (the tests are what says so).
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

CACHE = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "thence" / "jars"
KAFKA = "3.9.2"
"""the version that Spark's connector was built with"""
EARLIER = [("4.2.0", "4.1.0-preview1"), ("4.0.0", "4.0.0")]
"""connector and token provider, newest first, where those of our Spark are not to be had"""

POM = """<project><modelVersion>4.0.0</modelVersion><groupId>thence</groupId><artifactId>tests</artifactId>
<version>1</version><dependencies>{}</dependencies></project>"""
DEPENDENCY = """<dependency><groupId>{}</groupId><artifactId>{}</artifactId><version>{}</version>{}</dependency>"""
ALONE = "<exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion></exclusions>"


class NotThereError(Exception):
    """The registry does not have it."""


def broker_jars() -> list[Path]:
    """Return the class path of a broker."""
    return fetch(f"org.apache.kafka:kafka_2.13:{KAFKA}", "org.slf4j:slf4j-nop:1.7.36")


def connector() -> list[Path]:
    """Return what Spark needs to read Kafka; what Spark has already is left out."""
    import pyspark

    known = CACHE / f"connector-for-{pyspark.__version__}"
    versions = [(pyspark.__version__, pyspark.__version__), *EARLIER]
    if known.exists():
        versions = [tuple(known.read_text().split())]  # type: ignore[list-item]
    for one, other in versions:
        names = (
            f"org.apache.spark:spark-sql-kafka-0-10_2.13:{one}",
            f"org.apache.spark:spark-token-provider-kafka-0-10_2.13:{other}",
            f"org.apache.kafka:kafka-clients:{KAFKA}",
            "org.apache.commons:commons-pool2:2.12.1",
        )
        try:
            found = fetch(*names, alone=True)
        except NotThereError as error:
            print(f"connector {one}: {error}", file=sys.stderr)
            continue
        known.write_text(f"{one} {other}")
        return found
    raise NotThereError("no Kafka connector for Spark is to be had")


def fetch(*coordinates: str, alone: bool = False) -> list[Path]:
    """Return the archives of `group:name:version`, with what they depend on unless they are to come alone."""
    folder = CACHE / hashlib.sha256(repr((sorted(coordinates), alone)).encode()).hexdigest()[:16]
    if not (folder / "complete").exists():
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        maven = shutil.which("mvn")
        if maven and os.environ.get("THENCE_TEST_RESOLVER") != "spark":
            _by_maven(maven, coordinates, folder, alone)
        else:
            _by_spark(coordinates, folder, alone)
        (folder / "complete").touch()
    return sorted(folder.glob("*.jar"))


def _by_maven(maven: str, coordinates: tuple[str, ...], folder: Path, alone: bool) -> None:
    told = "".join(DEPENDENCY.format(*each.split(":"), ALONE if alone else "") for each in coordinates)
    with tempfile.TemporaryDirectory() as here:
        (Path(here) / "pom.xml").write_text(POM.format(told))
        command = [maven, "-q", "-B", "dependency:copy-dependencies", "-DincludeScope=runtime"]
        done = subprocess.run([*command, f"-DoutputDirectory={folder}"], cwd=here, capture_output=True, text=True)
    if done.returncode:
        raise NotThereError(next((line for line in done.stdout.splitlines() if "ERROR" in line), done.stderr)[:300])


def _by_spark(coordinates: tuple[str, ...], folder: Path, alone: bool) -> None:
    """Let Spark's resolver fetch them: it does so before it starts a program, here one that does nothing."""
    import pyspark

    program = folder / "nothing.py"
    program.write_text("")
    command = [
        str(Path(pyspark.__file__).parent / "bin" / "spark-submit"),
        "--conf",
        f"spark.jars.ivy={folder / 'ivy'}",
    ]
    command += ["--master", "local[1]", "--packages", ",".join(coordinates)]
    if alone:
        command += ["--exclude-packages", "org.apache.hadoop:hadoop-client-runtime,org.apache.hadoop:hadoop-client-api"]
    done = subprocess.run([*command, str(program)], capture_output=True, text=True)
    if done.returncode:
        raise NotThereError(done.stderr[-300:])
    for jar in (folder / "ivy" / "jars").glob("*.jar"):
        shutil.copy(jar, folder / jar.name.partition("_")[2])
