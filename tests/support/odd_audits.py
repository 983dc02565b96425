"""Odd files judged from the command line, and what is said of them held against the table of the docs."""

from __future__ import annotations

import json
from pathlib import Path

from support.odd_files import OddFile
from thence.cli import main


def audit_case(case: OddFile, folder: Path, engine: str, order: bool) -> tuple[int, dict[str, object] | None]:
    """Audit a case from the command line, in its folder; return exit code and JSON."""
    names = case.make(folder, order)
    out = folder.parent / f"{folder.name}.json"
    code = main(["audit", *names, "--engine", engine, "--json", str(out), "--quiet"])
    return code, json.loads(out.read_text()) if out.exists() else None


def check_case(case: OddFile, code: int, said: dict[str, object] | None) -> None:
    """Hold what an audit says against the table."""
    assert code == case.exit, said
    assert (None if said is None else said["verdict"]) == case.verdict
    if said is not None:
        runs = {run["run"]: run["verdict"] for run in said["runs"]}  # type: ignore[attr-defined]
        assert runs == case.runs
        reasons = [row["reason"] for row in said["quarantine"]]  # type: ignore[attr-defined]
        judged = [each for each in reasons if each.startswith("message ")]  # those are for the judge, not the reader
        assert len(reasons) - len(judged) == len(case.reasons), reasons
        for reason in case.reasons:
            assert any(each.startswith(reason) for each in reasons), reasons
