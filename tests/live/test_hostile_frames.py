"""Whatever frame comes over a connection, an endpoint takes it or refuses it with a sentence and goes on.

Every protocol that runs live, every kind of frame, before and after the first words. THENCE_SEED (1) and THENCE_FRAMES
(12 of each kind and moment) say what is drawn.
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict
from pathlib import Path
from random import Random

import pytest
from support.live import LIVE, World
from support.live_pair import folder

from thence.live.frames import (
    ACK,
    ANSWER,
    ASK,
    BEAT,
    BYE,
    DATA,
    FRAME_KINDS,
    HELLO,
    REFUSED,
    Framer,
    Hello,
    ack_frame,
    data_frame,
    frame,
    hello_frame,
)
from thence.live.inputs import ITEM_KINDS, PAYLOAD, WANT, accept_head, change_head, copy_head, key_head
from thence.live.link import terms
from thence.live.process import LiveProcess
from thence.live.session import Session
from thence.live.state import dump
from thence.protocols import REGISTRY

assert folder is not None
SEED = int(os.environ.get("THENCE_SEED", "1"))
EACH = int(os.environ.get("THENCE_FRAMES", "12"))
LENGTH = 5
FIXED = [b"", b"\x00", b"\xff" * 8, bytes(16), b"\xff" * 16, b"{}", b"[]", b"\xff\xfe", b"[" * 3000]


class Heard:
    """The other end of a connection: keeps what is written to it."""

    def __init__(self) -> None:
        self.data, self.closed = b"", False

    def write(self, data: bytes) -> None:
        self.data += data

    def close(self) -> None:
        self.closed = True

    def refusals(self) -> list[bytes]:
        return [bytes(body) for kind, body in Framer(1 << 22).feed(self.data) if kind == REFUSED]


def greeting(live: LiveProcess) -> Hello:
    """Return proper first words of the first process."""
    link = live.links[0]
    name = live.core.roster.name(0)
    return Hello(name, link.identity or "0" * 32, *terms(live.core), link.received + 5, link.outbox.acked, 1 << 20)


def bodies(live: LiveProcess, chance: Random) -> dict[int, list[bytes]]:
    """Return bodies that come near to being right, for every kind of frame."""
    number = live.links[0].arrived + 1
    made = live.core.outboxes[0].front
    stamp = made[0].head[14:] if made else b"\x01"
    items = {
        1: copy_head(1, stamp, with_payload=True) + b"x",
        2: key_head(WANT, (None, 0, 1)),
        3: key_head(PAYLOAD, (None, 0, 1)) + b"payload",
        4: change_head(1, True, "new", "h:1", 0),
        5: accept_head(1),
    }
    assert items.keys() == set(ITEM_KINDS), "a kind of item has no sample here"
    question = {"joins": True, "name": "new", "address": "h:1", "processes": [*live.core.roster, "new"]}
    said = json.dumps(asdict(greeting(live))).encode()
    near = {
        HELLO: [said, said.replace(b"1", b"-1"), said.replace(b'"', b"", 1)],
        DATA: [data_frame(number, item, b"")[LENGTH:] for item in items.values()],
        ACK: [ack_frame(n, c)[LENGTH:] for n, c in ((0, 0), (0, 1 << 63), (1 << 62, 5))],
        REFUSED: [b"no", "é".encode() * 900],
        BEAT: [b""],
        BYE: [b""],
        ASK: [json.dumps(question).encode()],
        ANSWER: [b'{"waiting": [], "roster": []}'],
    }
    assert near.keys() == set(FRAME_KINDS), "a kind of frame has no sample here"
    for some in near.values():
        for body in list(some):
            changed = bytearray(body or b"\x00")
            changed[chance.randrange(len(changed))] = chance.randrange(256)
            some += (bytes(changed), body[: chance.randrange(len(body) + 1)], body + chance.randbytes(3))
    return near


@pytest.mark.parametrize("protocol", LIVE)
def test_hostile_frames_are_taken_or_refused_with_a_sentence(folder: Path, protocol: str) -> None:
    print(f"seed {SEED}")
    chance = Random(f"{SEED} {protocol}")
    groups: dict[str, int | str | bool] = {"groups": "abc"} if "groups" in REGISTRY[protocol].needs else {}
    world = World(folder, 3, SEED, protocol=protocol, options=groups)
    me = world.processes[2]
    assert me.live is not None
    while not me.live.idle:
        world.work(2)
    refused: set[int] = set()
    for kind in (*FRAME_KINDS, 0, max(FRAME_KINDS) + 1, 255):
        for opened in (False, True):
            near = bodies(me.live, chance).get(kind, [])
            for body in [*chance.sample(near, min(EACH, len(near))), *chance.sample(FIXED, 3)]:
                heard = Heard()
                session: Session = me.live.connect(heard, None)
                before = dump(me.live.core)
                if opened:
                    session.feed(hello_frame(greeting(me.live)))
                    assert session.open, heard.data
                session.feed(frame(kind, body))
                while not me.live.idle:
                    world.work(2)
                assert session.open or session.closed or not opened
                if heard.refusals():
                    refused.add(kind)
                    assert heard.closed
                    assert dump(me.live.core) == before
                session.lost("over")
    assert refused >= {*FRAME_KINDS, 0, 255} - {REFUSED, BEAT, BYE}
    world.close()
