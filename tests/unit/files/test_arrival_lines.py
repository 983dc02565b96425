"""JSON lines of arrivals: what is read of a whole block equals what is read of each line alone."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random

import pytest

from thence.errors import TraceError
from thence.tables.delivery.columns import Columns
from thence.tables.files.arrival_reader import NO_OBJECT, arrival_files, read_arrivals

PLAIN = b'{"message":"a","depends_on":["b"],"n":1}'
ODD = (
    b'{"message":"a","depends_on":',  # goes on in the next line
    b'["b"]}',
    b'{"message":"a"} {"message":"b"}',
    b'{"message":"a"},{"message":"b"}',
    b'{"message":"a"} ',
    b'  {"message":"a"}',
    b"",
    b"   ",
    b"\xef\xbb\xbf" + PLAIN,
    b'{"message":"\xff"}',
    b'{"message":"a","message":"b"}',
    b'{"message":NaN}',
    b"[1]",
    b"7",
    b"nonsense",
    b'{"message":"' + "ä€".encode() + b'"}',
    PLAIN + b"\r",
    PLAIN + b"\t",
)


def by_line(lines: list[bytes]) -> list[object]:
    """Return the id of each line alone, its text where it holds no object; blank lines left out."""
    found: list[object] = []
    for line in lines:
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except ValueError:
            row = None
        found.append(row.get("message") if isinstance(row, dict) else line.decode("utf-8", "replace").rstrip("\r\n"))
    return found


@pytest.mark.parametrize("seed", range(60))
def test_a_block_is_read_as_its_lines(tmp_path: Path, seed: int) -> None:
    rng = Random(seed)
    lines = [PLAIN, *(rng.choice(ODD) if rng.random() < 0.3 else PLAIN for _ in range(rng.randrange(8)))]
    path = tmp_path / "rows.jsonl"
    path.write_bytes(b"\n".join(lines) + b"\n" * rng.randrange(2))
    found = read_arrivals(arrival_files(str(path)), "depends_on", Columns("depends_on", {}, None))
    table, unread, texts = found.table, found.unread, found.lines
    ids = table.column("message").to_pylist()
    said = [None] * len(table) if texts is None else table.column(texts).to_pylist()
    shown = [each if text is None else text for each, text in zip(ids, said, strict=True)]
    wanted = [None if isinstance(each, float) else each for each in by_line(lines)]  # NaN says that there is none
    assert shown == wanted
    assert len(unread) == sum(text is not None for text in said)


def test_files_without_an_object_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_bytes(b'{"message":"a"\n,"n":1}\n')  # one object over two lines
    with pytest.raises(TraceError, match="rows.jsonl:1|one object a line|" + NO_OBJECT):
        read_arrivals(arrival_files(str(path)), "depends_on", Columns("depends_on", {}, None))
