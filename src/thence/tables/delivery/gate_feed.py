"""A gate driven by its owner, which offers rows and polls for their outcomes; used by the Kafka consumer.

*Invariant.* A handler's end is reported to the gate in the thread where the handler ran, so that its effects begin
without waiting for the owner. The owner learns of it from `settled`.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from threading import Thread
from typing import TYPE_CHECKING, Any

from thence.tables.delivery.gate_entry import GateEntry
from thence.tables.delivery.gate_map import CausesAsked, Ended, Handled, Map

if TYPE_CHECKING:
    from thence.core.model.plain import Fields
    from thence.tables.delivery.gate import Gate

FINISHED = ("delivered", "released", "late")
DEAD = "dead-lettered"


class Feed(Map):
    """Runs a handler, plain or coroutine function, for the rows that are offered."""

    def __init__(self, gate: Gate, handler: Callable[[Fields], Any]) -> None:
        """Start threads, or an event loop in a thread of its own."""
        super().__init__(gate, (), handler)
        self._rows: dict[int, GateEntry] = {}  # entries by the id of their rows, until their fate is known
        self._ending: set[int] = set()
        self._loop = asyncio.new_event_loop() if inspect.iscoroutinefunction(handler) else None
        self._tasks: set[Future[None]] = set()
        if self._loop is None:
            self._pool = ThreadPoolExecutor(gate.concurrency + 1)  # one more for `known` and `on_missing`
            self.start = lambda entry: self._pool.submit(self._work, entry, self)  # type: ignore[arg-type]
        else:
            Thread(target=self._loop.run_forever, daemon=True).start()
            self.start = lambda entry: self._spawn(self._work_async(entry, self.put))

    @property
    def idle(self) -> bool:
        """Whether no handler and no call of `known` runs, and the owner has the outcome of every row that left."""
        return not self.begun and self.asking is None and not self.out

    def offer(self, row: Fields) -> None:
        """Take a row; `settled` returns its fate."""
        entry = GateEntry(row, self._wake)
        self._rows[id(row)] = entry
        self.gate.offer(entry)

    def settled(self) -> list[tuple[Handled, GateEntry]]:
        """Return the outcomes of rows since the last call; raise the exception of an interrupted handler."""
        while self.fetched:
            self.offer(self.fetched.popleft())
        if self.asking is None and (mark := self.gate.may_ask()) is not None:
            self.asking = mark
            if self._loop is None:
                self._pool.submit(self._ask, self)  # type: ignore[arg-type]
            else:
                self._spawn(self._ask_async(self))  # type: ignore[arg-type]
        if self.error is not None:
            raise self.error
        found = []
        while self.out:
            each = self.out.popleft()
            entry = self._rows[id(each.row)]
            if each.outcome != "failed":
                del self._rows[id(each.row)]
            found.append((each, entry))
        return found

    def close(self) -> None:
        """Start no more handlers, and wait for those that run."""
        self.closing = True
        if self._loop is None:
            self._pool.shutdown(cancel_futures=True)
            return
        wait(list(self._tasks))
        self._loop.call_soon_threadsafe(self._loop.stop)

    # -- what the handlers' threads call -----------------------------------------------------------------------------

    def put(self, event: Ended | CausesAsked) -> None:
        """Take what `Map` sends to its own thread."""
        if isinstance(event, CausesAsked):
            self.fetched.extend(event.rows)
            self.asking, self.error = None, self.error or event.error
            return
        self._ending.add(id(event.entry))
        try:
            self._finished(event)
        except BaseException as error:  # the owner's thread raises it
            self.error = error
        finally:
            self._ending.discard(id(event.entry))
            self.begun.discard(id(event.entry))

    put_nowait = put

    def _wake(self, entry: GateEntry) -> None:
        if entry.state == "running":
            if not self.closing:
                self.begun.add(id(entry))
                self.start(entry)
        elif entry.state == "settled" and id(entry) not in self._ending:  # skipped or dead-lettered by hand
            self.out.append(Handled(entry.row, entry.outcome, reason=DEAD if entry.outcome == "quarantined" else ""))
        elif entry.state == "refused":
            if entry.outcome == "":  # `known` or `on_missing` raised
                self.error = entry.error
                return
            self.out.append(Handled(entry.row, entry.outcome, reason=entry.reason))

    def _spawn(self, work: Any) -> None:
        assert self._loop is not None
        task = asyncio.run_coroutine_threadsafe(work, self._loop)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
