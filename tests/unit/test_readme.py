"""Every Python block and every command of the README and the docs' front pages is run."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from support.pages import run, run_page, same, steps
from support.some import some

from thence import audit

ROOT = Path(__file__).parents[2]
PAGES = ("README.md", "docs/reference/protocols.md", "docs/how-to/show.md")
BLOCKS = [
    pytest.param(block, id=f"{page}-{number}")
    for page in PAGES
    for number, block in enumerate(re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(), re.DOTALL), 1)
]


@pytest.mark.parametrize("block", BLOCKS)
def test_python_blocks_run(block: str, capsys: pytest.CaptureFixture[str]) -> None:
    exec(compile(block, "block", "exec"), {})
    capsys.readouterr()


def test_the_readme_shows_what_it_says(capsys: pytest.CaptureFixture[str]) -> None:
    for block in re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL):
        exec(compile(block, "README.md", "exec"), {})
    assert capsys.readouterr().out.splitlines() == ["delivered 1 ordered", "delivered 2 paid"]


def test_the_landing_page_shows_what_it_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert run_page(ROOT / "docs" / "index.md") == 1


def test_the_audit_prints_what_the_readme_shows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    text = (ROOT / "README.md").read_text()
    (rows,) = re.findall(r"```json\n(.*?)```", text, re.DOTALL)
    (tmp_path / "monday.jsonl").write_text(rows)
    (step,) = (step for step in steps(text) if step.language == "console")
    assert step.source == "thence audit monday.jsonl"
    assert same(step.printed, run(step, {}))


def test_the_readme_installs_from_the_index() -> None:
    (block,) = re.findall(r"```sh\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    assert block == 'pip install "thence[cli]"\n'


def test_the_events_shown_are_a_trace(tmp_path: Path) -> None:
    (rows,) = re.findall(r"```json\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    (tmp_path / "shop.jsonl").write_text(rows)
    with audit(tmp_path / "shop.jsonl") as found:
        assert (found.verdict, found.events) == ("violated", 4)


def test_sizes_are_the_measured_ones() -> None:
    measured = json.loads((ROOT / "benchmarks/install/results/sizes.json").read_text())["extras"]
    section = (ROOT / "README.md").read_text().partition("## What to install")[2].partition("\n## ")[0]
    shown = re.findall(r"^\| (?:`(\w+)`|\(none\)) \|.*\| (\d+) \|$", section, re.MULTILINE)
    assert {name: int(size) for name, size in shown} == {name: round(row["MB"]) for name, row in measured.items()}
    packages = measured["all"]["packages"]
    large = [round(packages[name]) for name in ("pyarrow", "pyspark")]
    assert "pyarrow is {} MB, pyspark {})".format(*large) in section


def test_bytes_of_state_are_the_measured_ones() -> None:
    page = " ".join((ROOT / "docs" / "how-to" / "operate-stream.md").read_text().split())
    said = re.search(
        r"takes (\d+) bytes of memory and (\d+) of the state store, a fingerprint of one (\d+) and (\d+), "
        r"a held row of 175 characters (\d+) and (\d+), and a key (\d+) and (\d+)",
        page,
    )
    assert said is not None
    measured = json.loads((ROOT / "benchmarks/deliver/results/state.json").read_text())
    kinds = [row[f"bytes in {where}"] for row in measured.values() for where in ("memory", "the state store")]
    assert list(map(int, said.groups())) == [round(each) for each in kinds]


def test_relative_links_lead_somewhere() -> None:
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")]
    links = [(page, each) for page in pages for each in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text())]
    for page, target in some(links):
        assert (page.parent / target).exists(), f"{page.name} links to {target}, which is not there"


def test_microseconds_of_a_step_are_the_measured_ones() -> None:
    said = re.search(
        r"a step of the protocol `ks` among (\d+) to (\d+) processes takes (\d+) to (\d+) microseconds",
        (ROOT / "README.md").read_text(),
    )
    assert said is not None
    fewest, most, least, longest = map(int, said.groups())
    rows = json.loads((ROOT / "benchmarks/protocols/results/protocols.json").read_text())["rows"]
    steps = [
        row[name]
        for row in rows
        for name in ("send_us", "receive_us")
        if row["protocol"] == "ks" and fewest <= row["n"] <= most
    ]
    assert steps
    assert least <= min(steps) < max(steps) <= longest
