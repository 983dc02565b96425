"""`thence show` and `thence audit --page`: files, excerpts, what is refused; without Spark."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from thence.cli import main
from thence.core.model.events import parse
from thence.tables.files.jsonl import write_jsonl

TRIANGLE = "a!1>c a!2>b b<a2 b?a2 b!1>c c<b1 c?b1 c<a1 c?a1"
SAID = "c delivered b1 before a1, though a1 happened before b1: a sent a1, then sent a2; b delivered a2, then sent b1"


@pytest.fixture
def trace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    write_jsonl(parse(f"{TRIANGLE} d!1>e e?d1"), tmp_path / "run.jsonl")
    return tmp_path / "run.jsonl"


def data_of(path: Path) -> dict[str, list[str]]:
    found = re.search(r'id="data">(.*?)</script>', path.read_text(), re.DOTALL)
    assert found is not None
    read: dict[str, list[str]] = json.loads(found[1])
    return read


def test_a_page_named_after_the_trace(trace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", str(trace), "--json", "made.json"]) == 0
    assert re.search(r"run\.html \(0\.\d MB\)", capsys.readouterr().out)
    page = trace.with_name("run.html")
    assert SAID in page.read_text()
    made = json.loads(trace.with_name("made.json").read_text())
    assert made == {"events": 11, "engine": "local", "pages": [{"file": "run.html", "bytes": page.stat().st_size}]}
    assert data_of(page)["files"] == [str(trace)]


def test_excerpts(trace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asked = {
        "violation": ("--violation", "1"),
        "message": ("--message", "d1"),
        "processes": ("--processes", "d,e"),
        "order": ("--order", "9:"),
    }
    for name, options in asked.items():
        assert main(["show", str(trace), "--out", f"{name}.html", *options]) == 0
    processes = {name: data_of(trace.with_name(f"{name}.html"))["processes"] for name in asked}
    assert processes.pop("violation") == ["a", "b", "c"]
    assert set(map(tuple, processes.values())) == {("d", "e")}
    assert data_of(trace.with_name("violation.html"))["start"] == "finding=1"
    capsys.readouterr()


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (("--violation", "2"), "there is no violation 2; there is 1"),
        (("--message", "zz"), "no run of the trace sends a message 'zz'"),
        (("--time", "1"), "FROM:TO is accepted"),
        (("--time", "1:2"), "no row of the trace meets these conditions"),
        (("--violation", "1", "--message", "a1"), "one of them is accepted"),
        (("--violation", "1", "--processes", "a"), "one of them is accepted"),
        (("--engine", "cloud"), "no engine 'cloud'"),
        (("--out", "."), "is a folder; the name of a file is accepted"),
    ],
)
def test_what_cannot_be_shown(
    trace: Path, capsys: pytest.CaptureFixture[str], options: tuple[str, ...], reason: str
) -> None:
    assert main(["show", str(trace), *options]) == 2
    assert reason in capsys.readouterr().err
    assert not trace.with_name("run.html").exists()


def test_an_empty_trace_has_nothing_to_draw(trace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trace.write_text("")
    assert main(["show", str(trace)]) == 2
    assert "the trace has no event to draw" in capsys.readouterr().err


def test_rows_that_cannot_be_read_are_on_the_page(trace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with trace.open("a") as stream:
        stream.write("not json\n")
    assert main(["show", str(trace)]) == 0
    assert f"{trace}:12: not JSON" in trace.with_name("run.html").read_text()
    capsys.readouterr()


def test_logs_are_drawn_from_their_clocks(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = Path(__file__).parents[1] / "data" / "shiviz" / "reliable-broadcast.log"
    assert main(["show", str(log), "--out", str(tmp_path / "log.html")]) == 0
    assert '"processes":["' in (tmp_path / "log.html").read_text()
    assert main(["audit", str(log), "--page", str(tmp_path / "audit.html")]) in (0, 1)
    assert '"processes":["' in (tmp_path / "audit.html").read_text()
    assert main(["show", str(log), "--violation", "1", "--out", str(tmp_path / "none.html")]) == 2
    assert "there is no violation 1" in capsys.readouterr().err


def test_logs_and_tables_are_drawn_one_at_a_time(trace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = Path(__file__).parents[1] / "data" / "shiviz" / "reliable-broadcast.log"
    assert main(["show", str(log), str(trace)]) == 2
    assert "draw them one at a time" in capsys.readouterr().err


def test_the_page_of_an_audit(trace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["audit", str(trace), "--page", "audit.html"]) == 1
    assert "audit.html (0." in capsys.readouterr().out
    text = trace.with_name("audit.html").read_text()
    assert "<h2>Not causal: 1 violation</h2>" in text
    assert SAID in text


@pytest.mark.parametrize("verb", ["show", "cost", "audit", "convert"])
def test_a_stray_file_in_a_folder_is_named(verb: str, trace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (trace.parent / "traces").mkdir()
    trace.rename(trace.parent / "traces" / "run.jsonl")
    (trace.parent / "traces" / "stray.bin").write_bytes(b"\x00\x01\x02")
    main([verb, "traces", *(["--to", "jsonl", "--out", "made.jsonl"] if verb == "convert" else [])])
    assert "note: skipped traces/stray.bin" in "".join(capsys.readouterr())
