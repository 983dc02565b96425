"""A gate once more, from docs/reference/gate.md alone: slow and plain, lists instead of indexes.

Explicit causes. Nothing here is shared with `thence.tables.delivery`. An id is a pair of key and message.
"""

from __future__ import annotations

from dataclasses import dataclass, field

Id = tuple[str, str]


@dataclass
class Naive:
    """What a row with its causes is doing; each list is in the order in which its rows came there."""

    concurrency: int
    target: set[str]
    """the messages that `known` knows"""
    causes: dict[Id, list[Id]] = field(default_factory=dict)
    waiting: list[Id] = field(default_factory=list)
    ready: list[Id] = field(default_factory=list)
    running: list[Id] = field(default_factory=list)
    failed: list[Id] = field(default_factory=list)
    finished: set[Id] = field(default_factory=set)
    skipped: set[Id] = field(default_factory=set)
    quarantined: set[Id] = field(default_factory=set)
    dead: set[Id] = field(default_factory=set)
    asked: list[Id] = field(default_factory=list)
    attempts: dict[Id, int] = field(default_factory=dict)
    outcome: dict[Id, tuple[str, list[str]]] = field(default_factory=dict)
    begun: list[tuple[Id, str, list[str], int]] = field(default_factory=list)
    refused: list[tuple[Id, str]] = field(default_factory=list)

    def met(self, cause: Id) -> bool:
        return cause in self.finished or cause in self.skipped

    def arrived(self, one: Id) -> bool:
        return any(one in each for each in (self.waiting, self.ready, self.running, self.failed))

    # -- promises 1 and 2

    def bring(self, one: Id, causes: list[Id]) -> None:
        if one in causes:
            self.refused.append((one, "quarantined"))
            if not self.arrived(one) and not self.met(one):
                self.quarantined.add(one)
            return
        if one in self.failed:
            self.failed.remove(one)
            self.ready.append(one)
            self.attempts[one] += 1
            return
        if self.arrived(one) or one in self.finished or one in self.quarantined:
            self.refused.append((one, "duplicate"))
            return
        self.causes[one], self.attempts[one] = causes, 1
        if any(cause in self.dead and not self.met(cause) for cause in causes):
            self.bury(one)
            return
        self.waiting.append(one)
        if all(self.met(cause) for cause in causes):
            self.free()
        else:
            self.break_cycles(one)

    def free(self) -> None:
        for one in list(self.waiting):
            if all(self.met(cause) for cause in self.causes[one]):
                self.waiting.remove(one)
                self.ready.append(one)
                missing = [cause[1] for cause in self.causes[one] if cause in self.skipped]
                outcome = "late" if one in self.skipped else "released" if missing else "delivered"
                self.outcome[one] = (outcome, missing)

    def begin(self) -> None:
        while self.ready and len(self.running) < self.concurrency:
            one = self.ready.pop(0)
            self.running.append(one)
            self.begun.append((one, *self.outcome[one], self.attempts[one]))

    def break_cycles(self, new: Id) -> None:
        def leads(start: Id, end: Id, seen: set[Id]) -> bool:
            for cause in self.causes[start]:
                if self.met(cause):  # skipped: nothing waits for it
                    continue
                if cause == end:
                    return True
                if cause in self.waiting and cause not in seen:
                    seen.add(cause)
                    if leads(cause, end, seen):
                        return True
            return False

        ring = [one for one in self.waiting if leads(new, one, set()) and leads(one, new, set())]
        for one in ring:
            self.waiting.remove(one)
            self.quarantined.add(one)
            self.refused.append((one, "quarantined"))

    # -- promises 3 and 4

    def finish(self, one: Id) -> None:
        self.running.remove(one)
        self.finished.add(one)
        self.skipped.discard(one)
        self.free()

    def fail(self, one: Id) -> None:
        self.running.remove(one)
        self.failed.append(one)

    def skip(self, one: Id) -> bool:
        """Return whether it is accepted."""
        if one in self.waiting or one in self.ready or one in self.running:
            return False
        if one in self.failed:
            self.failed.remove(one)
        if one not in self.finished:
            self.skipped.add(one)
        self.free()
        return True

    def dead_letter(self, one: Id) -> bool:
        """Return whether it is accepted."""
        if one not in self.failed:
            return False
        self.failed.remove(one)
        self.dead.add(one)
        self.quarantined.add(one)
        self.bury_behind()
        return True

    def bury(self, one: Id) -> None:
        self.dead.add(one)
        self.quarantined.add(one)
        self.refused.append((one, "quarantined"))
        self.bury_behind()

    def bury_behind(self) -> None:
        for one in self.waiting:
            if any(cause in self.dead and not self.met(cause) for cause in self.causes[one]):
                self.waiting.remove(one)
                self.bury(one)
                return

    # -- promise 5

    def cancel(self, one: Id) -> None:
        if one in self.running:
            self.fail(one)
        elif one in self.waiting:
            self.waiting.remove(one)
        elif one in self.ready:
            self.ready.remove(one)
            if self.attempts[one] > 1:
                self.attempts[one] -= 1
                self.failed.append(one)

    # -- promise 6

    def ask(self) -> None:
        for one in list(self.waiting):
            for cause in self.causes[one]:
                nothing = not self.arrived(cause) and not self.met(cause) and cause not in self.quarantined
                if nothing and cause not in self.asked:
                    self.asked.append(cause)
        for cause in self.asked:
            nothing = not self.arrived(cause) and not self.met(cause) and cause not in self.quarantined
            if nothing and cause[1] in self.target and any(cause in self.causes[one] for one in self.waiting):
                self.finished.add(cause)
        self.free()
