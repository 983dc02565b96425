"""A gate driven over rows: `for` runs handlers in threads, `async for` in asyncio.

*Invariant.* Rows are read one at a time, by demand: while fewer than `concurrency` rows are ready and fewer than
`held_limit` wait. So at most `held_limit` rows wait, `concurrency` run, and `concurrency` are ready to run.
"""

from __future__ import annotations

import asyncio
import inspect
from collections import deque
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from queue import SimpleQueue
from threading import Thread, get_ident
from typing import TYPE_CHECKING, Any, NamedTuple

from thence.errors import MisuseError, TraceError
from thence.tables.delivery.gate_entry import GateEntry
from thence.tables.delivery.gate_turn import fetched, rows_here
from thence.tables.delivery.outcome import Kind

if TYPE_CHECKING:
    from thence.core.model.plain import Fields
    from thence.tables.delivery.gate import ErrorChoice, Gate

CHOICES = ("hold", "retry", "skip", "dead-letter")


class Handled(NamedTuple):
    """The outcome of a row.

    `outcome`: `delivered`, `released` or `late` (its handler finished), `failed`, `skipped`, `duplicate`, `quarantined`
    (unusable, on a cycle, or dead-lettered) or `blocked` (the rows ended first). `result`: what the handler returned.
    """

    row: Fields
    outcome: str
    result: Any = None
    error: BaseException | None = None
    reason: str = ""
    attempts: int = 0


class Ended(NamedTuple):
    """A handler came to its end."""

    entry: GateEntry
    result: Any
    error: BaseException | None
    choice: str
    attempts: int
    fatal: BaseException | None = None
    """what ends the map: the handler was interrupted, or `on_error` made a mistake"""


class RowRead(NamedTuple):
    """A row was read, or the rows have ended, or reading failed."""

    row: Fields | None
    error: BaseException | None = None


class CausesAsked(NamedTuple):
    """Causes were asked for; the rows that were fetched."""

    rows: list[Fields]
    error: BaseException | None = None


MapEvent = Ended | RowRead | CausesAsked | GateEntry | None
"""what a map waits for; None: something has changed at the gate"""


class Map:
    """The handled rows of one `Gate.map`, to be iterated once."""

    def __init__(
        self, gate: Gate, rows: Iterable[Fields] | AsyncIterable[Fields], handler: Callable[[Fields], Any]
    ) -> None:
        """Begin when the iteration begins."""
        self.gate, self.rows, self.handler = gate, rows, handler
        self.out: deque[Handled] = deque()
        self.mine: dict[int, GateEntry] = {}  # rows that wait, are ready or run, by the id of their entries
        self.begun: set[int] = set()  # those of them whose handlers run
        self.error: BaseException | None = None
        self.reading = self.ended = self.closing = False
        self.asking: object | None = None
        self.fetched: deque[Fields] = deque()
        self.here = get_ident()
        self.start: Callable[[GateEntry], object]
        self.post: Callable[[MapEvent], object]

    # -- what both drivers do --------------------------------------------------------------------------------------

    def _offer(self, row: Fields) -> None:
        entry = GateEntry(row, self._wake)
        self.mine[id(entry)] = entry
        self.gate.offer(entry)

    def _wake(self, entry: GateEntry) -> None:
        if get_ident() != self.here:  # `known` was answered, or `Gate.skip` called, in another thread
            self.post(entry)
        elif entry.state == "running":
            if self.closing:
                self.gate.withdraw(entry)
                return
            self.begun.add(id(entry))
            self.start(entry)
        elif entry.state == "refused":
            self.mine.pop(id(entry), None)
            if entry.outcome == "":  # `known` or `on_missing` raised
                self.error = entry.error
                return
            self.out.append(Handled(entry.row, entry.outcome, reason=entry.reason))

    def _changed(self) -> None:
        """Look again, because something has changed at the gate."""
        if not self.closing:
            self.post(None)

    def _take(self, event: MapEvent) -> None:
        """Go on with what has happened."""
        if event is None:
            return
        if isinstance(event, Ended):
            self.begun.discard(id(event.entry))
            self._finished(event)
        elif isinstance(event, GateEntry):
            self._wake(event)
        else:
            if event.error is not None:
                raise event.error
            if isinstance(event, CausesAsked):
                self.asking = None
                self.fetched.extend(event.rows)
            else:
                self.reading = False
                self.ended = event.row is None
                if event.row is not None:
                    self._offer(event.row)

    def _finished(self, ended: Ended) -> None:
        entry, gate = ended.entry, self.gate
        self.mine.pop(id(entry), None)
        outcome, reason = entry.outcome, entry.reason
        gate.finish(entry, ended.error)
        if ended.fatal is not None and not self.closing:
            raise ended.fatal
        if ended.error is not None:
            outcome, reason = "failed", ""
        if ended.choice == "skip":
            gate.decide(entry, "skip")
            outcome = "skipped"
        elif ended.choice == "dead-letter":
            gate.decide(entry, "dead-letter")
            outcome, reason = Kind.QUARANTINED.value, f"dead-lettered: {ended.error!r}"
        self.out.append(Handled(entry.row, outcome, ended.result, ended.error, reason, ended.attempts))

    def _next(self) -> str:
        """Return the next step: `read`, `ask`, `wait` for an event, or `end`."""
        gate = self.gate
        if self.error is not None:
            raise self.error
        while self.fetched:
            self._offer(self.fetched.popleft())
        if self.asking is None:
            self.asking = gate.may_ask()
            if self.asking is not None:
                return "ask"
        if not self.ended and not self.reading and gate.room:
            self.reading = True
            return "read"
        if self.begun or self.reading or self.asking is not None or gate.watch(self._changed):
            return "wait"  # the last: handlers of other turns or maps run, and may free rows of this one
        if self.ended:
            self._blocked()
            return "end"
        first = next(iter(gate.waiting()), None)
        why = "" if first is None else f": {first['message']} {first['reason']}"
        raise TraceError(
            f"held_limit={gate.held_limit} is reached and nothing runs{why}; a larger held_limit is accepted"
        )

    def _blocked(self) -> None:
        """Return the rows that still wait at the end of the input, as blocked."""
        reasons = {(tuple(each[name] for name in self.gate.columns.key), each["message"]): each["reason"]
                   for each in self.gate.waiting()}  # fmt: skip
        for entry in list(self.mine.values()):
            reason = str(reasons.get((entry.key, entry.id), ""))
            self.gate.withdraw(entry)
            self.out.append(Handled(entry.row, Kind.BLOCKED.value, reason=reason))
        self.mine.clear()

    def _close(self) -> None:
        """Withdraw the rows that have not run."""
        self.closing = True
        for entry in list(self.mine.values()):
            if id(entry) not in self.begun:
                self.gate.withdraw(entry)

    # -- threads ---------------------------------------------------------------------------------------------------

    def __iter__(self) -> Iterator[Handled]:
        """Run plain functions in `concurrency` threads."""
        if inspect.iscoroutinefunction(self.handler) or not isinstance(self.rows, Iterable):
            raise MisuseError("a coroutine function or async rows need `async for ... in gate.map(...)`")
        events: SimpleQueue[MapEvent] = SimpleQueue()
        wanted: SimpleQueue[bool] = SimpleQueue()
        self.here, self.post = get_ident(), events.put
        Thread(target=_read, args=(iter(self.rows), wanted, events), daemon=True).start()
        pool = ThreadPoolExecutor(self.gate.concurrency + 1)  # one more for `known` and `on_missing`
        self.start = lambda entry: pool.submit(self._work, entry, events)
        try:
            while (step := self._next()) != "end":
                if step == "read":
                    wanted.put(True)
                elif step == "ask":
                    pool.submit(self._ask, events)
                elif not self.out:
                    self._take(events.get())
                while self.out:
                    yield self.out.popleft()
            yield from self.out
        finally:
            wanted.put(False)
            self._close()
            while self.begun:
                event = events.get()
                if isinstance(event, Ended):
                    self._take(event)
            pool.shutdown()

    def _work(self, entry: GateEntry, events: SimpleQueue[Any]) -> None:
        attempts = entry.attempt
        choice: Any
        while True:
            try:
                events.put(Ended(entry, self.handler(entry.row), None, "", attempts))
                return
            except BaseException as error:
                choice = self._choose(entry, error, attempts)
                if inspect.isawaitable(choice):
                    choice = MisuseError("on_error is a coroutine function; threads need a plain one")
                if choice != "retry":
                    events.put(_failure(entry, error, choice, attempts))
                    return
                attempts += 1

    def _choose(
        self, entry: GateEntry, error: BaseException, attempts: int
    ) -> ErrorChoice | Awaitable[ErrorChoice] | BaseException:
        on_error = self.gate.on_error
        if not isinstance(error, Exception):
            return "hold"
        if not callable(on_error):
            return on_error
        try:
            return on_error(entry.row, error, attempts)
        except Exception as raised:
            return raised

    def _ask(self, events: SimpleQueue[Any]) -> None:
        rows: list[Fields] = []
        try:
            while ids := self.gate.misses():
                rows += rows_here(self.gate, ids)
            events.put(CausesAsked(rows))
        except BaseException as error:
            self._unanswered(ids, error)
            events.put(CausesAsked([], error))

    def _unanswered(self, ids: list[str], error: BaseException) -> None:
        while ids:
            self.gate.unanswered(ids, error)
            ids = self.gate.misses()

    # -- asyncio ---------------------------------------------------------------------------------------------------

    async def __aiter__(self) -> AsyncIterator[Handled]:
        """Run coroutine functions, `concurrency` at a time."""
        if not inspect.iscoroutinefunction(self.handler):
            raise MisuseError(
                "`async for` needs a coroutine function; a plain one goes with `for ... in gate.map(...)`"
            )
        loop = asyncio.get_running_loop()
        events: asyncio.Queue[MapEvent] = asyncio.Queue()
        tasks: set[asyncio.Task[None]] = set()

        def spawn(work: Any) -> asyncio.Task[None]:
            task = loop.create_task(work)
            tasks.add(task)
            task.add_done_callback(tasks.discard)
            return task

        def start(entry: GateEntry) -> None:
            task = spawn(self._work_async(entry, report))
            task.add_done_callback(lambda task: self._cancelled(entry) if task.cancelled() else None)

        def report(ended: Ended) -> None:
            if self.closing:
                self._take(ended)
            else:
                events.put_nowait(ended)

        def ask() -> None:
            mark = self.asking
            spawn(self._ask_async(events)).add_done_callback(lambda task: self.gate.stop_asking(mark))

        self.here = get_ident()
        self.post = lambda event: loop.call_soon_threadsafe(events.put_nowait, event)
        self.start = start
        rows = self.rows.__aiter__() if isinstance(self.rows, AsyncIterable) else iter(self.rows)
        try:
            while (step := self._next()) != "end":
                if step == "read":
                    if isinstance(rows, Iterator):
                        self._take(RowRead(next(rows, None)))
                    else:
                        spawn(_read_async(rows, events))
                elif step == "ask":
                    ask()
                elif not self.out:
                    self._take(await events.get())
                while self.out:
                    yield self.out.popleft()
            for each in self.out:
                yield each
        finally:
            self._close()
            await self._settle(events, tasks)

    async def _settle(self, events: asyncio.Queue[Any], tasks: set[asyncio.Task[None]]) -> None:
        """Take the ends that were reported, then cancel all tasks and wait for them."""
        while not events.empty():
            event = events.get_nowait()
            if isinstance(event, Ended):
                self._take(event)
        for task in tasks:  # each reports its own end, also where the generator is cancelled once more
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _cancelled(self, entry: GateEntry) -> None:
        """Take back a row whose task was cancelled before its first step: its handler has not begun."""
        self.begun.discard(id(entry))
        self.mine.pop(id(entry), None)
        self.gate.withdraw(entry)

    async def _work_async(self, entry: GateEntry, report: Callable[[Ended], object]) -> None:
        attempts, ended = entry.attempt, None
        choice: Any
        try:
            while ended is None:
                try:
                    ended = Ended(entry, await self.handler(entry.row), None, "", attempts)
                except Exception as raised:
                    choice = self._choose(entry, raised, attempts)
                    if inspect.isawaitable(choice):
                        choice = await choice
                    if choice != "retry":
                        ended = _failure(entry, raised, choice, attempts)
                    attempts += 1
        except BaseException as raised:
            ended = _failure(entry, raised, "hold", attempts)
        report(ended)

    async def _ask_async(self, events: asyncio.Queue[Any]) -> None:
        rows: list[Fields] = []
        try:
            while ids := self.gate.misses():
                rows += await fetched(self.gate, ids)
            events.put_nowait(CausesAsked(rows))
        except BaseException as error:
            if not self.closing:  # else the question stays open for other callers, whose rows wait too
                self._unanswered(ids, error)
            events.put_nowait(CausesAsked([], error))


def _failure(entry: GateEntry, error: BaseException, choice: Any, attempts: int) -> Ended:
    """Return the outcome of a failed handler; an invalid choice of `on_error` ends the map with an error."""
    if not isinstance(choice, BaseException) and choice not in CHOICES:
        choice = MisuseError(f"on_error returned {choice!r}; hold, retry, skip or dead-letter is accepted")
    if isinstance(choice, BaseException):
        return Ended(entry, None, error, "", attempts, choice)
    ends = not isinstance(error, Exception | asyncio.CancelledError)
    return Ended(entry, None, error, choice, attempts, error if ends else None)


def _read(rows: Iterator[Fields], wanted: SimpleQueue[bool], events: SimpleQueue[Any]) -> None:
    while wanted.get():
        try:
            events.put(RowRead(next(rows, None)))
        except BaseException as error:
            events.put(RowRead(None, error))
            return


async def _read_async(rows: AsyncIterator[Fields], events: asyncio.Queue[Any]) -> None:
    try:
        events.put_nowait(RowRead(await anext(rows, None)))
    except BaseException as error:
        events.put_nowait(RowRead(None, error))
