"""The segments of a shard where a test can see them."""

from __future__ import annotations


class Shelf:
    """Segments by name, and the head; `copy` is what a checkpoint of this moment has."""

    def __init__(self) -> None:
        self.head: bytes | None = None
        self.parts: dict[str, bytes] = {}
        self.reads = self.put_bytes = 0

    def get(self, name: str) -> bytes | None:
        self.reads += 1
        return self.parts.get(name)

    def put(self, name: str, data: bytes) -> None:
        assert name not in self.parts, "a segment is written once"
        self.parts[name] = data
        self.put_bytes += len(data)

    def delete(self, name: str) -> None:
        del self.parts[name]

    def size(self) -> int:
        return sum(map(len, self.parts.values()))

    def copy(self) -> Shelf:
        made = Shelf()
        made.head, made.parts = self.head, dict(self.parts)
        return made
