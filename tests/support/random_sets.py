"""Random arrivals of one key, each with a policy, and what docs/explanation/delivery-rule.md promises for them."""

from __future__ import annotations

from random import Random
from typing import Any

Row = dict[str, Any]
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
