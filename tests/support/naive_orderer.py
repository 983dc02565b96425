"""Delivery once more, from docs/explanation/delivery-rule.md alone: slow, plain, written without the code it judges.

One key at a time; explicit causes and clocks, with random arrivals and policies to compare. Nothing here is shared with
`thence.tables.delivery`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from typing import Any

Need = tuple[str, int]
"""explicit causes: (id, 0); clocks: (sender, number)"""
Row = dict[str, Any]


@dataclass
class Held:
    row: Row
    own: Need
    needs: list[Need]
    number: int
    """which row of the key it was"""
    since: float | None
    waited_for: list[str] = field(default_factory=list)


class Naive:
    """The rows of one key."""

    def __init__(
        self,
        by: str,
        *,
        policy: str = "wait",
        after_rows: int | None = None,
        after_seconds: float | None = None,
        held_limit: int | None = None,
        when_full: str = "fail",
    ) -> None:
        self.by, self.policy, self.when_full = by, policy, when_full
        self.after_rows, self.after_seconds, self.held_limit = after_rows, after_seconds, held_limit
        self.left: set[Need] = set()
        self.given_up: set[Need] = set()
        """given up, and not come since"""
        self.quarantined: set[Need] = set()
        self.came: dict[str, int] = {}
        self.held: list[Held] = []
        self.rows = 0
        self.position = 0
        self.time: float | None = None
        self.words = ""
        self.out: list[Row] = []

    # -- what a row says

    def read(self, row: Row) -> tuple[Need, list[Need]] | None:
        """Its own name and its causes in order, or None if it says nothing usable."""
        if self.by == "depends_on":
            own, causes = row.get("message"), row.get("depends_on") or []
            if own is None or own in causes:
                return None
            return (own, 0), [(cause, 0) for cause in dict.fromkeys(causes) if cause is not None]
        clock, sender = row.get("clock"), row.get("sender")
        if clock is None or sender is None or not clock.get(sender):
            return None
        if any(not isinstance(count, int) or count < 0 for count in clock.values()):
            return None
        needs = [(name, count - (name == sender)) for name, count in sorted(clock.items())]
        return (sender, clock[sender]), [need for need in needs if need[1] > 0]

    def name(self, need: Need) -> str:
        return need[0] if self.by == "depends_on" else f"{need[0]}#{need[1]}"

    # -- what is known

    def met(self, need: Need) -> bool:
        if self.by == "depends_on":
            return need in self.left or need in self.given_up
        return any(name == need[0] and number >= need[1] for name, number in self.left | self.given_up)

    def level(self, sender: str) -> int:
        return max((number for name, number in self.left | self.given_up if name == sender), default=0)

    def lacking(self, needs: list[Need]) -> list[Need]:
        """What a row goes without: given up and not come."""
        if self.by == "depends_on":
            return [need for need in needs if need in self.given_up]
        return [(s, n) for s, count in needs for n in range(1, count + 1) if (s, n) in self.given_up]

    def lacking_or_unmet(self, needs: list[Need]) -> list[Need]:
        if self.by == "depends_on":
            return [need for need in needs if need in self.given_up or not self.met(need)]
        return [
            (s, n) for s, count in needs for n in range(1, count + 1) if (s, n) in self.given_up or not self.met((s, n))
        ]

    def sentence(self, missing: list[Need]) -> str:
        more = f" and {len(missing) - 8} more" if len(missing) > 8 else ""
        return ", ".join(self.name(need) for need in missing[:8]) + more

    def listed(self, missing: list[Need]) -> list[str]:
        counted: dict[str, int] = {}
        kept = []
        for need in missing:
            counted[need[0]] = counted.get(need[0], 0) + 1
            if counted[need[0]] <= 100:
                kept.append(self.name(need))
        return kept

    # -- a row comes

    def push(self, row: Row) -> None:
        self.rows += 1
        if row.get("time") is not None:
            first = self.time is None
            self.time = row["time"] if self.time is None else max(self.time, row["time"])
            if first:
                for each in self.held:
                    each.since = self.time
        self.take(row)
        self.police()

    def take(self, row: Row) -> None:
        read = self.read(row)
        if read is None:
            name = row.get("message")
            if self.by == "depends_on" and name is not None and not self.known((name, 0)):
                self.quarantined.add((name, 0))
            self.out.append({"row": row, "outcome": "quarantined"})
            return
        own, needs = read
        repeat = self.repeat(own)
        if repeat is not None:
            self.out.append({"row": row, "outcome": "duplicate", "reason": repeat})
            return
        self.came[own[0]] = self.came.get(own[0], 0) + 1
        new = Held(row, own, needs, self.rows, self.time)
        new.waited_for = [self.name(need) for need in needs if not self.met(need)]
        if new.waited_for:
            self.held.append(new)
            self.break_cycles(new)
        else:
            self.leave(new)
            self.free()

    def known(self, own: Need) -> bool:
        return own in self.left or any(each.own == own for each in self.held)

    def repeat(self, own: Need) -> str | None:
        if any(each.own == own for each in self.held):
            return "it is held already"
        if own in self.quarantined:
            return "it was quarantined before"
        if self.met(own) and own not in self.given_up:
            return "it was delivered before"
        return None

    def free(self) -> None:
        while ready := [each for each in self.held if all(self.met(need) for need in each.needs)]:
            self.held.remove(ready[0])
            self.leave(ready[0])

    def leave(self, each: Held) -> None:
        missing = self.lacking(each.needs)
        if each.own in self.given_up:
            outcome, reason = "late", "it came after it was given up"
            self.given_up.discard(each.own)
        elif missing:
            outcome, reason = "released", f"released without {self.sentence(missing)}{self.words}"
        else:
            outcome, reason = "delivered", None
        self.left.add(each.own)
        self.position += 1
        self.say(each, outcome, reason, missing, position=self.position)

    def say(
        self, each: Held, outcome: str, reason: str | None, missing: list[Need], position: int | None = None
    ) -> None:
        held = bool(each.waited_for)
        seconds = None if self.time is None or each.since is None else self.time - each.since
        self.out.append(
            {
                "row": each.row,
                "outcome": outcome,
                "reason": reason,
                "position": position,
                "missing": self.listed(missing),
                "waited_for": each.waited_for,
                "held_for": self.rows - each.number if held else 0,
                "held_seconds": seconds if held else 0,
            }
        )

    def break_cycles(self, new: Held) -> None:
        if self.by != "depends_on":
            return
        by_id = {each.own: each for each in self.held}

        def reachable(start: Held) -> set[Need]:
            seen: set[Need] = set()
            todo = [start]
            while todo:
                for need in todo.pop().needs:
                    if need in by_id and not self.met(need) and need not in seen:
                        seen.add(need)
                        todo.append(by_id[need])
            return seen

        ring = {own for own in reachable(new) if new.own in reachable(by_id[own])}
        if not ring:
            return
        rows = [each for each in self.held if each.own in ring]
        self.held = [each for each in self.held if each.own not in ring]
        names = [each.own[0] for each in rows]
        more = f" and {len(names) - 8} more" if len(names) > 8 else ""
        reason = "on a cycle of causes: " + ", ".join(names[:8]) + more
        for each in rows:
            self.quarantined.add(each.own)
            self.say(each, "quarantined", reason, [])

    # -- waiting

    def unmet(self, each: Held) -> list[Need]:
        return [need for need in each.needs if not self.met(need)]

    def root(self, start: Held) -> tuple[Need, list[Need], bool]:
        """The root of a wait, what giving it up gives up, and whether the walk came round."""
        at, seen = start, [start]
        while True:
            first = self.unmet(at)[0]
            if self.by == "depends_on":
                onward = next((each for each in self.held if each.own == first), None)
                if onward is None:
                    return first, [first], False
            else:
                sender, need = first
                numbers = sorted(e.own[1] for e in self.held if e.own[0] == sender and not self.met(e.own))
                following = self.level(sender) + 1
                lowest = numbers[0] if numbers else None
                if lowest is None or lowest != following or lowest > need:
                    last = need if lowest is None else min(need, lowest - 1)
                    return (sender, following), [(sender, n) for n in range(following, last + 1)], False
                onward = next(e for e in self.held if e.own == (sender, lowest))
            if any(onward is each for each in seen):
                need = self.unmet(start)[0]
                if self.by == "depends_on":
                    return need, [need], True
                following = self.level(need[0]) + 1
                return (need[0], following), [(need[0], n) for n in range(following, need[1] + 1)], True
            at = onward
            seen.append(at)

    def overdue(self) -> tuple[Held, str, bool] | None:
        for each in self.held:
            if self.after_rows is not None and self.rows - each.number >= self.after_rows:
                return each, f", after {self.after_rows} later rows", self.policy == "release"
            if (
                self.after_seconds is not None
                and self.time is not None
                and each.since is not None
                and self.time - each.since >= self.after_seconds
            ):
                return each, f", after {self.after_seconds:g} s of event time", self.policy == "release"
            if self.held_limit is not None and len(self.held) > self.held_limit:
                return each, f", since more than {self.held_limit} rows were held", self.when_full == "release"
            return None
        return None

    def police(self) -> None:
        while due := self.overdue():
            each, self.words, release = due
            if not release:
                raise RuntimeError("fail")
            while any(each is other for other in self.held):
                self.given_up.update(self.root(each)[1])
                self.free()
            self.words = ""

    def finish(self) -> list[Row]:
        for each in self.held:
            missing = self.lacking_or_unmet(each.needs)
            blocker, _, round_trip = self.root(each)
            reason = f"waits for {self.sentence(missing)}"
            if round_trip:
                reason += "; these causes wait for each other"
            elif blocker in self.quarantined:
                reason += f"; {self.name(blocker)} was quarantined"
            else:
                reason += f"; {self.name(blocker)} has not arrived"
            if self.by == "clock" and not round_trip:
                need = next((n for s, n in each.needs if s == blocker[0]), 0)
                came = self.came.get(blocker[0], 0)
                if need and 2 * came <= need:
                    reason += (
                        f"; component {blocker[0]} says {need}, and {came} messages of {blocker[0]} came here: "
                        "looks like a clock that counts all events"
                    )
            self.say(each, "blocked", reason, missing)
            self.out[-1]["blocker"] = self.name(blocker)
        return self.out


BYS = ("depends_on", "clock")


def explicit(random: Random) -> list[Row]:
    """Messages that name causes among the earlier ones, sometimes among any, sometimes one that is lost."""
    names = [f"m{number}" for number in range(random.randint(1, 14))]
    rows: list[Row] = []
    for place, name in enumerate(names):
        pool = names if random.random() < 0.15 else names[:place]
        causes: list[str | None] = [random.choice(pool) for _ in range(random.choice([0, 1, 1, 1, 2, 3])) if pool]
        if random.random() < 0.05:
            causes.append(f"lost{random.randint(0, 2)}")
        if random.random() < 0.03:
            causes.append(None)
        row: Row = {"message": name, "sender": "s", "depends_on": causes}
        rows.append(row | random.choices([{}, {"depends_on": None}, {"message": None}], [94, 3, 3])[0])
    return rows


def clocks(random: Random) -> list[Row]:
    """Messages of up to three senders to one destination, now and then with a component that cannot be."""
    senders = "abc"[: random.randint(1, 3)]
    known = {sender: dict.fromkeys(senders, 0) for sender in senders}
    rows: list[Row] = []
    for _ in range(random.randint(1, 14)):
        sender, other = random.choice(senders), random.choice(senders)
        if random.random() < 0.6:
            known[sender] = {name: max(count, known[other][name]) for name, count in known[sender].items()}
        known[sender] = known[sender] | {sender: known[sender][sender] + 1}
        clock = {name: count for name, count in known[sender].items() if count or random.random() < 0.5}
        if random.random() < 0.04:
            clock[random.choice(senders)] = random.randint(0, 9)
        rows.append({"message": f"{sender}{known[sender][sender]}", "sender": sender, "clock": clock})
    return rows


def arrivals(by: str, random: Random) -> list[Row]:
    """Some rows lost, some doubled, in any order, with times that stand still or jump, and some without."""
    rows = [row for row in (explicit if by == "depends_on" else clocks)(random) if random.random() > 0.08]
    rows += [dict(random.choice(rows)) for _ in range(random.choice([0, 0, 1, 2])) if rows]
    random.shuffle(rows)
    now = 0.0
    for number, row in enumerate(rows):
        now += random.choice([0, 1, 2, 5])
        row |= {"run": "r", "destination": "d", "n": number, "time": now if random.random() < 0.8 else None}
    return rows


def policies(random: Random) -> list[dict[str, Any]]:
    """One policy of each kind."""
    return [
        {},
        {"policy": "release", "after_rows": random.randint(1, 5)},
        {"policy": "release", "after_seconds": float(random.randint(1, 6))},
        {"policy": "release", "after_rows": random.randint(2, 6), "after_seconds": float(random.randint(1, 9))},
        {"held_limit": random.randint(1, 4), "when_full": "release"},
    ]


def told(row: Row, said: Row) -> Row:
    """What the page says of a row and its outcome; of rows without causes to go by it says less."""
    outcome = said["outcome"]
    found: Row = {"n": row["n"], "outcome": outcome, "position": said.get("position")}
    if (outcome == "quarantined" and said.get("reason", "").startswith("on a cycle")) or outcome == "duplicate":
        found["reason"] = said["reason"]
    elif outcome != "quarantined":
        found |= {name: list(said[name] or ()) for name in ("missing", "waited_for")}
        found |= {name: said.get(name) for name in ("reason", "blocker", "held_for")}
        found["held_seconds"] = said["held_seconds"] if said["waited_for"] else None
    return found
