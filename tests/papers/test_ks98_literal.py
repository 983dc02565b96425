"""The fast `ks` equals a transcription of the paper, entry for entry: stamps, logs and delivery decisions."""

from __future__ import annotations

from random import Random

from papers.literal_ks import Entry, LiteralKS

from thence.core.model.roster import positions
from thence.core.wire.dependency_log_cy import Log
from thence.protocols import Deliver, Sent, create


def flat(log: Log) -> set[Entry]:
    return {(s, t, frozenset(positions(mask))) for s, group in log.items() for t, mask in group}


def test_equal_to_the_paper_entry_for_entry() -> None:
    sent = held = 0
    for seed in range(60):
        rng = Random(seed)
        n = rng.randint(2, 6)
        fast = [create("ks", [f"p{i}" for i in range(n)], i) for i in range(n)]
        slow = [LiteralKS(i, n) for i in range(n)]
        stamps: dict = {}
        net: list = []
        for _ in range(150):
            if net and rng.random() < 0.75:
                copy = net.pop(rng.randrange(len(net)))
                d = copy.destination
                effects = fast[d].receive(copy)
                held += not isinstance(effects[0], Deliver)
                assert slow[d].deliverable(stamps[copy.id, d]) == isinstance(effects[0], Deliver), f"seed {seed}"
                for effect in effects:
                    if isinstance(effect, Deliver):
                        got = effect.copy
                        assert slow[d].deliverable(stamps[got.id, d]), f"seed {seed}"
                        slow[d].rcv(got.sender, got.count, positions(got.destinations), stamps[got.id, d])
                assert flat(fast[d].log) == slow[d].log, f"seed {seed}"
            else:
                p = rng.randrange(n)
                mask = rng.randrange(1, 1 << n)
                result = fast[p].send(mask)
                assert isinstance(result, Sent)
                expected = slow[p].snd(positions(mask))
                for copy in result.copies:
                    assert flat(copy.stamp) == expected[copy.destination], f"seed {seed}"
                    stamps[copy.id, copy.destination] = expected[copy.destination]
                assert flat(fast[p].log) == slow[p].log, f"seed {seed}"
                net += result.copies
                sent += 1
    assert sent > 1000
    assert held > 500
