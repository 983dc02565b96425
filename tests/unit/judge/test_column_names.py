"""Files and tables whose columns have other names are judged as those with ours are."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.definition import told
from support.tables import CALLED, other_table, write_other
from support.traces import random_trace, spoil

import thence
from thence.cli import main
from thence.core.model.events import Event, parse
from thence.errors import MisuseError, TraceError
from thence.tables.contract.row_validity import row_of
from thence.tables.engines.local.chunks import audit_files
from thence.tables.files.read import open_trace
from thence.testing import assert_causal

SPELLED = ",".join(f"{ours}={theirs}" for ours, theirs in CALLED.items())


def runs() -> list[Event]:
    """Return runs of which some are violated and some have rows that cannot be used."""
    return [event for seed in range(12, 24) for event in spoil(random_trace(seed), seed) if event.message != ""]


def test_a_test_suite_may_name_them_too(tmp_path: Path) -> None:
    file = tmp_path / "trace.jsonl"
    write_other(parse("a!1>bc b?a1 b!1>c c?a1 c?b1"), file)
    assert_causal(file, columns=CALLED)
    with pytest.raises(AssertionError, match="unknown"):
        assert_causal(file)


@pytest.mark.parametrize("kind", ["jsonl", "parquet"])
def test_files(kind: str, tmp_path: Path) -> None:
    file = tmp_path / f"trace.{kind}"
    write_other(runs(), tmp_path / f"ours.{kind}", {})
    write_other(runs(), file)
    known = told(thence.audit(tmp_path / f"ours.{kind}"))
    assert known["verdict"] == "violated"
    with thence.audit(file, columns=CALLED) as few:
        assert told(few) == known
    with audit_files(open_trace(file, columns=CALLED), chunk_rows=30) as many:
        assert told(many) == known
    ours = thence.audit(other_table(runs(), {}))
    assert told(thence.audit(other_table(runs()), columns=CALLED)) == told(ours)


def test_the_command(tmp_path: Path) -> None:
    file, out = tmp_path / "trace.jsonl", tmp_path / "said.json"
    write_other(runs(), file)
    with file.open("a") as stream:
        stream.write('{"run":"run12","pid":"a","pid":"b","seq":1,"type":"crash"}\n')
    assert main(["audit", str(file), "--columns", SPELLED, "--json", str(out)]) == 1
    said = json.loads(out.read_text())
    assert said["verdict"] == "violated"
    assert main(["explain", str(file), "--columns", SPELLED]) == 1
    assert [row["reason"] for row in said["quarantine"] if row["line"] == len(runs()) + 1] == [
        "process stands twice in the line"
    ]


@pytest.mark.parametrize("kind", ["jsonl", "parquet"])
def test_every_verb_that_reads_traces(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pages, costs, facts and converted rows are the same whatever the columns are called."""
    monkeypatch.chdir(tmp_path)
    said = {}
    for folder, called in (("ours", {}), ("theirs", CALLED)):
        Path(folder).mkdir()
        monkeypatch.chdir(folder)
        file = Path(f"trace.{kind}")
        write_other(parse("a!1>bc b?a1 b!1>c c?b1 c?a1"), file, called)
        named = ["--columns", SPELLED] if called else []
        assert main(["show", str(file), *named, "--out", "page.html"]) == 0
        assert main(["audit", str(file), *named, "--page", "audit.html"]) == 1
        assert main(["cost", str(file), *named, "--protocols", "ks", "--json", "cost.json"]) == 1
        assert main(["convert", str(file), *named, "--to", "jsonl", "--out", "rows.jsonl"]) == 0
        assert main(["explain", str(file), *named, "--fact", "a1", "c", "b1", "c", "--json", "fact.json"]) == 0
        made = ("page.html", "audit.html", "cost.json", "rows.jsonl", "fact.json")
        said[folder] = {name: Path(name).read_text() for name in made}
        monkeypatch.chdir(tmp_path)
    assert said["theirs"] == said["ours"]


def test_a_name_of_ours_may_mean_something_else(tmp_path: Path) -> None:
    file = tmp_path / "trace.jsonl"
    row = {"run": "r", "time": 1, "message": "a1"}
    rows = [row | {"process": "a", "kind": "send", "destinations": ["b"]}, row | {"process": "b", "kind": "deliver"}]
    file.write_text("".join(f"{json.dumps(each)}\n" for each in rows))
    assert main(["show", str(file), "--columns", "index=time", "--out", str(tmp_path / "page.html")]) == 0
    assert_causal(file, columns={"index": "time"})


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ("pid=process", "--columns names 'pid'"),
        ("process", "OURS=YOURS"),
        ("process=x,kind=x", "--columns takes 'x' for more than one column"),
        ("=x", "OURS=YOURS"),
        ("process=", "--columns gives 'process' no name, and every event has one"),
    ],
)
def test_what_is_refused(given: str, found: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "trace.jsonl"
    write_other(runs(), file)
    assert main(["audit", str(file), "--columns", given]) == 2
    assert found in capsys.readouterr().err


def test_a_column_that_is_not_there_is_said(tmp_path: Path) -> None:
    file = tmp_path / "trace.parquet"
    write_other(runs(), file)
    with pytest.raises(
        MisuseError,
        match=r"column colour is missing; found: .*pid.*; name the right one by columns=, as in label=NAME",
    ):
        thence.audit(file, columns=CALLED | {"label": "colour"})
    with thence.audit(tmp_path, columns=CALLED | {"label": "colour"}) as result:
        assert [row["reason"].partition(";")[0] for row in result.quarantine] == ["column colour is missing"]  # type: ignore[union-attr]
    with pytest.raises(MisuseError, match="events are in our words"):
        thence.audit(runs(), columns=CALLED)


@pytest.mark.parametrize("kind", ["jsonl", "parquet"])
def test_a_column_of_ones_own_that_has_our_name(kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A shop's order is no order of events."""
    events = parse("a!1>bc b?a1 b!1>c c?b1 c?a1")
    rows = [row_of(event) | {"order": f"order {place}"} for place, event in enumerate(events)]
    file = tmp_path / f"trace.{kind}"
    if kind == "jsonl":
        file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    else:
        pq.write_table(pa.Table.from_pylist(rows), file)
    if kind == "jsonl":
        assert main(["audit", str(file)]) == 1
        assert "note: if your column order means something else, give --columns order=" in capsys.readouterr().out
    else:
        assert main(["audit", str(file)]) == 2
        said = capsys.readouterr().err
        assert "column order is string; long is accepted; found: destinations, index" in said
        assert "name the right one by --columns, as in order=NAME, or order= if there is none" in said
    with thence.audit(file, columns={"order": ""}) as result:
        assert [row["missing"] for row in result.violations] == ["a1"]
    with thence.audit(pa.Table.from_pylist(rows), columns={"order": ""}) as result:
        assert [row["missing"] for row in result.violations] == ["a1"]
    assert main(["show", str(file), "--columns", "order=", "--out", str(tmp_path / "page.html")]) == 0


def test_a_file_of_other_columns_is_told_how_to_name_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "trace.parquet"
    write_other(runs(), file)
    assert main(["audit", str(file)]) == 2
    assert "name the right one by --columns, as in index=NAME" in capsys.readouterr().err
    assert main(["audit", str(tmp_path)]) == 1
    assert "if your columns have other names, give --columns index=YOURS" in capsys.readouterr().out


def test_a_column_that_the_audit_does_not_read_may_be_named() -> None:
    rows = [{"run": "r", "process": "a", "index": 1, "kind": "internal", "Zeit": 1.5}]
    assert thence.audit(rows, columns={"time": "Zeit"}).verdict == "causal"
    assert thence.audit(pa.Table.from_pylist(rows), columns={"time": "Zeit"}).verdict == "causal"
    with pytest.raises(MisuseError, match=r"names 'Zeit'; the columns are run, .*time"):
        thence.audit(rows, columns={"Zeit": "time"})


def test_a_table_without_index_is_told_how_to_make_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [{"run": "r", "process": "a", "kind": "internal"}]
    (tmp_path / "t.csv").write_text("run,process,kind\nr,a,internal\n")
    (tmp_path / "t.jsonl").write_text(json.dumps(rows[0]) + "\n")
    (tmp_path / "long.jsonl").write_text((json.dumps(rows[0]) + "\n") * 101)
    made = "without index, number the rows of each process from 1"
    for data in (rows, pa.Table.from_pylist(rows), tmp_path / "t.csv", tmp_path / "long.jsonl"):
        with pytest.raises((MisuseError, TraceError), match=made):
            thence.audit(data)
    assert main(["audit", str(tmp_path / "t.jsonl")]) == 1
    assert made in " ".join(capsys.readouterr().out.split())


def test_ids_that_are_numbers_are_told_to_be_texts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    row = {"run": "r", "process": "a", "index": 1, "kind": "send", "message": 1, "destinations": ["b"]}
    for name, value in (("message", 1), ("run", 7), ("destinations", [2])):
        table = pa.Table.from_pylist([row | {"message": "m"} | {name: value}])
        pq.write_table(table, tmp_path / "t.parquet")
        for data in (table, tmp_path / "t.parquet"):
            with pytest.raises((MisuseError, TraceError), match="is accepted: convert its numbers to texts"):
                thence.audit(data)
    (tmp_path / "t.jsonl").write_text(json.dumps(row) + "\n")
    assert main(["audit", str(tmp_path / "t.jsonl")]) == 1
    told = " ".join(capsys.readouterr().out.split())
    assert 'note: ids are texts: convert the numbers of message, as in "1" for 1' in told
    assert "--columns message=" not in told
