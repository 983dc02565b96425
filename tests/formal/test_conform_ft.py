"""Recorded executions of `ks-ft`, with crashes, against KsFt.tla: honest ones conform, each mutant is refused."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.explored import walked
from support.mutant_ks import joined
from support.mutant_ks_ft import MUTANTS, recorded

from thence.cli import main
from thence.core.protocols.ks_ft import KsFt
from thence.lab.explorer.setting import Setting
from thence.lab.formal.conform import Conformance, conform

SEEDS = (1, 2, 3)
GROUPS = "ab|c|de"
GROUPED = ("EndsFactsOfGroups",)


def judged(*kinds: type[KsFt], groups: str = "", crashes: int = 1) -> dict[str, list[Conformance]]:
    traces = [recorded(kind, seed, groups=groups, crashes=crashes) for kind in kinds for seed in SEEDS]
    found: dict[str, list[Conformance]] = {}
    for each in conform(joined(*traces), protocol="ks-ft", groups=groups):
        found.setdefault(each.run.split()[0], []).append(each)
    return found


@pytest.fixture(scope="module")
def alone() -> dict[str, list[Conformance]]:
    """Every process is a group of its own."""
    return judged(KsFt, *(mutant for mutant in MUTANTS if mutant.__name__ not in GROUPED))


@pytest.fixture(scope="module")
def grouped() -> dict[str, list[Conformance]]:
    """Some groups have two members."""
    return judged(KsFt, *(mutant for mutant in MUTANTS if mutant.__name__ in GROUPED), groups=GROUPS, crashes=2)


@pytest.mark.parametrize("fixture", ["alone", "grouped"])
def test_honest_members_conform(fixture: str, request: pytest.FixtureRequest) -> None:
    found = request.getfixturevalue(fixture)["KsFt"]
    assert [each.sentence for each in found if not each.conforms] == []
    assert len(found) == len(SEEDS)
    assert all("KsFt" in each.sentence and each.rows > 50 for each in found)


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.__name__)
def test_mutants_are_refused(mutant: type[KsFt], request: pytest.FixtureRequest) -> None:
    found = request.getfixturevalue("grouped" if mutant.__name__ in GROUPED else "alone")[mutant.__name__]
    print([each.sentence for each in found])
    refused = [each for each in found if not each.conforms]
    assert refused, f"seeds {SEEDS}: every run of {mutant.__name__} conforms"
    assert all("cannot happen" in each.sentence for each in refused)


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = str(tmp_path / "trace.jsonl")
    size = ("--processes", "4", "--messages", "15", "--crashes", "1", "--seed", "2")
    assert main(["simulate", "--protocol", "ks-ft", *size, "--stamps", "--trace", path]) == 0
    assert main(["conform", "--protocol", "ks-ft", path]) == 0
    assert "rows are a behaviour of KsFt" in capsys.readouterr().out
    bare = str(tmp_path / "bare.jsonl")
    assert main(["simulate", "--protocol", "ks-ft", *size, "--trace", bare]) == 0
    assert main(["conform", "--protocol", "ks-ft", bare]) == 2
    assert "`thence simulate --stamps` records it" in capsys.readouterr().err
    assert main(["conform", "--protocol", "rst", path]) == 2
    assert "has no specification; ks, ks-ft are accepted" in capsys.readouterr().err
    assert main(["conform", "--groups", "ab|cd", path]) == 2
    assert "knows no groups" in capsys.readouterr().err


@pytest.mark.parametrize(("groups", "detector"), [("", "falling"), ("ab|c", "any"), ("", "eager")])
def test_executions_of_the_explorer_conform(groups: str, detector: str) -> None:
    setting = Setting("ks-ft", 3, 5, "any", crashes=1, detector=detector, groups=groups)
    found = conform(joined(*(walked(setting, seed) for seed in range(12))), protocol="ks-ft", groups=groups)
    assert [each.sentence for each in found if not each.conforms] == []
    assert len(found) == 12
    assert sum(each.rows for each in found) > 100
