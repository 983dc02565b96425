"""`thence doctor`: what is installed and whether it works, extra by extra, and what else there is."""

from __future__ import annotations

import os
import platform
import re
import sqlite3
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from importlib import metadata
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from typing import Annotated

import typer

from thence import __version__
from thence.cli._common import JsonFile, console, finish, start_spark, working, write_json
from thence.cli._console import table
from thence.errors import MisuseError
from thence.tables.engines.spark.java import Java, find_java

EXAMPLE = "thence doctor --json -"
PACKAGE = Path(__file__).parents[1]


@dataclass(frozen=True)
class Check:
    """One check: `ok`, `note` (works, with a remark), `absent` (an extra), `missing` or `broken`."""

    what: str
    status: str
    found: str
    advice: str | None = None

    @property
    def fine(self) -> bool:
        """Whether this finding needs no action."""
        return self.status in ("ok", "note", "absent")


def command(
    start: Annotated[
        bool, typer.Option("--start/--no-start", help="Start a Spark session and run a small job.")
    ] = True,
    warm: Annotated[
        bool, typer.Option("--warm", help="Make a class archive, so that later Spark sessions start sooner.")
    ] = False,
    json_file: JsonFile = None,
) -> None:
    """Check what is installed, extra by extra, and list the extras that are not.

    Exit code 0 if what is installed works, 1 if some of it does not.
    """
    findings = [*_python(), *_packages()]
    if _installed("pyspark"):
        java = _java(findings)
        if java is not None:
            findings.append(_archive(java, make=warm))
        if start and java is not None:
            findings.extend(_spark(java))
        elif start:
            findings.append(Check("spark session", "missing", "not started", "see the line on java"))
    fine = all(finding.fine for finding in findings)
    out = console(json_file)
    here = [(f.what, f.status, _brief(f), f.advice) for f in findings if f.status != "absent"]
    out.print(table("what", "status", "found", "what to do", rows=here, title="What you have"))
    if absent := [(f.what, f.found, f.advice) for f in findings if f.status == "absent"]:
        out.print(table("extra", "not installed", "to install it", rows=absent, title="What else there is"))
    out.print("What is installed works." if fine else "Something that is installed does not work: see above.")
    write_json(json_file, {"ok": fine, "findings": [asdict(finding) for finding in findings]})
    finish(0 if fine else 1)


def _python() -> Iterator[Check]:
    yield Check("thence", "ok", __version__)
    # The package does not install on an older one, but a checkout on the path would be imported by it.
    status, advice = ("ok", None) if sys.version_info >= (3, 11) else ("broken", "use Python 3.11 or newer")
    yield Check("python", status, f"{platform.python_version()}, {sys.executable}", advice)
    yield compiled_modules()
    yield Check("cores", "ok", str(os.cpu_count()))
    yield _sqlite()


def compiled_modules(package: Path = PACKAGE) -> Check:
    """Check that modules that can be compiled are; Python prefers the compiled form to the source beside it."""
    sources = sorted(package.rglob("*_cy.py"))
    plain = [
        ".".join(source.relative_to(package.parent).with_suffix("").parts)
        for source in sources
        if not any(source.with_suffix(suffix).exists() for suffix in EXTENSION_SUFFIXES)
    ]
    if not plain:
        return Check("compiled modules", "ok", f"all {len(sources)}")
    which = "none of" if len(plain) == len(sources) else f"{len(sources) - len(plain)} of"
    names = "" if len(plain) == len(sources) else f"; plain Python: {', '.join(plain)}"
    clone = (package.parents[1] / "setup.py").exists()
    again = "make install" if clone else "pip install --force-reinstall --no-deps --no-binary thence thence"
    advice = (
        "answers are the same, but slower; compiled wheels are for Linux on x86-64, elsewhere install a C compiler and "
        f"Python's headers, then run: {again}"
    )
    return Check("compiled modules", "note", f"{which} {len(sources)}{names}", advice)


def _sqlite() -> Check:
    from thence.live.database import WAL_RESET_FIXED

    if sqlite3.sqlite_version_info >= WAL_RESET_FIXED:
        return Check("sqlite", "ok", sqlite3.sqlite_version)
    fixed = ".".join(map(str, WAL_RESET_FIXED))
    advice = f"before {fixed} SQLite can lose a commit if two processes write: open a journal with its endpoint only"
    return Check("sqlite", "note", sqlite3.sqlite_version, advice)


def _packages() -> Iterator[Check]:
    """Check every extra of thence: the versions of its packages, or the missing ones."""
    extras: dict[str, list[str]] = {}
    for requirement in metadata.requires("thence") or ():
        match = re.match(r"""([\w.-]+)[^;]*;\s*extra\s*==\s*["']([\w-]+)["']""", requirement)
        if match is not None and match[1] != "thence":
            extras.setdefault(match[2], []).append(match[1])
    for extra, packages in sorted(extras.items()):
        found = {package: _installed(package) for package in packages}
        if lacking := [package for package, version in found.items() if version is None]:
            yield Check(f"thence[{extra}]", "absent", ", ".join(lacking), f'pip install "thence[{extra}]"')
        else:
            versions = ", ".join(f"{package} {version}" for package, version in found.items())
            yield Check(f"thence[{extra}]", "ok", versions)


def _brief(check: Check) -> str:
    """Return the finding for people: for an extra only the first package, since `--json` lists all."""
    first, *others = check.found.split(", ") if check.what.startswith("thence[") else [check.found]
    return f"{first} and {len(others)} more" if others else first


def _installed(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _java(findings: list[Check]) -> Java | None:
    """Find a Java, add it to the findings, and return it."""
    try:
        java = find_java()
    except MisuseError as error:
        findings.append(Check("java", "missing", str(error), 'pip install "thence[java]"'))
        return None
    findings.append(Check("java", "ok", f"{java.version} from {java.origin}, {java.home}"))
    return java


def _archive(java: Java, *, make: bool) -> Check:
    from thence.tables.engines.spark import archive

    if make:
        with working("Making the class archive (a minute or less)"):
            return Check("class archive", "ok", str(archive.build(java)))
    if archive.options(java):
        return Check("class archive", "ok", str(archive.archive_path(java)))
    if not archive.supported(java):
        return Check("class archive", "note", "cannot be used with this Java; sessions start without it")
    if archive.asked() is not archive.Use.AUTO:
        return Check("class archive", "note", f"none is made: {archive.VARIABLE}={archive.asked()}")
    return Check(
        "class archive", "note", "none yet", "made after the first session ends; `thence doctor --warm` makes it now"
    )


def _spark(java: Java) -> Iterator[Check]:
    """Start a session on `java`, run a job on its workers, and add the result to the findings."""
    from thence.tables.engines.spark.session import probe

    began = time.perf_counter()
    try:
        spark = start_spark(quick=True, what=f"Starting Spark on Java {java.version}")
        started = time.perf_counter()
    except Exception as error:  # every error of Spark becomes a finding
        yield Check("spark session", "broken", _first_line(error), "see the log above; try another JAVA_HOME")
        return
    yield Check("spark session", "ok", f"Spark {spark.version}, started in {started - began:.1f} s")
    try:
        with working("Running a small job"):
            workers = probe(spark)
        yield _workers(workers, time.perf_counter() - started)
    except Exception as error:
        yield Check("workers", "broken", _first_line(error), "the Python of the workers lacks a package")
    finally:
        spark.stop()


def _workers(workers: list[dict[str, str]], seconds: float) -> Check:
    here = (platform.python_version(), __version__)
    found = "; ".join(", ".join(f"{name} {version}" for name, version in row.items()) for row in workers)
    if [(row["python"], row["thence"]) for row in workers] == [here]:
        return Check("workers", "ok", f"{found}, first job in {seconds:.1f} s")
    return Check("workers", "broken", found, f"workers must run Python {here[0]} with thence {here[1]}")


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
