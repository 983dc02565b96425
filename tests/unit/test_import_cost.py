"""`import thence` is cheap: it loads none of the heavy packages. Modules are asserted, times printed."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

import pytest

from thence.core.model.events import parse
from thence.tables.files.jsonl import format_line

HEAVY = {"asyncio", "matplotlib", "networkx", "numpy", "pandas", "pyarrow", "pyspark", "rich", "typer"}


def modules_after(statement: str) -> set[str]:
    """Return the modules that a fresh interpreter holds after `statement`."""
    code = f"{statement}\nimport json, sys\nprint(json.dumps(sorted(sys.modules)), file=sys.stderr)"
    ran = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, text=True, check=True)
    return set(json.loads(ran.stderr.splitlines()[-1]))


def loaded_by(statement: str) -> set[str]:
    """Return the top-level ones of them."""
    return {name.partition(".")[0] for name in modules_after(statement)}


@pytest.mark.parametrize(
    "module", ["thence", "thence.errors", "thence.core.model", "thence.protocols", "thence.tables.delivery"]
)
def test_the_core_loads_nothing_heavy(module: str) -> None:
    assert not loaded_by(f"import {module}") & HEAVY


def test_the_public_names_load_nothing_heavy() -> None:
    assert not loaded_by("from thence import *") & HEAVY


@pytest.mark.parametrize("arguments", [["--help"], ["doctor", "--help"], ["--version"]])
def test_help_loads_neither_spark_nor_arrays(arguments: list[str]) -> None:
    loaded = loaded_by(f"from thence.cli import main\nassert main({arguments!r}) == 0")
    assert not loaded & (HEAVY - {"typer", "rich"} - {"asyncio"})


def test_the_version_loads_no_command() -> None:
    loaded = modules_after("from thence.cli import main\nassert main(['--version']) == 0")
    assert not loaded & {"typer", "thence.core.model", "thence.cli._common"}


def test_an_audit_of_json_lines_loads_arrow_and_nothing_heavier(tmp_path: Path) -> None:
    trace = tmp_path / "trace.jsonl"
    trace.write_bytes(b"".join(map(format_line, parse("a!1>b b?a1"))))
    loaded = modules_after(f"from thence.cli import main\nassert main(['audit', {str(trace)!r}]) == 0")
    assert not {name.partition(".")[0] for name in loaded} & (HEAVY - {"typer", "numpy", "pyarrow"} | {"pydantic"})
    assert not loaded & {"pyarrow.parquet", "concurrent.futures", "logging", "importlib.resources"}


@pytest.mark.parametrize(("asked", "found"), [(None, "1"), ("2", "2")])
def test_a_command_starts_no_threads_of_blas_unless_asked(asked: str | None, found: str) -> None:
    env = {name: value for name, value in os.environ.items() if name != "OPENBLAS_NUM_THREADS"}
    env |= {"OPENBLAS_NUM_THREADS": asked} if asked else {}
    code = "import os, sys; from thence.cli import main; sys.argv[1:] = ['--version']; main()"
    code += "; print(os.environ['OPENBLAS_NUM_THREADS'])"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=env)
    assert ran.stdout.split()[-1] == found


def test_import_takes_a_fraction_of_the_interpreter(capsys: pytest.CaptureFixture[str]) -> None:
    def seconds(code: str) -> float:
        began = time.perf_counter()
        subprocess.run([sys.executable, "-I", "-c", code], check=True)
        return time.perf_counter() - began

    extra = statistics.median(seconds("import thence") - seconds("pass") for _ in range(7))
    with capsys.disabled():
        print(f"\nimport thence: {1000 * extra:.1f} ms beyond the interpreter")
    assert len(modules_after("import thence") - modules_after("pass")) < 20
