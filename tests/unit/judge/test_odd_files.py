"""Every odd file, judged in this process, with and without `order`: what docs/reference/any-file.md says comes out."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.odd_files import CORPUS, OddFile, audit_case, check_case


@pytest.mark.parametrize("order", [True, False], ids=["order", "no order"])
@pytest.mark.parametrize("case", CORPUS, ids=lambda case: case.kind)
def test_what_comes_out(case: OddFile, order: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "here"
    folder.mkdir()
    monkeypatch.chdir(folder)
    check_case(case, *audit_case(case, folder, "local", order))
