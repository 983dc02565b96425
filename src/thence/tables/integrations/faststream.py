"""FastStream handlers of Kafka records in causal order, as parallel as causality allows: a middleware over a `Gate`.

    causal = CausalMiddleware(thence.Gate(concurrency=32, known=ids_in_table))

    @causal.subscriber(broker, "orders", "payments", group_id="shop")
    async def handle(body): ...           # begins when the handlers of all causes have finished

The middleware holds each record at the gate until its causes are done; its turn ends when FastStream has published
the handler's reply. `faststream_reader.py` keeps reading meanwhile and commits offsets.

*Why a subscriber of its own.* FastStream awaits a handler before it reads the next record, so a record that waits
would keep its cause from being read; its `max_workers` commits what was read, not what is done. Both are replaced.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Awaitable, Callable, Iterable
from types import TracebackType
from typing import Any

from faststream import AckPolicy, BaseMiddleware
from faststream.exceptions import AckMessage
from faststream.message import AckStatus

from thence.core.model.plain import Field, Fields, Row
from thence.errors import MisuseError
from thence.tables.delivery.gate import Gate
from thence.tables.delivery.gate_turn import Turn
from thence.tables.integrations.faststream_reader import Handling, Reader, current, place_of
from thence.tables.sources.headers import CAUSES, MESSAGE, read_headers

RowOf = Callable[[Any], Fields | Awaitable[Fields]]
"""the row of a message: its id, its causes, and the columns of the gate's key"""


def causal_headers(message: str, causes: Iterable[str] = ()) -> dict[str, str]:
    """Return the headers by which a record says its id and its causes, for `broker.publish(..., headers=)`."""
    return {MESSAGE: message, CAUSES: json.dumps(list(causes))}


class CausalMiddleware:
    """Lets the handlers of FastStream subscribers run in causal order."""

    def __init__(
        self, gate: Gate, *, row: RowOf | None = None, commit_seconds: float = 1.0, ask_seconds: float = 1.0
    ) -> None:
        """Configure what orders records.

        Args:
            gate: how many handlers run at once (`concurrency`), where reading pauses (`held_limit`), what becomes of a
                failed handler (`on_error`), and `known(ids)`: the ids whose handlers have finished. It is required:
                a gate keeps nothing on disk.
            row: returns the row of a FastStream message, or awaits it. Without it the headers of
                `thence.sources.kafka.CausalProducer` are read, which `causal_headers` makes too.
            commit_seconds: how often offsets are committed.
            ask_seconds: how often `known` is asked again for causes that another process may have finished.
        """
        if not isinstance(gate, Gate):
            raise MisuseError(f"a thence.Gate is accepted; found a {type(gate).__name__}")
        if gate.by != "depends_on":
            raise MisuseError(
                f"FastStream needs Gate(by='depends_on'); by={gate.by!r} needs a count that is kept on disk"
            )
        if gate.known is None:
            raise MisuseError(
                "FastStream needs Gate(known=...): after a restart only the target can say which causes are done, and "
                "their effects would wait without end"
            )
        if gate.on_missing is not None:
            raise MisuseError("records come from the topics; leave out Gate(on_missing=)")
        for name, value in (("commit_seconds", commit_seconds), ("ask_seconds", ask_seconds)):
            if not value > 0:
                raise MisuseError(f"{name} is {value!r}; a number above 0 is accepted")
        self.gate, self.commit_seconds, self.ask_seconds = gate, commit_seconds, ask_seconds
        self.row = row or row_of_headers
        self.readers: dict[int, Reader] = {}

    def subscriber(self, broker: Any, *topics: Any, **options: Any) -> Any:
        """Subscribe to topics; use it as `broker.subscriber`, with its options except those that concern order.

        Records are read from the earliest offset and only once they are committed, unless `auto_offset_reset` and
        `isolation_level` say otherwise.
        """
        _check(broker, options)
        options = {"auto_offset_reset": "earliest", "isolation_level": "read_committed", **options}
        made = broker.subscriber(*topics, **options, ack_policy=AckPolicy.MANUAL)
        if self not in broker.config.broker_middlewares:
            broker.insert_middleware(self)  # outermost: an exception that another middleware handles is not a failure
        self.readers[id(made)] = Reader(self, broker, made)
        return made

    def retry(self, id: str, key: Iterable[Field] | None = None) -> None:
        """Handle a record that failed again."""
        for reader, handling in self._failed(id, key, "retried"):
            reader.start(handling)

    def skip(self, id: str, key: Iterable[Field] | None = None) -> None:
        """Go on without a record that failed or has not arrived: its effects are `released`."""
        self.gate.skip(id, key)
        self._settle(id, key)

    def dead_letter(self, id: str, key: Iterable[Field] | None = None) -> None:
        """Set aside a failed record with everything that is behind it, now or later."""
        self.gate.dead_letter(id, key)
        self._settle(id, key)

    def _settle(self, id: str, key: Iterable[Field] | None) -> None:
        for reader in self.readers.values():
            for handling in reader.failed(id, key):
                reader.settle(handling)

    def _failed(self, id: str, key: Iterable[Field] | None, what: str) -> list[tuple[Reader, Handling]]:
        found = [(reader, each) for reader in self.readers.values() for each in reader.failed(id, key)]
        if not found:
            raise MisuseError(f"{id} has not failed; a failed record can be {what}")
        return found

    def __call__(self, msg: Any, /, *, context: Any) -> BaseMiddleware[Any, Any]:
        """Make the middleware of one message: FastStream calls it."""
        return CausalScope(msg, context=context, causal=self)


class CausalScope(BaseMiddleware[Any, Any]):
    """One message's turn: from its causes' ends to the publication of its reply."""

    def __init__(self, msg: Any, /, *, context: Any, causal: CausalMiddleware) -> None:
        """Store the message's context; the turn is taken when the message is consumed."""
        super().__init__(msg, context=context)
        self._causal, self._entered = causal, False
        self._mine = id(context.get_local("handler_")) in causal.readers
        self._turn: Turn | None = None

    async def consume_scope(self, call_next: Callable[[Any], Awaitable[Any]], msg: Any) -> Any:
        """Wait for the causes, then call the handler."""
        if not self._mine:
            return await call_next(msg)
        row = self._causal.row(msg)
        row = await row if inspect.isawaitable(row) else row
        msg.committed = AckStatus.ACKED  # a manual ack would commit everything that was read
        turn = self._turn = Turn(self._causal.gate, row, limited=False)
        handling = current.get()
        if handling is not None:
            handling.offered(turn, row)  # the row is at the gate before this task waits
        await turn.__aenter__()
        self._entered = True
        return await call_next(msg)

    async def __aexit__(
        self,
        kind: type[BaseException] | None = None,
        error: BaseException | None = None,
        where: TracebackType | None = None,
    ) -> bool | None:
        """End the turn, and report to the reader."""
        failure = None if isinstance(error, AckMessage) else error
        if self._entered and self._turn is not None:
            await self._turn.__aexit__(None if failure is None else kind, failure, where)
        handling = current.get()
        if self._mine and handling is not None:
            handling.ended(failure, self._entered)
        return False


def row_of_headers(message: Any) -> Row:
    """Return the row of a message whose headers name its id and causes, with where it lies, key and value."""
    raw = message.raw_message
    topic, partition, offset = place_of(raw)
    headers, key, value = (each() if callable(each) else each for each in (raw.headers, raw.key, raw.value))
    found = [(name, text.encode() if isinstance(text, str) else text) for name, text in headers or ()]
    row: Row = read_headers(found, (topic, partition, offset), "")
    return row | {"topic": topic, "partition": partition, "offset": offset, "key": key, "value": value}


def _check(broker: Any, options: dict[str, Any]) -> None:
    """Refuse what would lose records, or wait without end."""
    family = type(broker).__module__
    if not family.startswith(("faststream.confluent.", "faststream.kafka.")):
        raise MisuseError(f"a KafkaBroker of faststream.confluent or faststream.kafka is accepted; found {family}")
    if (options.get("max_workers") or 1) != 1:
        raise MisuseError("max_workers= commits what was read, not what is done; say Gate(concurrency=...)")
    if options.get("batch"):
        raise MisuseError(
            "batch=True gives a handler several records, whose causes may be in the same batch; leave it out"
        )
    if "ack_policy" in options:
        raise MisuseError("leave out ack_policy=: a record is acknowledged when its handler has finished")
    if not options.get("group_id"):
        raise MisuseError("group_id= is needed: the group's offsets say what is done")
