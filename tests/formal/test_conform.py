"""Recorded executions against KS.tla: honest ones conform, each mutant is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.explored import walked
from support.mutant_ks import MUTANTS, DeliversEarly, DropsAFact, Honest, joined, recorded

from thence.cli import main
from thence.core.protocols.ks import KS
from thence.core.protocols.ks_hardware import KSHardware
from thence.lab.explorer.setting import Setting
from thence.lab.formal.conform import Conformance, conform
from thence.lab.papers.variants import VARIANTS
from thence.lab.simulator import Scenario, simulate
from thence.tables.files.jsonl import format_line

SEEDS = (1, 2, 3)


@pytest.fixture(scope="module")
def verdicts() -> dict[str, list[Conformance]]:
    """One run of TLC judges every kind of member under every seed, simulated runs and executions of the explorer."""
    kinds = {kind.__name__: kind for kind in (KS, Honest, KSHardware, *MUTANTS)}
    traces = [recorded(kind, 4, 30, seed, f"{name} {seed}") for name, kind in kinds.items() for seed in SEEDS]
    traces += [walked(Setting("ks", 4, 8, "any"), seed) for seed in SEEDS]
    for seed in SEEDS:
        run = Scenario("ks", 5, 40, seed=seed, run=f"simulated {seed}")
        traces.append(simulate(run, measure=False, trace=True, stamps=True).events)
    found: dict[str, list[Conformance]] = {}
    for each in conform(joined(*traces)):
        found.setdefault(each.run.split()[0], []).append(each)
    return found


@pytest.mark.parametrize("name", ["KS", "Honest", "simulated", "walk"])
def test_honest_members_conform(verdicts: dict[str, list[Conformance]], name: str) -> None:
    assert [each.sentence for each in verdicts[name] if not each.conforms] == []
    assert len(verdicts[name]) == len(SEEDS)
    assert all(each.rows > 20 for each in verdicts[name])


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.__name__)
def test_mutants_are_refused(verdicts: dict[str, list[Conformance]], mutant: type[KS]) -> None:
    refused = [each for each in verdicts[mutant.__name__] if not each.conforms]
    print([each.sentence for each in verdicts[mutant.__name__]])
    assert refused, f"seeds {SEEDS}: every run of {mutant.__name__} conforms"
    assert all("cannot happen" in each.sentence for each in refused)


def test_one_stamp_for_all_destinations_is_another_specification(verdicts: dict[str, list[Conformance]]) -> None:
    assert not all(each.conforms for each in verdicts["KSHardware"])


def test_the_printed_forms_of_ks_are_refused() -> None:
    names = [name for name, variant in VARIANTS.items() if issubclass(variant.entry.protocol, KS)]
    traces = [recorded(VARIANTS[n].entry.protocol, 4, 40, seed, f"{n} {seed}") for n in names for seed in SEEDS]
    refused = {each.run.split()[0] for each in conform(joined(*traces)) if not each.conforms}
    assert "ks-printed" in refused
    assert refused >= {name for name in names if "self" not in name}


def test_the_command_names_the_first_row_that_cannot_happen(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    good, bad, report = tmp_path / "good.jsonl", tmp_path / "bad.jsonl", tmp_path / "report.json"
    good.write_bytes(b"".join(map(format_line, recorded(KS, 3, 10, 1))))
    bad.write_bytes(b"".join(map(format_line, recorded(DropsAFact, 3, 10, 1))))
    assert main(["conform", str(good)]) == 0
    assert "conforms: " in capsys.readouterr().out
    assert main(["conform", str(bad), "--json", str(report), "--keep", str(tmp_path / "kept")]) == 1
    shown = capsys.readouterr().out
    assert "does not conform: row" in shown
    row = json.loads(report.read_text())
    assert row["verdict"] == "refused"
    assert row["runs"][0]["event"]["kind"] in ("receive", "deliver")
    assert (tmp_path / "kept" / "Model.tla").is_file()


def test_rows_without_arrivals_or_order_are_enough() -> None:
    rows = [event for event in recorded(KS, 3, 12, 5) if event.kind != "receive"]
    indexes: dict[str, int] = {}
    for event in rows:
        event.index = indexes[event.process] = indexes.get(event.process, 0) + 1
        event.order = None
    by_process = sorted(rows, key=lambda event: event.process)  # as one file a process has them
    assert [each.conforms for each in conform(by_process)] == [True]


def test_sizes_are_compared_where_stamps_are_not_recorded() -> None:
    def sized(kind: type[KS], run: str) -> list[object]:
        rows = recorded(kind, 4, 20, 1, run)
        for event in rows:
            if event.dependencies is not None:
                event.entries, event.facts = len(event.dependencies), sum(len(to) for _, to in event.dependencies)
                event.dependencies = None
        return rows  # type: ignore[return-value]

    good, bad = conform(joined(sized(KS, "good"), sized(DropsAFact, "bad")))  # type: ignore[arg-type]
    assert good.conforms
    assert "facts; by the specification it has" in bad.sentence


def test_an_early_delivery_is_named_with_what_it_must_wait_for() -> None:
    from thence.core.model.events import parse

    rows = parse("a!1>c a!2>b b?a2 b!1>c c?b1 c?a1")
    stamps = {"a2": (("a1", ("c",)),), "b1": (("a1", ("c",)), ("a2", ()))}
    for event in rows:
        if event.kind == "deliver":
            event.dependencies = stamps.get(event.message or "", ())
    (found,) = conform(rows)
    assert found.sentence == "row 1 of c (c delivers b1) cannot happen yet: it must wait for a1"


@pytest.mark.parametrize(
    ("lines", "told"),
    [
        ("", "holds no run"),
        ('{"run":"r","process":"a","index":2,"kind":"internal"}\n', "has no row 1 of a"),
        ("{\n", "a whole trace is needed"),
        (
            '{"run":"r","process":"a","index":1,"kind":"send","message":"a1","destinations":["b"]}\n'
            '{"run":"r","process":"b","index":1,"kind":"deliver","message":"a1"}\n',
            "records no stamps",
        ),
    ],
)
def test_what_cannot_be_judged_is_said(
    lines: str, told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "trace.jsonl"
    path.write_text(lines)
    assert main(["conform", str(path)]) == 2
    assert told in capsys.readouterr().err


def test_a_message_that_was_never_sent_cannot_arrive(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "trace.jsonl"
    path.write_text('{"run":"r","process":"b","index":1,"kind":"deliver","message":"a1"}\n')
    assert main(["conform", str(path)]) == 1
    assert "was never sent" in capsys.readouterr().out


def test_an_execution_of_the_explorer(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    saved = tmp_path / "execution.json"
    size = ("--processes", "3", "--messages", "4", "--destinations", "any", "--variants")
    assert main(["explore", "--protocol", "ks-lookahead", *size, "--save", str(saved)]) == 1
    capsys.readouterr()
    assert main(["conform", str(saved)]) == 1
    assert "does not conform: row" in capsys.readouterr().out


def test_without_java_there_is_a_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from thence.errors import MisuseError
    from thence.lab.formal import tlc

    def nothing() -> None:
        raise MisuseError("Spark needs Java 17 or newer and none was found (JAVA_HOME: not set). Install one")

    monkeypatch.setattr(tlc, "find_java", nothing)
    path = tmp_path / "trace.jsonl"
    path.write_bytes(b"".join(map(format_line, recorded(DeliversEarly, 3, 5, 1))))
    assert main(["conform", str(path)]) == 2
    assert "TLC needs Java 17 or newer and none was found (JAVA_HOME: not set)" in capsys.readouterr().err


def test_without_tlc_there_is_a_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path, other = tmp_path / "trace.jsonl", tmp_path / "other.jar"
    path.write_bytes(b"".join(map(format_line, recorded(KS, 3, 5, 1))))
    monkeypatch.setenv("THENCE_TLC", str(tmp_path / "missing.jar"))
    assert main(["conform", str(path)]) == 2
    assert "which is not a file" in capsys.readouterr().err
    other.write_bytes(b"other")
    monkeypatch.setenv("THENCE_TLC", str(other))
    assert main(["conform", str(path)]) == 2
    assert "its SHA-256 differs" in capsys.readouterr().err
