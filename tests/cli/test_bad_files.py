"""No file makes a command end with exit code 70: what cannot be read is a sentence (1 or 2), never a traceback."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from thence.cli import main

PACKED = gzip.compress(b'{"id": "a", "parent": null}\n' * 200)
BAD = {
    "nested.jsonl": b"[" * 5000 + b"]" * 5000,
    "nested_value.jsonl": b'{"topic": "t", "value": "' + b"[" * 5000 + b'"}',
    "damaged.jsonl.gz": b"\x1f\x8b\x08" + bytes(20),
    "damaged.csv.gz": b"\x1f\x8b\x08" + bytes(20),
    "torn.jsonl.gz": PACKED[:-12],
    "flipped.jsonl.gz": PACKED[:20] + b"\xff\xff" + PACKED[22:],
    "rows.jsonl": b'{"id": "a", "parent": null}\n',
    "nothing.csv": b"",
    "nothing.json": b"",
}
CAUSES = ["--id", "id", "--causes", "parent"]
WAYS = (
    ["deliver", "{}", *CAUSES], ["deliver", "{}", *CAUSES, "--known", "{}"], ["deliver", "{}", "--by", "stamp"],
    ["deliver", "{}", "--from", "otlp"], ["deliver", "{}", "--from", "cloudevents"],
    ["deliver", "{}", "--from", "debezium"], ["audit", "{}"], ["audit", "{}", "--format", "otlp"],
    ["audit", "{}", "--format", "debezium"], ["explore", "--replay", "{}"],
)  # fmt: skip


def codes(name: str, capsys: pytest.CaptureFixture[str]) -> dict[str, int]:
    """Run each command on a file; return the exit codes that are neither 0, 1 nor 2."""
    found = {}
    for way in WAYS:
        out = ["--out", "out.jsonl", "--overwrite"] if way[0] == "deliver" else []
        found[" ".join(way)] = main([each.format(name) for each in way] + out)
    assert "Traceback" not in capsys.readouterr().err
    return {way: code for way, code in found.items() if code not in (0, 1, 2)}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_file_is_the_mistake_of_its_writer(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / name).write_bytes(BAD[name])
    assert codes(name, capsys) == {}
