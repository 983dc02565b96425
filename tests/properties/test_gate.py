"""Gate against a naive scheduler written from its documentation: failures, cancellations, skips, dead letters."""

from __future__ import annotations

import asyncio
import time
from random import Random
from threading import Lock
from typing import Any

import pytest
from properties.naive_gate import Id, Naive
from support.soak import first

from thence import Gate
from thence.errors import MisuseError
from thence.tables.delivery import TurnRefused

IDS = [(key, f"{key}{number}") for key in "xy" for number in range(9)]


class Driven:
    """A gate whose handlers end when the test says so."""

    def __init__(self, concurrency: int, target: set[str]) -> None:
        self.asked: list[str] = []
        self.target = target
        self.gate = Gate(key=["k"], concurrency=concurrency, known=self.known)
        self.tasks: dict[Id, list[asyncio.Task[None]]] = {}
        self.ends: dict[Id, asyncio.Future[None]] = {}
        self.begun: list[tuple[Id, str, list[str], int]] = []
        self.refused: list[tuple[Id, str]] = []

    def known(self, ids: list[str]) -> list[str]:
        assert len(set(ids)) == len(ids)
        self.asked += ids
        return [each for each in ids if each in self.target]

    def bring(self, one: Id, causes: list[Id]) -> None:
        row = {"k": one[0], "message": one[1], "depends_on": [cause[1] for cause in causes]}
        self.tasks.setdefault(one, []).append(asyncio.get_running_loop().create_task(self.handle(one, row)))

    async def handle(self, one: Id, row: dict[str, Any]) -> None:
        try:
            async with self.gate.turn(row) as turn:
                self.begun.append((one, turn.outcome, turn.missing, turn.attempt))
                self.ends[one] = asyncio.get_running_loop().create_future()
                await self.ends[one]
        except TurnRefused as refused:
            self.refused.append((one, refused.outcome))
        except ValueError:
            pass

    def cancel(self, one: Id) -> None:
        for task in self.tasks[one]:
            if not task.done():
                task.cancel()

    async def settle(self) -> None:
        for _ in range(12):
            await asyncio.sleep(0)


async def compare(seed: int) -> int:
    """Run one random story through both; return how many rows began."""
    random = Random(seed)
    target = {one[1] for one in random.sample(IDS, random.choice([0, 2, 6]))}
    concurrency = random.choice([1, 2, 5])
    gate, naive = Driven(concurrency, target), Naive(concurrency, target)
    began = 0
    for step in range(random.randint(5, 40)):
        what = act(random, gate, naive)
        await gate.settle()
        where = f"seed {seed}, step {step}: {what}"
        assert gate.begun == naive.begun, where
        assert sorted(gate.refused) == sorted(naive.refused), where
        assert [(row["k"], row["message"]) for row in gate.gate.waiting()] == sorted(
            naive.waiting, key=lambda one: (list(gate.gate._keys).index((one[0],)), naive.waiting.index(one))
        ), where
        assert sorted((row["k"], row["message"]) for row in gate.gate.failed()) == sorted(naive.failed), where
        assert sorted(gate.asked) == sorted(one[1] for one in naive.asked), where
        assert gate.gate.running == len(naive.running), where
        assert gate.gate.held == len(naive.waiting), where
        began += len(gate.begun)
        for log in (gate.begun, naive.begun, gate.refused, naive.refused):
            log.clear()
    for one in gate.tasks:
        gate.cancel(one)
    await gate.settle()
    return began


def act(random: Random, gate: Driven, naive: Naive) -> str:
    """Do one thing to both, and say what."""
    kind = random.choices(["bring", "finish", "fail", "cancel", "skip", "dead"], [10, 8, 2, 2, 1, 1])[0]
    one = random.choice(IDS)
    told = f"{kind} {one}"
    if kind == "bring":
        told = "bring"
        for _ in range(random.choice([1, 1, 3])):
            one = random.choice(IDS)
            same = [other for other in IDS if other[0] == one[0]]
            causes = random.sample(same, random.randint(0, 3))
            gate.bring(one, causes)
            naive.bring(one, causes)
            naive.begin()
            told += f" {one} {causes}"
        naive.ask()
    elif kind in ("finish", "fail") and naive.running:
        one = random.choice(naive.running)
        if kind == "finish":
            naive.finish(one)
            gate.ends[one].set_result(None)
        else:
            naive.fail(one)
            gate.ends[one].set_exception(ValueError("no"))
    elif kind == "cancel" and (any_ := [*naive.waiting, *naive.ready, *naive.running]):
        one = random.choice(any_)
        naive.cancel(one)
        gate.cancel(one)
    elif kind in ("skip", "dead"):
        one = random.choice(naive.failed) if naive.failed and random.random() < 0.7 else one
        if (one[0],) not in gate.gate._keys:
            return told
        accepted = naive.skip(one) if kind == "skip" else naive.dead_letter(one)
        call = gate.gate.skip if kind == "skip" else gate.gate.dead_letter
        if accepted:
            call(one[1], key=[one[0]])
        else:
            with pytest.raises(MisuseError):
                call(one[1], key=[one[0]])
    naive.begin()
    return told


@pytest.mark.parametrize("block", first(4, range(100)))
def test_a_gate_does_what_its_documentation_says(block: int) -> None:
    async def stories() -> int:
        return sum([await compare(100 * block + number) for number in range(100)])

    assert asyncio.run(stories()) > 300


def test_a_story_in_which_one_answer_frees_rows_of_several_causes() -> None:
    assert asyncio.run(compare(703629)) > 0


def story(random: Random, count: int) -> list[dict[str, Any]]:
    """Return rows with causes among the earlier ones, shuffled a little."""
    rows: list[dict[str, Any]] = []
    for number in range(count):
        causes = random.sample(range(max(0, number - 8), number), min(number, random.randint(0, 3)))
        rows.append({"message": f"m{number}", "depends_on": [f"m{cause}" for cause in causes]})
    return sorted(rows, key=lambda row: int(row["message"][1:]) + random.uniform(0, 6))


@pytest.mark.parametrize("seed", first(4, range(100)))
@pytest.mark.parametrize("kind", ["threads", "asyncio"])
def test_a_map_begins_a_row_when_its_causes_are_done(seed: int, kind: str) -> None:
    random = Random(seed)
    rows = story(random, 120)
    bad = set(random.sample([row["message"] for row in rows], 6))
    concurrency, lock = random.choice([1, 3, 8]), Lock()
    events: list[tuple[str, str]] = []
    gate = Gate(concurrency=concurrency, held_limit=100, on_error=lambda row, error, n: "retry" if n < 3 else "skip")

    def note(what: str, row: dict[str, Any]) -> None:
        with lock:
            events.append((what, row["message"]))

    def handle(row: Any) -> str:
        note("begin", row)
        time.sleep(random.random() / 2000)
        if row["message"] in bad:
            raise ValueError(row["message"])
        note("end", row)
        return str(row["message"])

    async def handle_async(row: Any) -> str:
        note("begin", row)
        await asyncio.sleep(random.random() / 2000)
        if row["message"] in bad:
            raise ValueError(row["message"])
        note("end", row)
        return str(row["message"])

    async def collect() -> list[Any]:
        return [each async for each in gate.map(rows, handle_async)]

    handled = list(gate.map(rows, handle)) if kind == "threads" else asyncio.run(collect())
    assert sorted(each.row["message"] for each in handled) == sorted(row["message"] for row in rows)
    wanted = {
        row["message"]: "skipped"
        if row["message"] in bad
        else "released"
        if bad & {*row["depends_on"]}
        else "delivered"
        for row in rows
    }
    assert {each.row["message"]: each.outcome for each in handled} == wanted
    assert all(each.attempts == (3 if each.row["message"] in bad else 1) for each in handled)
    place = {event: at for at, event in enumerate(events) if event[1] not in bad}
    for row in rows:
        for cause in set(row["depends_on"]) - bad:
            if row["message"] not in bad:
                assert place["end", cause] < place["begin", row["message"]]
    assert (gate.running, gate.held, gate.waiting()) == (0, 0, [])
