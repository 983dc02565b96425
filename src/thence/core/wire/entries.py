"""The shape of a dependency log."""

from __future__ import annotations

from collections.abc import Hashable

from thence.core.wire import dependency_log_bits_cy as bits
from thence.core.wire.codec import Shape
from thence.core.wire.dependency_log_cy import Log
from thence.core.wire.dependency_log_reader_cy import read_log
from thence.core.wire.reader_cy import Reader
from thence.core.wire.sets import Rename


class Entries(Shape):
    """A dependency log; never changed once it is made, so a fork shares it."""

    def write(self, value: Log, out: bytearray, size: int) -> None:
        """Write the entries by ascending sender."""
        log = value if isinstance(value, Log) else Log(value)  # a mapping made by hand is accepted
        log.write(out, size)

    def read(self, reader: Reader) -> Log:
        """Read the entries; raise an error if they are invalid."""
        log: Log = read_log(reader)
        return log

    def in_bits(self) -> Shape:
        """Return the form of wire version 2."""
        return EntriesInBits()

    def freeze(self, value: Log, rename: Rename) -> Hashable:
        """Freeze as bytes, with positions renamed."""
        return value.frozen(rename)


class EntriesInBits(Entries):
    """A dependency log as wire version 2 has it."""

    def write(self, value: Log, out: bytearray, size: int) -> None:
        bits.write_log(value if isinstance(value, Log) else Log(value), out, size)

    def read(self, reader: Reader) -> Log:
        log: Log = bits.read_log_bits(reader)
        return log
