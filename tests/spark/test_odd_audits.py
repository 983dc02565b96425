"""Odd files judged on Spark, with and without `order`: what docs/reference/any-file.md says, as in this process.

A sample of the rows behind it is judged on both engines by `test_audit_cli.py`; all of it takes minutes.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from support.odd_files import CORPUS, OddFile, audit_case, check_case
from support.soak import keep

pytestmark = [pytest.mark.soak, pytest.mark.usefixtures("spark")]
_judged: list[str] = []


@pytest.mark.parametrize("order", [True, False], ids=["order", "no order"])
@pytest.mark.parametrize("case", CORPUS, ids=lambda case: case.kind)
def test_what_comes_out(case: OddFile, order: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "here"
    folder.mkdir()
    monkeypatch.chdir(folder)
    check_case(case, *audit_case(case, folder, "spark", order))
    _judged.append(case.kind)
    keep("audit", "odd files on Spark", {"cases as the table says": len(_judged), "of": 2 * len(CORPUS)})
