"""A roster maps process names to positions, so that a set of processes is one Python int.

Invariant: positions are never reused or reordered. A process that joins gets the next position, a process that leaves
keeps its own. So a mask written under an earlier roster of the same lineage means the same under every later one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cached_property
from hashlib import blake2b

from thence.errors import MisuseError

HASH_BYTES = 4


class Roster:
    """An ordered list of distinct process names, with masks and names of sets over it."""

    def __init__(self, names: Iterable[str]) -> None:
        """Take the names in order of position."""
        self.names: tuple[str, ...] = tuple(names)
        self._position = {name: position for position, name in enumerate(self.names)}
        if len(self._position) != len(self.names):
            twice = next(name for place, name in enumerate(self.names) if self._position[name] != place)
            raise MisuseError(f"process {twice!r} stands twice in the roster; names must be distinct")
        for name in self.names:
            if not isinstance(name, str) or not name:
                raise MisuseError(f"a process name must be a non-empty string, found {name!r}")

    @classmethod
    def of(cls, count: int) -> Roster:
        """Return the roster a, b, ..., z, aa, ab, ... of that many processes, letters only."""
        return cls(letters(position) for position in range(count))

    def __len__(self) -> int:
        return len(self.names)

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __contains__(self, name: object) -> bool:
        return name in self._position

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Roster) and self.names == other.names

    def __hash__(self) -> int:
        return hash(self.names)

    def __repr__(self) -> str:
        return f"Roster({list(self.names)!r})"

    @property
    def everyone(self) -> int:
        """The mask of all positions."""
        return (1 << len(self.names)) - 1

    def position(self, name: str) -> int:
        """Return the position of a name, or raise an error that lists the names."""
        try:
            return self._position[name]
        except KeyError:
            raise MisuseError(f"no process {name!r} in the roster; it holds {', '.join(self.names)}") from None

    def mask(self, names: Iterable[str]) -> int:
        """Return the set of these names as a bit mask."""
        mask = 0
        for name in names:
            mask |= 1 << self.position(name)
        return mask

    def names_in(self, text: str) -> list[str]:
        """Read names from the text of an option: `abc` are three letters, longer names are separated by commas."""
        return [name for name in (text.split(",") if "," in text or text in self else text) if name]

    def name(self, position: int) -> str:
        """Return the name at a position."""
        return self.names[position]

    def members(self, mask: int) -> tuple[str, ...]:
        """Return the names of a mask in order of position."""
        return tuple(self.names[position] for position in positions(mask))

    def joined(self, name: str) -> Roster:
        """Return the roster that follows when a process joins."""
        if name in self:
            raise MisuseError(f"process {name!r} is in the roster already; a process that left keeps its name")
        return Roster((*self.names, name))

    @cached_property
    def hash(self) -> bytes:
        """Return the short hash of this roster for the wire."""
        return roster_hash(self.names)

    @cached_property
    def _sizes(self) -> dict[bytes, int]:
        """The number of names behind the hash of each roster that this one can have grown from."""
        sizes: dict[bytes, int] = {}
        digest = blake2b(digest_size=HASH_BYTES)
        for size, name in enumerate(self.names, 1):
            digest.update(_framed(name))
            sizes[digest.digest()] = size
        return sizes

    def earlier(self, digest: bytes) -> int:
        """Return the size of the roster with that hash that this one has grown from; 0 if there is none."""
        return self._sizes.get(digest, 0)

    def lineage(self) -> Iterator[Roster]:
        """Yield this roster and the shorter ones it can have grown from, newest first."""
        for size in range(len(self.names), 0, -1):
            yield Roster(self.names[:size])


def roster_hash(names: Iterable[str]) -> bytes:
    """Hash names in order; lengths go in too, so that no two lists of names share a text."""
    digest = blake2b(digest_size=HASH_BYTES)
    for name in names:
        digest.update(_framed(name))
    return digest.digest()


def _framed(name: str) -> bytes:
    data = name.encode()
    return len(data).to_bytes(4, "big") + data


def positions(mask: int) -> Iterator[int]:
    """Yield the positions of the bits of a mask, lowest first."""
    while mask:
        low = mask & -mask
        yield low.bit_length() - 1
        mask ^= low


def letters(position: int) -> str:
    """Return the letters-only name of a position: 0 is a, 25 is z, 26 is aa."""
    text = ""
    position += 1
    while position:
        position, rest = divmod(position - 1, 26)
        text = chr(97 + rest) + text
    return text
