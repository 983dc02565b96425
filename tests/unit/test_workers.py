"""A session whose workers cannot run the operators is refused in one sentence, before a job starts."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from thence.errors import MisuseError
from thence.tables.engines.spark.workers import check_workers


def session(python: str, master: str = "local[2]", shipped: str = "") -> Any:
    conf = SimpleNamespace(get=lambda name, default: shipped or default)
    return SimpleNamespace(sparkContext=SimpleNamespace(master=master, pythonExec=python, getConf=lambda: conf))


@pytest.fixture
def bare(tmp_path: Path) -> str:
    """An interpreter with nothing but the standard library."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "bare"], check=True)
    return str(tmp_path / "bare" / "bin" / "python")


def test_a_python_without_the_packages_is_named(bare: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYTHONPATH", raising=False)
    with pytest.raises(MisuseError) as error:
        check_workers(session(bare))
    assert str(error.value) == (
        f"the workers of this session run {bare}, which has no pyarrow, numpy, pandas, thence. Set "
        f"PYSPARK_PYTHON={sys.executable} before the session starts, or activate the environment of this program first"
    )
    with pytest.raises(MisuseError, match=r"no pyarrow, numpy, pandas\. "):
        check_workers(session(bare, shipped="thence.zip"))


def test_what_cannot_be_known_is_not_refused(bare: str) -> None:
    check_workers(session(bare, "spark://host:7077"))
    check_workers(session(sys.executable))
    check_workers(session(os.fspath(Path(bare).with_name("nothing"))))
    check_workers(SimpleNamespace())  # type: ignore[arg-type]
