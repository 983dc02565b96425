"""`thence deliver` and `thence waiting`, from files to files."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from support.arrivals import Arrivals, arrivals
from support.deliveries import patiently

from thence import Orderer
from thence.cli import main


def write(made: Arrivals, folder: Path, parts: int) -> None:
    folder.mkdir()
    for part in range(parts):
        lines = []
        for row in made.rows[part * len(made.rows) // parts : (part + 1) * len(made.rows) // parts]:
            told = {k: v for k, v in row.items() if v is not None}
            told["stamp"] = base64.b64encode(row["stamp"]).decode()
            told["event_id"] = told.pop("message")
            lines.append(json.dumps(told | ({} if lines else {"roster": list(made.roster.names)})))
        (folder / f"{part}.jsonl").write_text("\n".join(lines) + "\n")


def table(folder: Path) -> list[dict[str, object]]:
    """The rows of a folder of Parquet, in an order of their own."""
    rows = [row for file in sorted(folder.glob("*.parquet")) for row in pq.read_table(file).to_pylist()]
    return sorted(({name: row[name] for name in sorted(row)} for row in rows), key=lambda row: str(row))


def test_lines_that_are_no_json(spark: object, tmp_path: Path) -> None:
    """The rows say the same on both engines, whatever columns they have; where the lines stand, this process says."""
    folder = tmp_path / "in"
    folder.mkdir()
    file = folder / "1.jsonl"
    row = {"run": "r", "destination": "d", "message": "a", "depends_on": [], "_corrupt_record": "mine"}
    unusable = {**row, "message": None}  # quarantined for a reason of its own
    file.write_text(f"{json.dumps(row)}\n{json.dumps(unusable)}\n{{oops\n{{'message': 'b'}}\n")
    rows = {}
    for engine in ("local", "spark"):
        out = tmp_path / engine
        assert main(["deliver", str(file), "--by", "depends_on", "--out", str(out), "--engine", engine]) == 1
        rows[engine] = table(out)
    assert rows["local"] == rows["spark"]
    line = {"reason": "the line holds no JSON object", "_corrupt_record_": "{oops"}
    assert [line.items() <= row.items() for row in rows["spark"]].count(True) == 1
    assert sorted(str(row["reason"]) for row in rows["spark"]) == [
        "None", "no message id", "the line holds no JSON object", "the line holds no JSON object",
    ]  # fmt: skip
    file.write_text(json.dumps(row) + "\n")
    stream = [str(folder), "--out", str(tmp_path / "out"), "--stream", "--once", "--checkpoint", str(tmp_path / "c")]
    for said in ("2.jsonl", "3.jsonl"):
        assert patiently(["deliver", "--by", "depends_on", *stream]) == 0
        (folder / said).write_text("{oops\n")  # where all lines were objects when the stream began
    assert [line.items() <= row.items() for row in table(tmp_path / "out")].count(True) == 1


def test_files_without_any_object(spark: object, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "in.jsonl").write_text("\nhello\n[1]\n")
    said = []
    for engine in ("local", "spark"):
        asked = ["--by", "depends_on", "--out", str(tmp_path / "out"), "--engine", engine]
        assert main(["deliver", str(tmp_path / "in.jsonl"), *asked]) == 2
        said.append(capsys.readouterr().err.splitlines()[-1])
    assert said[0] == said[1]
    assert "in.jsonl:2: not JSON" in said[0]


def test_files_in_and_out_batch_and_stream(spark: object, tmp_path: Path) -> None:
    made = arrivals("ks", 5, messages=150, lost=0.04)
    odd = tmp_path / "in [x] {y,z}*"  # just a name
    write(made, odd, 3)
    write(made, tmp_path / "in", 3)
    orderer = Orderer("stamp", roster=made.roster)
    left = [out for row in made.rows for out in orderer.push(row)]
    held = orderer.waiting()
    common = [str(tmp_path / "in"), "--by", "stamp", "--columns", "message=event_id"]
    said = tmp_path / "said.json"
    told = {}
    for engine in ("local", "spark"):
        batch = ["--out", str(tmp_path / engine), "--engine", engine, "--json", str(said)]
        assert main(["deliver", str(odd), *common[1:], *batch]) == 0
        told[engine] = json.loads(said.read_text())
        assert (told[engine].pop("engine"), told[engine].pop("out")) == (engine, str(tmp_path / engine))
        told[engine]["waiting"].sort(key=lambda row: (row["destination"], row["message"]))
        told[engine]["table"] = table(tmp_path / engine)
    assert told["local"] == told["spark"]
    assert told["local"]["rows"] == len(made.rows)
    assert told["local"]["outcomes"]["blocked"] == len(told["local"]["waiting"]) == len(held) > 0

    streaming = ["--out", str(tmp_path / "out"), "--stream", "--once", "--checkpoint", str(tmp_path / "checkpoint")]
    assert patiently(["deliver", *common, *streaming, "--files-per-batch", "2", "--json", str(said)]) == 0
    result = json.loads(said.read_text())
    assert result["rows"] == len(left)
    assert main(["waiting", str(tmp_path / "checkpoint"), "--json", str(said)]) == 0
    shown = json.loads(said.read_text())["waiting"]
    assert sorted(w["message"] for w in shown) == sorted(w["message"] for w in held)
    assert {w["blocker"] for w in shown} == {w["blocker"] for w in held}


def test_why_rows_are_quarantined_is_read_from_what_is_committed(spark: object, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    rows = [{"run": "r", "destination": "d", "message": m, "depends_on": c} for m, c in (("a", []), ("b", ["b"]))]
    (tmp_path / "in" / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    said, told = tmp_path / "said.json", {}
    call = ["deliver", str(tmp_path / "in"), "--by", "depends_on", "--json", str(said), "--out"]
    # with a timer too: under Spark's availableNow it would not end
    stream = ["--stream", "--once", "--ttl-seconds", "1000", "--checkpoint", str(tmp_path / "checkpoint")]
    for name, more in (("local", ["--engine", "local"]), ("spark", ["--engine", "spark"]), ("stream", stream)):
        if name == "stream":
            (tmp_path / name).mkdir()
            (tmp_path / name / "part-torn.parquet").write_bytes(b"PAR1 torn")  # as a killed stream leaves it
        assert patiently([*call, str(tmp_path / name), *more]) == 0
        told[name] = json.loads(said.read_text())
    assert [each["outcomes"] for each in told.values()] == [{"delivered": 1, "quarantined": 1}] * 3
    assert told["local"]["quarantined"] == told["spark"]["quarantined"] == told["stream"]["quarantined"]
    assert list(told["local"]["quarantined"].values()) == [1]


def test_what_can_not_be_done_is_said(spark: object, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = [{"run": "r", "destination": "d", "message": m, "depends_on": on} for m, on in (("b", ["a"]), ("c", []))]
    file = tmp_path / "in.jsonl"
    file.write_text("\n".join(map(json.dumps, lines)) + "\n")
    out = ["--out", str(tmp_path / "out")]
    assert main(["deliver", str(file), "--by", "depends_on", *out, "--policy", "fail"]) == 1
    assert "a has not arrived" in capsys.readouterr().err
    assert main(["deliver", str(file), "--by", "time", *out]) == 2
    assert main(["deliver", str(tmp_path / "none.jsonl"), "--by", "clock", *out]) == 2
    assert main(["deliver", str(file), "--by", "stamp", *out]) == 2
    assert main(["waiting", str(tmp_path)]) == 2
