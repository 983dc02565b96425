"""Payloads of held messages, in memory up to a bound; those beyond it are read back from the journal."""

from __future__ import annotations

from thence.live.group import InputResult

MEMORY_BYTES = 1 << 24


class Payloads:
    """Payloads by the input that brought them; the oldest leaves when there are too many bytes."""

    def __init__(self) -> None:
        self._bodies: dict[int, bytes] = {}
        self._bytes = 0

    def put(self, number: int, body: bytes) -> None:
        """Keep the payload of an input."""
        if number in self._bodies or len(body) > MEMORY_BYTES:
            return
        self._bodies[number] = body
        self._bytes += len(body)
        while self._bytes > MEMORY_BYTES:
            self.pop(next(iter(self._bodies)))

    def get(self, number: int) -> bytes | None:
        """Return the payload of an input, if it is here."""
        return self._bodies.get(number)

    def pop(self, number: int) -> bytes | None:
        """Return the payload of an input, if it is here, and forget it."""
        body = self._bodies.pop(number, None)
        if body is not None:
            self._bytes -= len(body)
        return body

    def of(self, step: InputResult, *, keep: bool) -> tuple[dict[int, bytes], bytes | None]:
        """Return the payloads that are here of what an input delivers, and its own payload if it delivers others only.

        They stay if `keep` says so: where messages are handed on, others may still ask for them.
        """
        bodies: dict[int, bytes] = {}
        body = step.body
        for delivery in step.delivered:
            if delivery.ref == step.number and body is not None:
                bodies[delivery.ref], body = body, None
                continue
            kept = self.get(delivery.ref) if keep else self.pop(delivery.ref)
            if kept is not None:
                bodies[delivery.ref] = kept
        return bodies, body
