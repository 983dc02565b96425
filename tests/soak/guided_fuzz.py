"""Hostile bytes found by coverage: `python tests/soak/guided_fuzz.py PROTOCOL CORPUS [flags of libFuzzer]`.

`atheris` watches which branches of the readers and the protocols an input reaches, keeps the inputs that reach new
ones, and changes those further. An input is a byte that picks a scene and its victim, and a stamp or a snapshot. The
property is that of `support.hostile`, and that the fast reader takes and refuses what the slow one does.
"""

from __future__ import annotations

import sys
from pathlib import Path

import atheris

sys.path.insert(0, str(Path(__file__).parents[1]))

with atheris.instrument_imports(include=["thence.core"], enable_loader_override=False):
    from support.hostile import Hostile
    from support.slow_codec import slow_decode

    from thence.core.model.message import Copy
    from thence.core.protocols.wire import decode
    from thence.errors import PeerError
    from thence.protocols import Member

SNAPSHOT = 128
"""added to the first byte of an input that is a snapshot"""


def victims(hostile: Hostile) -> list[tuple[Copy, Member]]:
    """Return copies under way with the members they go to."""
    found = [(copy, scene.run.members[copy.destination]) for scene in hostile.scenes for copy in scene.flight]
    return found[:: len(found) // SNAPSHOT + 1]


def seed(pairs: list[tuple[Copy, Member]], corpus: Path) -> None:
    """Write every good stamp, and the snapshot of every victim, as what to begin with."""
    for place, (copy, member) in enumerate(pairs):
        (corpus / f"stamp-{place}").write_bytes(bytes((place,)) + member.encode(copy))
        (corpus / f"snapshot-{place}").write_bytes(bytes((place | SNAPSHOT,)) + member.snapshot())


def try_one(hostile: Hostile, pairs: list[tuple[Copy, Member]], data: bytes) -> None:
    """Hand the bytes to a member, and a stamp to both readers."""
    if not data or data[0] & ~SNAPSHOT >= len(pairs):
        return
    copy, member = pairs[data[0] & ~SNAPSHOT]
    if data[0] & SNAPSHOT:
        hostile.restored(data[1:], member, copy)
        return
    both = []
    for read in (decode, slow_decode):
        try:
            both.append(read(type(member), data[1:], member.roster, destination=member.me, source=copy.source))
        except PeerError:
            both.append(None)
    assert both[0] == both[1], f"{hostile.name}: the readers differ on {data[1:].hex()} over {len(member.roster)}"
    hostile.received(data[1:], copy.source, member, copy)


def main() -> None:
    """Fuzz one protocol."""
    name, corpus = sys.argv[1], Path(sys.argv[2])
    hostile = Hostile(name, 1)
    pairs = victims(hostile)
    seed(pairs, corpus)
    atheris.Setup([sys.argv[0], *sys.argv[3:], str(corpus)], lambda data: try_one(hostile, pairs, data))
    atheris.Fuzz()


if __name__ == "__main__":
    main()
