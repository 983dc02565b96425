"""One row's turn at a gate, for asyncio and for threads, and how a gate asks for causes that have not arrived."""

from __future__ import annotations

import asyncio
import inspect
from threading import Event, get_ident
from types import TracebackType
from typing import TYPE_CHECKING

from thence.errors import MisuseError
from thence.tables.delivery.gate_entry import GateEntry

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Iterable
    from typing import Any

    from thence.core.model.plain import Fields
    from thence.tables.delivery.gate import Gate, Ids

BRING = "on_missing returned rows, which a turn cannot handle; bring each through a turn of its own, and return None"
_tasks: set[asyncio.Task[None]] = set()
"""the loops that ask: asyncio itself keeps only weak references"""


class Turn:
    """A context manager around the handler of one row."""

    __slots__ = ("_entry", "_gate", "_limited", "_row")

    def __init__(self, gate: Gate, row: Fields, *, limited: bool = True) -> None:
        """Store the row, which is offered to the gate when the turn is entered.

        `limited`: whether a row that would be one more than `held_limit` is refused; a driver that stops reading
        at the limit takes the rows that it has read.
        """
        self._gate, self._row, self._limited = gate, row, limited
        self._entry: GateEntry

    @property
    def entry(self) -> GateEntry:
        """The row on its way through the gate, once the turn is entered; for drivers."""
        return self._entry

    @property
    def outcome(self) -> str:
        """How the row got its turn: `delivered`, `released` or `late`."""
        return self._entry.outcome

    @property
    def missing(self) -> list[str]:
        """The causes that a released row goes without."""
        return [] if self._entry.made is None else list(self._entry.made.missing)

    @property
    def reason(self) -> str:
        """Why the row is released or late; else empty."""
        return self._entry.reason

    @property
    def attempt(self) -> int:
        """The number of this attempt: 1 unless the row failed before."""
        return self._entry.attempt

    # -- asyncio ---------------------------------------------------------------------------------------------------

    async def __aenter__(self) -> Turn:
        """Wait until all causes are done and a handler may run."""
        loop, thread = asyncio.get_running_loop(), get_ident()
        future = loop.create_future()

        def wake(entry: GateEntry) -> None:
            if get_ident() == thread:
                _set(future)
            else:
                loop.call_soon_threadsafe(_set, future)

        gate, entry = self._gate, GateEntry(self._row, wake)
        self._entry = entry
        gate.offer(entry, limited=self._limited)

        def ask_now() -> None:
            if gate.asks and (mark := gate.may_ask(ask_later)) is not None:
                task = loop.create_task(ask_in_loop(gate))
                _tasks.add(task)
                task.add_done_callback(_tasks.discard)
                task.add_done_callback(lambda task: gate.stop_asking(mark))  # it may be cancelled before its first step

        def ask_later() -> None:
            if not future.done():  # else the loop may be closed
                loop.call_soon_threadsafe(ask_now)

        ask_now()
        if not future.done():
            try:
                await future
            except BaseException:
                gate.withdraw(entry)
                raise
        if entry.error is not None:
            raise entry.error
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        """Finish the row, or let it fail."""
        self._gate.finish(self._entry, error)

    # -- threads ---------------------------------------------------------------------------------------------------

    def __enter__(self) -> Turn:
        """Wait until all causes are done and a handler may run."""
        event = Event()
        gate, entry = self._gate, GateEntry(self._row, lambda entry: event.set())
        self._entry = entry
        gate.offer(entry, limited=self._limited)
        try:
            while True:
                if gate.asks and (mark := gate.may_ask(event.set)) is not None:
                    try:
                        ask(gate)
                    finally:
                        gate.stop_asking(mark)
                event.wait()
                event.clear()
                if entry.state not in ("held", "ready"):
                    break
        except BaseException:
            gate.withdraw(entry)
            raise
        if entry.error is not None:
            raise entry.error
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        """Finish the row, or let it fail."""
        self._gate.finish(self._entry, error)


def _set(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


async def ask_in_loop(gate: Gate) -> None:
    """Call `known` in the event loop until no id is left to ask for."""
    await asyncio.sleep(0)  # let the other turns of this moment add their ids, for one call
    await _ask(gate, fetched)


def ask(gate: Gate) -> None:
    """Call `known` in this thread until no id is left to ask for."""

    async def fetch(gate: Gate, ids: Ids) -> list[Fields]:
        return rows_here(gate, ids)

    _run_here(_ask(gate, fetch))


async def _ask(gate: Gate, fetch: Callable[[Gate, Ids], Awaitable[list[Fields]]]) -> None:
    while ids := gate.misses():
        try:
            if await fetch(gate, ids):
                raise MisuseError(BRING)
        except BaseException as error:
            gate.unanswered(ids, error)
            if not isinstance(error, Exception):
                while rest := gate.misses():
                    gate.unanswered(rest, error)
                raise


async def fetched(gate: Gate, ids: Ids) -> list[Fields]:
    """Call `known`, and `on_missing` for the ids that are not known; return the rows that it fetched."""
    there: Iterable[str] = ()
    if gate.known is not None:
        found = gate.known(ids)
        there = await found if inspect.isawaitable(found) else found
    missing = gate.answer(ids, there)
    if not missing or gate.on_missing is None:
        return []
    rows = gate.on_missing(missing)
    return list((await rows if inspect.isawaitable(rows) else rows) or ())


def rows_here(gate: Gate, ids: Ids) -> list[Fields]:
    """Return what `fetched` gives, in this thread."""
    rows: list[Fields] = _run_here(fetched(gate, ids))
    return rows


def _run_here(coroutine: Coroutine[Any, Any, Any]) -> Any:
    """Run a coroutine that does not wait, without an event loop."""
    try:
        coroutine.send(None)
    except StopIteration as done:
        return done.value
    coroutine.close()
    raise MisuseError("known= or on_missing= is a coroutine function; threads need a plain one")
