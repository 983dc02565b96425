"""Handlers in causal order, as parallel as causality allows: a cause is met when its handler has *finished*.

    gate = thence.Gate(by="depends_on", key=["account"], concurrency=32, known=ids_in_table)
    async with gate.turn(row):        # returns when all causes are done
        await handle(row)             # after an exception its effects stay held; gate.waiting() lists them

`docs/reference/gate.md` says exactly what is promised. The rule is `delivery_rule_cy.Rule`, the one of the Orderer;
here it is given completions (`completion_cy.py`).

*Invariant.* All state changes happen under one lock and never call out while it is held: what must be called or woken
is collected and done afterwards. A row is in exactly one of: held by its rule, `ready`, running, failed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterable, Awaitable, Callable, Iterable, Mapping
from threading import Lock
from typing import TYPE_CHECKING, Any, Literal

from thence.core.model.plain import Field, Fields
from thence.errors import MisuseError
from thence.tables.contract.columns import By
from thence.tables.delivery.columns import Columns, Key, named_once
from thence.tables.delivery.delivery_rule_cy import Rule
from thence.tables.delivery.delivery_terms import ASK_AT_ONCE, known_texts
from thence.tables.delivery.gate_entry import GateEntry, TurnRefused
from thence.tables.delivery.outcome import KINDS, PLACED, Kind
from thence.tables.delivery.outcome_cy import Outcome
from thence.tables.delivery.policy import Policy
from thence.tables.delivery.reading import Reading, Rosters, rosters_of
from thence.tables.delivery.room_cy import Room

if TYPE_CHECKING:
    from thence.tables.delivery.gate_map import Map
    from thence.tables.delivery.gate_turn import Turn

Ids = list[str]
KnownIds = Callable[[Ids], Iterable[str] | Awaitable[Iterable[str]]]
"""which of these ids are in the target"""
Fetch = Callable[[Ids], Iterable[Fields] | Awaitable[Iterable[Fields] | None] | None]
"""what may fetch causes that have not arrived"""
ErrorChoice = Literal["hold", "retry", "skip", "dead-letter"]
OnError = ErrorChoice | Callable[[Fields, Exception, int], ErrorChoice | Awaitable[ErrorChoice]]
Fate = Literal["done", "skipped", "dead"]
"""what a run decided of a row"""
Identity = tuple[str | None, Any, int]
"""a row's causal order, source and number"""
SKIPPED = "it was skipped"


class Gate:
    """Runs handlers of rows so that each begins when all its causes are done."""

    def __init__(
        self,
        by: By = "depends_on",
        *,
        id: str | None = None,
        causes: str | None = None,
        roster: Rosters = None,
        key: str | Iterable[str] | None = None,
        columns: Mapping[str, str] | None = None,
        separator: str | None = None,
        concurrency: int = 1,
        held_limit: int | None = None,
        remember: int | None = None,
        known: KnownIds | None = None,
        on_missing: Fetch | None = None,
        on_error: OnError = "hold",
    ) -> None:
        """Configure how rows name their causes, and how many handlers run at once.

        Args:
            by: `depends_on` (explicit causes), `clock` or `stamp`, as for `thence.Orderer`.
            id: the column of the row's id, short for `columns={"message": ...}`.
            causes: the column of the causes, short for `columns={"depends_on": ...}`.
            roster: the processes in order of position, for stamps.
            key: the columns whose values separate independent orders; none: all rows are one order.
            columns: your name for a column of the contract, as in `{"message": "event_id"}`.
            separator: the separator of the ids in a text of several causes.
            concurrency: how many handlers run at once.
            held_limit: how many rows may wait for causes; `map` stops reading there, `turn` refuses the next.
            remember: how many finished ids are kept as they are; of older ones a fingerprint is kept.
            known: `known(ids)` returns those of the ids that are in the target already. It is asked for causes of which
                nothing has arrived, in batches, once per id and key.
            on_missing: `on_missing(ids)` is called for causes that have not arrived and are not known, once per id and
                key. `map` takes the rows that it returns as if they had come next.
            on_error: what `map` does about a handler that raised: `hold`, `skip` or `dead-letter`, or a function of
                (row, error, attempt) that returns one of them or `retry`.
        """
        _check(by, known is not None or on_missing is not None, concurrency, held_limit, on_error)
        given = named_once(columns or {}, {"message": id, by: causes})
        names = Columns(by, given, key)
        self.columns = names.with_key(()) if key is None and by == "depends_on" else names
        self.by, self.separator, self.rosters = by, separator, rosters_of(by, roster)
        self.policy = Policy(remember=remember).of(by)
        self.concurrency, self.held_limit = concurrency, held_limit
        self.known, self.on_missing, self.on_error = known, on_missing, on_error
        self._lock = Lock()
        self._keys: dict[Key, Rule] = {}
        self._room = Room()
        self._entries: dict[tuple[Key, int], GateEntry] = {}  # held and started rows by key and ticket
        self._failed: dict[tuple[Key, object], GateEntry] = {}
        self._ready: deque[GateEntry] = deque()
        self._woken: deque[GateEntry] = deque()
        self.running = self.held = self._arrived = 0
        self._missed: dict[str, set[Key]] = {}  # ids for the next call of `known`, in the order of arrival
        self._asked: set[tuple[Key, str]] = set()
        self._asking: object | None = None  # the mark of the caller that asks
        self._watching: set[Callable[[], object]] = set()
        """functions to call when something has changed"""
        self._standing_by: set[Callable[[], object]] = set()
        """functions to call when the caller that asks stops"""

    def turn(self, row: Fields) -> Turn:
        """Return a context manager that is entered when all causes of the row are done and a handler may run.

        `async with` in asyncio, `with` in threads. Leaving it without an exception finishes the row; an exception makes
        it fail, and is passed on. Entering raises `TurnRefused` for a row that gets no turn.

        Args:
            row: the row to be handled, a mapping with the columns that the gate was made for.
        """
        from thence.tables.delivery.gate_turn import Turn

        return Turn(self, row)

    def map(self, rows: Iterable[Fields] | AsyncIterable[Fields], handler: Callable[[Fields], Any]) -> Map:
        """Run the handler for every row; iterate over the result with `for` (threads) or `async for` (asyncio).

        Each row comes out once, as a `Handled`, when it is finished or will not be.

        Args:
            rows: mappings with the columns that the gate was made for, read as far as `concurrency` and `held_limit`
                allow.
            handler: a function, run in threads, or a coroutine function; it takes a row.
        """
        from thence.tables.delivery.gate_map import Map

        return Map(self, rows, handler)

    # -- what the caller decides -----------------------------------------------------------------------------------

    def skip(self, id: str, key: Iterable[Field] | None = None) -> None:
        """Go on without a cause that failed or has not arrived: rows that wait for it alone are `released`.

        Args:
            id: the id of the cause.
            key: the values of the key columns; every key if not given.
        """
        with self._lock:
            keys = self._rules(key)
            for entry in self._entries.values():
                if entry.id == id and entry.state != "failed" and entry.key in keys:
                    state = "waits for its own causes" if entry.state == "held" else "is being handled"
                    raise MisuseError(f"{id} {state}; a cause that failed or has not arrived can be skipped")
            for entry in self._named(id, key):
                self._decide(entry, "skip")
            self._take_together({each: self._keys[each].give_up(id, SKIPPED) for each in keys})
            self._fill()
        self._call()

    def dead_letter(self, id: str, key: Iterable[Field] | None = None) -> None:
        """Set aside a failed row and every row that depends on it, now or later.

        Args:
            id: the id of the failed row.
            key: the values of the key columns; every key if not given.
        """
        with self._lock:
            found = self._named(id, key)
            if not found:
                raise MisuseError(
                    f"{id!r} is not a failed row, and only failed rows can be dead-lettered; {self._failures()}"
                )
            for entry in found:
                self._decide(entry, "dead-letter")
            self._fill()
        self._call()

    def waiting(self) -> list[dict[str, Field]]:
        """Explain every row that waits for a cause: key, message, missing causes, root blocker and reason."""
        with self._lock:
            out: list[dict[str, Field]] = []
            failed = {entry.id: entry for entry in self._failed.values()}
            for key, rule in self._keys.items():
                for each in rule.pending():
                    entry = self._entries[key, each.ticket]
                    row: dict[str, Field] = dict(zip(self.columns.key, key, strict=True))
                    row |= {"message": entry.id, "missing": list(each.missing), "blocker": each.blocker}
                    root = failed.get(each.blocker)
                    why = "" if root is None or root.error is None else f": it failed with {root.error!r}"
                    out.append(row | {"reason": each.reason + why})
            return out

    def failed(self) -> list[Fields]:
        """Return the rows whose handlers failed, which hold their effects back."""
        with self._lock:
            return [entry.row for entry in self._failed.values()]

    # -- rows, for the drivers (turn, map, Kafka) ------------------------------------------------------------------

    def offer(self, entry: GateEntry, *, limited: bool = False) -> None:
        """Take a row. Its `wake` is called when it may run, or when it gets no turn.

        Args:
            entry: the row, with its id and causes read.
            limited: refuse the row if more than `held_limit` rows would wait.
        """
        with self._lock:
            self._offer(entry)
            if limited and entry.state == "held" and self.held_limit is not None and self.held > self.held_limit:
                self._take_back(entry)
                self._refuse(entry, Kind.BLOCKED.value, f"{self.held} rows wait already: held_limit is reached")
            self._fill()
        self._call()

    def finish(self, entry: GateEntry, error: BaseException | None = None) -> None:
        """Record that a running row is done, or that it failed; start what waited for it.

        Args:
            entry: the row.
            error: what its handler raised; None if it is done.
        """
        with self._lock:
            self.running -= 1
            if error is None:
                self._asked.discard((entry.key, entry.id))
                self._settle(entry, entry.outcome, entry.rule.done(entry.ticket), wake=False)
            else:
                entry.error, entry.state = error, "failed"
                self._failed[entry.key, entry.identity] = entry
            self._fill()
        self._call()

    def decide(self, entry: GateEntry, choice: ErrorChoice) -> None:
        """Skip or dead-letter a row that has just failed, unless it was brought again.

        Args:
            entry: the row.
            choice: `skip` or `dead-letter`.
        """
        with self._lock:
            if self._failed.get((entry.key, entry.identity)) is entry:
                self._decide(entry, choice)
            self._fill()
        self._call()

    def recall(self, key: Key, identity: Identity, fate: Fate) -> None:
        """Take over what an earlier run decided of a row; nothing runs.

        Args:
            key: the values of its key columns.
            identity: its causal order, source and number.
            fate: what became of it.
        """
        with self._lock:
            rule = self._rule(key)
            made = rule.push((*identity, [], None, None), None)
            if KINDS[made[0].kind] not in PLACED:  # it was recalled before
                return
            ticket = made[0].ticket
            if fate == "done":
                rule.done(ticket)
            elif fate == "skipped":
                rule.skip(ticket, SKIPPED)
            else:
                rule.dead_letter(ticket, "dead-lettered before")

    def watch(self, changed: Callable[[], object]) -> bool:
        """Call a function once, at the next change; return False if no change may come: nothing runs or is asked.

        Args:
            changed: what is called, in any thread.
        """
        with self._lock:
            coming = self.running > 0 or self._asking is not None
            if coming:
                self._watching.add(changed)
            return coming

    def withdraw(self, entry: GateEntry) -> None:
        """Take back a row that has not run, as if it had never come.

        Args:
            entry: the row.
        """
        with self._lock:
            self._take_back(entry)
            self._fill()
        self._call()

    def may_ask(self, otherwise: Callable[[], object] | None = None) -> object | None:
        """Return a mark if the caller must ask for ids now: one caller at a time, until `misses` returns nothing.

        Args:
            otherwise: what is called, in any thread, if another caller is asking and stops before that.
        """
        with self._lock:
            if self._asking is not None or not self._missed:
                if self._asking is not None and otherwise is not None:
                    self._standing_by.add(otherwise)
                return None
            self._asking = object()
            return self._asking

    def stop_asking(self, mark: object) -> None:
        """Let another caller ask: the one with this mark has ended, perhaps before it began.

        Args:
            mark: what `may_ask` returned.
        """
        with self._lock:
            if self._asking is not mark:
                return
            self._asking = None
            self._watching |= self._standing_by
            self._standing_by.clear()
        self._call()

    def ask_again(self) -> None:
        """Have `known` asked once more for causes that have not arrived: another process may have finished them."""
        with self._lock:
            for entry in self._entries.values():
                if entry.state == "held":
                    for name in entry.rule.unarrived(entry.ticket):
                        self._asked.add((entry.key, name))
                        self._missed.setdefault(name, set()).add(entry.key)

    def misses(self) -> Ids:
        """Return the next ids to ask for; an empty list ends the asking."""
        with self._lock:
            found: Ids = []
            for name, keys in list(self._missed.items()):
                lacking = {key for key in keys if self._keys[key].lacks_arrival(name)}
                self._asked -= {(key, name) for key in keys - lacking}
                self._missed[name] = lacking
                if not lacking:
                    del self._missed[name]
                    continue
                found.append(name)
                if len(found) == ASK_AT_ONCE:
                    break
            if not found:
                self._asking = None
                self._standing_by.clear()
        if not found:
            self._call()
        return found

    def answer(self, ids: Ids, there: Iterable[str]) -> Ids:
        """Take the answer of `known`; return the ids that are still missing.

        Args:
            ids: the ids that were asked for.
            there: those of them that are in the target.
        """
        with self._lock:
            present = known_texts(there)
            asked = {name: self._missed.pop(name) for name in ids}
            names = [name for name in ids if name in present]
            freed: dict[Key, list[Outcome]] = {}
            for key in {key: None for name in names for key in asked[name]}:
                there_now = [name for name in names if key in asked[name]]
                freed[key] = self._keys[key].met_elsewhere(there_now)
                self._asked -= {(key, name) for name in there_now}
            self._take_together(freed)
            missing = [n for n in ids if any(self._keys[key].lacks_arrival(n) for key in asked[n])]
            self._fill()
        self._call()
        return missing

    def unanswered(self, ids: Ids, error: BaseException) -> None:
        """Take the failure of `known`: rows that wait for these ids are taken back, and their callers get the error.

        Args:
            ids: the ids that were asked for.
            error: what `known` raised.
        """
        with self._lock:
            wanted = set(ids)
            for name in ids:
                self._missed.pop(name, None)
            self._asked = {each for each in self._asked if each[1] not in wanted}
            for entry in [each for each in self._entries.values() if each.state == "held"]:
                if wanted.intersection(entry.rule.unarrived(entry.ticket)):
                    self._take_back(entry)
                    entry.state, entry.error = "refused", error
                    self._woken.append(entry)
            self._fill()
        self._call()

    @property
    def asks(self) -> bool:
        """Whether calls of `known` are due or running."""
        return self._asking is not None or bool(self._missed)

    @property
    def ready(self) -> int:
        """The number of rows that could run if `concurrency` allowed it."""
        return len(self._ready)

    @property
    def room(self) -> bool:
        """Whether one more row should be read: few rows are ready, and fewer than `held_limit` wait."""
        return len(self._ready) < self.concurrency and (self.held_limit is None or self.held < self.held_limit)

    # -- under the lock --------------------------------------------------------------------------------------------

    def _offer(self, entry: GateEntry) -> None:
        row, names = entry.row, self.columns
        if not isinstance(row, Mapping):
            raise MisuseError(f"a row is a mapping of columns to values; {row!r:.60} is a {type(row).__name__}")
        if self.by == "depends_on" and names.cause not in row:
            raise names.lacks_causes(row)
        key = entry.key = tuple([row.get(name) for name in names.key])
        rule = entry.rule = self._rule(key)
        message = row.get(names.message)
        read = names.refuse(key) or rule.reading.read(
            message, row.get(names.sender), row.get(names.destination), row.get(names.cause)
        )
        if isinstance(read, str):
            entry.id = "" if message is None else str(message)
        else:
            entry.identity = read[:3]
            entry.id = rule.reading.name(read[1], read[2])
            failed = self._failed.pop((key, entry.identity), None)
            if failed is not None:
                self._again(entry, failed)
                return
        entry.ticket = rule.rows + 1
        entry.arrival = self._arrived = self._arrived + 1
        self._entries[key, entry.ticket] = entry
        self._take(key, rule.push(read, message))
        if entry.state == "new":
            entry.state = "held"
            self.held += 1
            if self.by == "depends_on":
                self._miss(key, rule.unarrived(entry.ticket))

    def _miss(self, key: Key, names: Ids) -> None:
        """Note causes to ask for; the next turn asks."""
        if self.known is None and self.on_missing is None:
            return
        for name in names:
            if (key, name) not in self._asked:
                self._asked.add((key, name))
                self._missed.setdefault(name, set()).add(key)

    def _take_back(self, entry: GateEntry) -> None:
        if entry.state == "running":  # it was woken, and its caller is gone
            self.running -= 1
        elif entry.state == "held":
            self.held -= 1
        elif entry.state == "ready":
            self._ready.remove(entry)
        else:
            return
        if entry.attempt > 1:  # it failed before, and has failed still
            entry.state = "failed"
            entry.attempt -= 1
            self._failed[entry.key, entry.identity] = entry
            return
        entry.state = "withdrawn"
        del self._entries[entry.key, entry.ticket]
        entry.rule.withdraw(entry.ticket)
        self._miss(entry.key, [entry.id] if self.by == "depends_on" and entry.rule.lacks_arrival(entry.id) else [])

    def _again(self, entry: GateEntry, failed: GateEntry) -> None:
        """Let a row that failed run again, under the ticket that it has."""
        entry.ticket, entry.made, entry.outcome = failed.ticket, failed.made, failed.outcome
        entry.arrival, entry.attempt, entry.state = failed.arrival, failed.attempt + 1, "ready"
        self._entries[entry.key, entry.ticket] = entry
        self._ready.append(entry)

    def _take_together(self, freed: Mapping[Key, list[Outcome]]) -> None:
        """Go on with the rows of several keys that one event lets go, in the order of their arrival."""
        pairs = [(key, made) for key, outcomes in freed.items() for made in outcomes]
        for key, made in sorted(pairs, key=lambda pair: self._entries[pair[0], pair[1].ticket].arrival):
            self._take(key, [made])

    def _take(self, key: Key, outcomes: list[Outcome]) -> None:
        """Go on with the rows that a rule lets go."""
        for made in outcomes:
            entry = self._entries[key, made.ticket]
            if entry.state == "held":
                self.held -= 1
            entry.made, entry.outcome = made, KINDS[made.kind]
            if entry.outcome in PLACED:
                entry.state = "ready"
                self._ready.append(entry)
            else:
                del self._entries[key, made.ticket]
                self._refuse(entry, entry.outcome, entry.reason)

    def _refuse(self, entry: GateEntry, outcome: str, reason: str) -> None:
        entry.state, entry.outcome, entry.error = "refused", outcome, TurnRefused(outcome, reason)
        self._woken.append(entry)

    def _settle(self, entry: GateEntry, outcome: str, freed: list[Outcome], *, wake: bool = True) -> None:
        """End a started row, and go on with what it set free."""
        self._failed.pop((entry.key, entry.identity), None)
        del self._entries[entry.key, entry.ticket]
        entry.state, entry.outcome = "settled", outcome
        if wake:
            self._woken.append(entry)
        self._take(entry.key, freed)

    def _decide(self, entry: GateEntry, choice: ErrorChoice) -> None:
        """End a failed row."""
        if choice == "skip":
            self._settle(entry, "skipped", entry.rule.skip(entry.ticket, SKIPPED))
        else:
            reason = f"behind {entry.id}, which was dead-lettered"
            self._settle(entry, Kind.QUARANTINED.value, entry.rule.dead_letter(entry.ticket, reason))

    def _fill(self) -> None:
        while self._ready and self.running < self.concurrency:
            entry = self._ready.popleft()
            self.running += 1
            entry.state = "running"
            self._woken.append(entry)

    def _call(self) -> None:
        """Wake, outside the lock, what may go on."""
        while self._woken:
            try:
                entry = self._woken.popleft()
            except IndexError:  # another thread has taken it
                break
            entry.wake(entry)
        while self._watching:
            try:
                changed = self._watching.pop()
            except KeyError:
                return
            changed()

    def _rule(self, key: Key) -> Rule:
        rule = self._keys.get(key)
        if rule is None:
            reading = Reading(self.by, self.rosters, separator=self.separator)
            rule = self._keys[key] = Rule(reading, self.policy, self.columns.where(key), self._room)
            rule.by_completion()
        return rule

    def _rules(self, key: Iterable[Field] | None) -> list[Key]:
        return list(self._keys) if key is None else [each for each in [tuple(key)] if each in self._keys]

    def _named(self, name: str, key: Iterable[Field] | None) -> list[GateEntry]:
        keys = self._rules(key)
        return [entry for entry in self._failed.values() if entry.id == name and entry.key in keys]

    def _failures(self) -> str:
        failed = ", ".join(entry.id for entry in self._failed.values())
        return f"failed: {failed}" if failed else "no row has failed"


def _check(by: By, asks: bool, concurrency: int, held_limit: int | None, on_error: OnError) -> None:
    """Reject arguments without a meaning for this gate."""
    if by != "depends_on" and asks:
        raise MisuseError(f"known= and on_missing= go with by='depends_on'; by={by!r} names its causes by number")
    for name, value in (("concurrency", concurrency), ("held_limit", held_limit)):
        if value is not None and (not isinstance(value, int) or isinstance(value, bool) or value < 1):
            raise MisuseError(f"{name} is {value!r}; a whole number from 1 is accepted")
    if not callable(on_error) and on_error not in ("hold", "skip", "dead-letter"):
        raise MisuseError(
            f"on_error is {on_error!r}; hold, skip, dead-letter is accepted, or a function of row, error and "
            "attempt that returns one of them or retry"
        )
