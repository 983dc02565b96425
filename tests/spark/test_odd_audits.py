"""Odd files judged on Spark, with and without `order`: what docs/any-file.md says comes out, as in this process."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.odd_audits import audit_case, check_case
from support.odd_files import CORPUS, OddFile

pytestmark = [pytest.mark.timeout(300), pytest.mark.usefixtures("spark")]
CASES = [(case, order) for case in CORPUS for order in (True, False)]
NAMED = {
    "Parquet with a damaged page",
    "a row whose run cannot be read, in a file of several runs",
    "a line in which a column stands twice",
    "a file of no format known here, in a folder",
}
"""Judged with every run of the tests, like every ninth of the others; the rest takes minutes."""


@pytest.mark.parametrize(
    ("case", "order"),
    [
        pytest.param(
            case, order, id=f"{case.kind}-{'order' if order else 'no order'}",
            marks=[] if case.kind in NAMED or place % 9 == 0 else pytest.mark.soak,
        )
        for place, (case, order) in enumerate(CASES)
    ],
)  # fmt: skip
def test_what_comes_out(case: OddFile, order: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "here"
    folder.mkdir()
    monkeypatch.chdir(folder)
    check_case(case, *audit_case(case, folder, "spark", order))
