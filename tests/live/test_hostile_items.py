"""Whatever a member sends, an endpoint takes it or refuses it with a sentence, and a refusal changes nothing.

THENCE_SEED (1) and THENCE_ITEMS (400 for each protocol) say what is drawn.
"""

from __future__ import annotations

import os
from random import Random

import pytest
from support.live import LIVE

from thence.errors import PeerError
from thence.live.core import Core
from thence.live.inputs import (
    ITEM_KINDS,
    PAYLOAD,
    WANT,
    Done,
    Receive,
    Send,
    Trusted,
    accept_head,
    change_head,
    copy_head,
    key_head,
)
from thence.live.state import dump, read_state
from thence.protocols import REGISTRY

SEED = int(os.environ.get("THENCE_SEED", "1"))
ITEMS = int(os.environ.get("THENCE_ITEMS", "400"))


class Trio:
    """Three cores, and the items that are on their way between them."""

    def __init__(self, protocol: str, chance: Random) -> None:
        self.refused = 0
        self.offered: set[int] = set()
        """kinds of the items that were offered"""
        self.needs, self.chance = REGISTRY[protocol].needs, chance
        options: dict[str, int | str | bool] = {"groups": "abc"} if "groups" in self.needs else {}
        self.cores = [Core.fresh(protocol, "abc", name, options=options) for name in "abc"]
        self.way: dict[tuple[int, int], list[bytes]] = {(f, t): [] for f in range(3) for t in range(3)}
        if "failure detector" in self.needs:
            for core in self.cores:
                self.keep(core, core.apply(Trusted(("a", "b", "c")), 0.0))

    def keep(self, core: Core, step: object) -> None:
        for peer, entry, _ in step.sent:  # type: ignore[attr-defined]
            body = entry.body if entry.body is not None else b"p"
            self.way[core.me, peer].append(entry.head + body)

    def send(self) -> None:
        core = self.chance.choice(self.cores)
        others = 0b111 & ~(1 << core.me)
        if "broadcast only" in self.needs or "groups" in self.needs:
            mask = others if "groups" not in self.needs else 0b111
        elif "unicast only" in self.needs:
            mask = 1 << self.chance.choice([p for p in range(3) if p != core.me])
        else:
            mask = self.chance.randrange(1, 8)
        self.keep(core, core.apply(Send(mask, b"p" * self.chance.choice((0, 1, 1500)), None), 0.0))

    def receive(self) -> None:
        """Let an item arrive, after mutants of it and of others have been refused, or taken by a copy of the core."""
        ready = [pair for pair, items in self.way.items() if items]
        if not ready:
            return
        source, me = self.chance.choice(ready)
        item = self.way[source, me].pop(0)
        for _ in range(4):
            self.offer(self.cores[me], source, self.mutant(item))
        core = self.cores[me]
        self.keep(core, core.apply(Receive(source, core.received[source] + 1, item), 0.0))
        if core.inbox:
            core.apply(Done(tuple(core.inbox)), 0.0)
        for outbox in core.outboxes:
            outbox.acknowledge(outbox.sent)

    def offer(self, core: Core, source: int, item: bytes) -> None:
        before = dump(core)
        self.offered.update(item[:1])
        try:
            core.apply(Receive(source, core.received[source] + 1, item), 0.0)
        except PeerError:
            assert dump(core) == before, f"{item.hex()} was refused and has changed the state"
            self.refused += 1
        else:
            self.cores[core.me] = read_state(before)

    def mutant(self, item: bytes) -> bytes:
        chance, others = self.chance, [each for items in self.way.values() for each in items] or [item]
        what = chance.randrange(10)
        if what == 0:  # the flag that a payload follows, changed
            return item[:1] + bytes([1 - item[1]]) + item[2:] if len(item) > 1 else b""
        if what == 1:  # the same without what follows the stamp, or with more
            return item[: chance.randrange(len(item) + 1)] + chance.randbytes(chance.choice((0, 3)))
        if what == 2:
            label = chance.choice((None, "", "red", "x" * 300))
            return key_head(chance.choice((WANT, PAYLOAD)), (label, chance.randrange(5), chance.randrange(4))) + b"z"
        if what == 3:
            return copy_head(chance.choice((0, 1, 1 << 51)), chance.randbytes(chance.randrange(40)), with_payload=True)
        if what == 4:
            return chance.choice(others)
        if what in (8, 9):  # a change of the membership, or its acceptance, as it is or broken
            name, address = chance.choice(("a", "d", "", "x" * 401)), chance.choice(("", "h:1", "z"))
            head = change_head(chance.randrange(3), chance.random() < 0.5, name, address, chance.randrange(4))
            item = head if what == 8 else accept_head(chance.randrange(3))
            if chance.random() < 0.5:
                return item
        if what == 5:
            return chance.choice((b"", b"\x01", b"\x02", b"\x03", b"\x09", b"\x02" + item[1:], b"\x03" + item[1:]))
        changed = bytearray(item)
        for _ in range(chance.randrange(1, 4)):
            changed[chance.randrange(len(changed))] = chance.choice((0, 1, 2, 3, 127, 128, 255, chance.randrange(256)))
        return bytes(changed)


@pytest.mark.parametrize("protocol", LIVE)
def test_hostile_items_are_refused_before_anything_changes(protocol: str) -> None:
    print(f"seed {SEED}")
    trio = Trio(protocol, Random(f"{SEED} {protocol}"))
    for number in range(ITEMS // 4):
        if number % 3 == 0:
            trio.send()
        trio.receive()
    assert trio.refused
    assert trio.offered >= set(ITEM_KINDS)


@pytest.mark.parametrize("protocol", ["acked", "synchronous"])
def test_an_acknowledgement_with_a_payload_is_refused(protocol: str) -> None:
    first, second = (Core.fresh(protocol, "ab", name) for name in "ab")
    sent = first.apply(Send(2, b"x"), 0.0).sent[0][1]
    answer = second.apply(Receive(0, 1, sent.head + b"x"), 0.0).sent[0][1]
    before = dump(first)
    with pytest.raises(PeerError, match="b brings a payload with a protocol message"):
        first.apply(Receive(1, 1, answer.head[:1] + b"\x01" + answer.head[2:] + b"payload"), 0.0)
    assert dump(first) == before
    first.apply(Receive(1, 1, answer.head), 0.0)
