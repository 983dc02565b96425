"""A run judged by the kernels in chunks, without an engine."""

from __future__ import annotations

import pickle
from itertools import pairwise
from random import Random

import pyarrow as pa
from support.tables import normal

from thence.core.model.events import Event
from thence.tables.judge.chunk import Summary, summarise, summary_of
from thence.tables.judge.findings import SCHEMA
from thence.tables.judge.ids import repeated
from thence.tables.judge.merge_chunks import ChunkMerger


def in_chunks(
    events: list[Event], cuts: list[int], block: int | None = None, shuffled: bool = False, tree: int | None = None
) -> list[dict[str, object]] | str:
    """Audit events by chunks."""
    return tables_in_chunks(normal(events), events[0].run, cuts, block, shuffled, tree)


def tables_in_chunks(
    table: pa.Table,
    run: str,
    cuts: list[int],
    block: int | None = None,
    shuffled: bool = False,
    tree: int | None = None,
) -> list[dict[str, object]] | str:
    """Audit a normal table by chunks; the reason if the run must be judged whole. Rows may come shuffled.

    Chunks are merged one after the other, or along a random tree of this seed.
    """
    ends = [0, *cuts, len(table)]
    pieces = [table.slice(a, b - a) for a, b in pairwise(ends) if b > a]
    if shuffled:
        pieces = [piece.take(Random(len(piece)).sample(range(len(piece)), len(piece))) for piece in pieces]
    want: frozenset[str] = frozenset()
    for last_round in (False, True):
        summaries: list[Summary] = []
        local: list[pa.Table] = []
        for number, piece in enumerate(pieces):
            found = summarise(run, number, piece, want=want, block=block, buckets=3)
            for row in found.to_pylist():
                if row["tag"] == "trouble":
                    return str(row["reason"])
            summaries.append(summary_of(row["payload"] for row in found.to_pylist() if row["tag"] == "summary"))
            local.append(found)
        rest = merged(run, summaries, last_round, tree)
        hashes: dict[int, list[bytes]] = {}
        for row in pa.concat_tables(local).to_pylist():
            if row["tag"] == "ids":
                hashes.setdefault(row["chunk"], []).append(row["payload"])
        if any(repeated(parts) for parts in hashes.values()):
            return "a message is sent twice"
        first = rest.to_pylist()[0]
        if first["tag"] != "want":
            break
        want = pickle.loads(first["payload"])
    rows = rest.to_pylist()
    if rows and rows[0]["tag"] == "trouble":
        return str(rows[0]["reason"])
    return [*rows, *pa.concat_tables(local).to_pylist()]


def merged(run: str, summaries: list[Summary], last_round: bool, tree: int | None) -> pa.Table:
    """Return what the summaries of a run say together."""
    merger = ChunkMerger(run, last_round=last_round)
    if tree is None:
        for summary in summaries:
            merger.add(summary)
        return merger.finish()
    random, nodes, parts = Random(f"tree {tree}"), list(enumerate(summaries)), []
    while len(nodes) > 1:
        start = random.randrange(len(nodes) - 1)
        some = nodes[start : start + random.choice([2, 2, 3])]
        node = ChunkMerger(run, opens=start == 0)
        for _, summary in some:
            node.add(summary)
        rows = node.as_one_chunk(some[0][0]).to_pylist()
        if rows[0]["tag"] == "trouble":
            return pa.Table.from_pylist(rows, SCHEMA)
        nodes[start : start + len(some)] = [
            (some[0][0], summary_of(row["payload"] for row in rows if row["tag"] == "summary"))
        ]
        parts += [row for row in rows if row["tag"] != "summary"]
    merger.add(nodes[0][1])
    rest = merger.finish()
    return rest if rest["tag"][0].as_py() == "want" else pa.concat_tables([rest, pa.Table.from_pylist(parts, SCHEMA)])


def cuts_of(count: int, seed: int) -> list[int]:
    r = Random(f"cuts {seed}")
    return sorted(r.sample(range(1, count), min(count - 1, r.choice([1, 2, 5, 12]))))
