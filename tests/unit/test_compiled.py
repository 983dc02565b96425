"""Compiled modules: what an editable install does when a source is newer than what was compiled of it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from thence.core.wire import dependency_log_cy as log_cy

ROOT = Path(__file__).resolve().parents[2]


def clone(folder: Path, *, source: int, compiled: int) -> Path:
    """Make a clone with one module and a file that stands for what was compiled of it."""
    package = folder / "src" / "thence"
    package.mkdir(parents=True)
    (folder / "setup.py").touch()
    shutil.copy(ROOT / "src/thence/__init__.py", package)
    for name, time in (("log_cy.py", source), ("log_cy.cpython-311-x86_64-linux-gnu.so", compiled)):
        (package / name).touch()
        os.utime(package / name, (time, time))
    return folder


def imported(folder: Path) -> subprocess.CompletedProcess[str]:
    env = os.environ | {"PYTHONPATH": str(folder / "src")}
    return subprocess.run([sys.executable, "-c", "import thence"], env=env, capture_output=True, text=True, check=False)


def test_a_clone_refuses_a_compiled_module_that_is_older_than_its_source(tmp_path: Path) -> None:
    found = imported(clone(tmp_path, source=2_000, compiled=1_000))
    assert found.returncode == 1
    assert "older than its source; run: make install" in found.stderr


def test_a_clone_refuses_a_compiled_module_that_is_older_than_its_declarations(tmp_path: Path) -> None:
    folder = clone(tmp_path, source=1_000, compiled=2_000)
    (folder / "src/thence/log_cy.pxd").touch()
    assert "older than its source; run: make install" in imported(folder).stderr


def test_a_clone_imports_a_compiled_module_that_is_newer_than_its_source(tmp_path: Path) -> None:
    assert imported(clone(tmp_path, source=1_000, compiled=2_000)).returncode == 0


def test_an_installed_package_is_not_checked(tmp_path: Path) -> None:
    folder = clone(tmp_path, source=2_000, compiled=1_000)
    (folder / "setup.py").unlink()
    assert imported(folder).returncode == 0


def answers(package: Path, kind: str, seed: int, *makers: str) -> list[str]:
    """Return what the modules of a package answer, in a process of its own that asserts their kind."""
    env = os.environ | {"PYTHONPATH": os.pathsep.join((str(package), str(ROOT / "tests")))}
    script = [sys.executable, str(ROOT / "tests/unit/compiled_answers.py"), kind, str(seed), *makers]
    run = subprocess.run(script, env=env, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    return run.stdout.splitlines()


@pytest.fixture(scope="module")
def plain_package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the package and nothing that is compiled of it."""
    folder = tmp_path_factory.mktemp("plain")
    shutil.copytree(ROOT / "src/thence", folder / "thence", ignore=shutil.ignore_patterns("*.so", "__pycache__"))
    return folder


@pytest.mark.skipif(str(log_cy.__file__).endswith(".py"), reason="nothing is compiled here")
@pytest.mark.parametrize("maker", ["logs", "stamps"])
def test_compiled_and_plain_modules_answer_alike(plain_package: Path, maker: str) -> None:
    """The same answers and the same sentences, to random inputs and to hostile bytes."""
    seed = 30
    print(f"seed {seed}")
    compiled = answers(ROOT / "src", "compiled", seed, maker)
    plain = answers(plain_package, "plain", seed, maker)
    assert len(compiled) > 1000
    assert sum("refused" in line for line in compiled) > 300
    assert compiled == plain
