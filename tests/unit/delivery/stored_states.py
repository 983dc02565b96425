"""A shelf for the parts of one key, which counts what is written."""

from __future__ import annotations


class Shelf:
    """The blob and the parts of one key, in memory."""

    def __init__(self) -> None:
        self.blob: bytes | None = None
        self.parts: dict[str, bytes] = {}
        self.most = 0
        self._written = 0

    def get(self, name: str) -> bytes | None:
        return self.parts.get(name)

    def put(self, name: str, data: bytes) -> None:
        self.parts[name] = data
        self.most = max(self.most, len(self.parts))
        self._written += len(data)

    def delete(self, name: str) -> None:
        del self.parts[name]

    def taken(self) -> int:
        """Return the bytes written since this was last asked."""
        written, self._written = self._written, 0
        return written

    def size(self) -> int:
        return len(self.blob or b"") + sum(map(len, self.parts.values()))
