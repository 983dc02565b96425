"""Gate: one promise of docs/reference/gate.md at a time; tests/properties/test_gate.py has them all together."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import Counter
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest
from support.pages import run, steps

from thence import Gate
from thence.errors import MisuseError, TraceError
from thence.protocols import create
from thence.tables.delivery import TurnRefused

PAGE = Path(__file__).parents[3] / "docs" / "how-to/gate.md"


def row(message: str, *causes: str, **more: Any) -> dict[str, Any]:
    return {"message": message, "depends_on": list(causes), **more}


def told(handled: Any) -> list[tuple[str, str]]:
    return [(each.row["message"], each.outcome) for each in handled]


def test_the_page_prints_what_it_says() -> None:
    first, second, third = [run(step, {}) for step in steps(PAGE.read_text())]
    assert first == "order\npayment\n"
    assert second == "1 delivered 10\n2 delivered 20\n"
    assert sorted(third.splitlines()) == ["1 quarantined 3", "2 quarantined 0"]


def test_threads_take_turns() -> None:
    gate, order = Gate(concurrency=2), list[str]()

    def handle(each: dict[str, Any]) -> None:
        with gate.turn(each):
            time.sleep(0.01)
            order.append(each["message"])

    threads = [threading.Thread(target=handle, args=[each]) for each in (row("c", "b"), row("b", "a"), row("a"))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert order == ["a", "b", "c"]


def test_no_more_handlers_run_than_were_asked_for() -> None:
    running = most = 0
    lock, together = threading.Lock(), threading.Barrier(3)

    def handle(each: Any) -> None:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        if int(each["message"]) < 3:
            together.wait(60)
        time.sleep(0.002)
        with lock:
            running -= 1

    assert len(list(Gate(concurrency=3).map([row(str(number)) for number in range(40)], handle))) == 40
    assert most == 3


@pytest.mark.parametrize("by", ["clock", "stamp"])
def test_clocks_and_stamps_go_the_same_way(by: str) -> None:
    if by == "clock":
        rows = [
            {"destination": "d", "sender": "b", "clock": {"a": 1, "b": 1}},
            {"destination": "d", "sender": "a", "clock": {"a": 1}},
        ]
        gate = Gate("clock", key=["destination"])
    else:
        names = ["a", "b", "d"]
        a, b = create("ks", names, "a"), create("ks", names, "b")
        sent = {names[copy.destination]: copy for copy in a.send(["b", "d"]).copies}
        b.receive(b.decode(a.encode(sent["b"]), source="a"))
        (reply,) = b.send(["d"]).copies
        rows = [
            {"destination": "d", "sender": "b", "stamp": b.encode(reply)},
            {"destination": "d", "sender": "a", "stamp": a.encode(sent["d"])},
        ]
        gate = Gate("stamp", key=["destination"], roster=names)
    assert [each.row["sender"] for each in gate.map(rows, lambda each: None)] == ["a", "b"]


def test_a_full_gate_refuses_a_turn_and_the_row_never_came() -> None:
    async def main() -> None:
        gate = Gate(held_limit=1)
        waiting = asyncio.create_task(turn(gate, row("b", "a")))
        await asyncio.sleep(0)
        with pytest.raises(TurnRefused, match="held_limit") as refused:
            await turn(gate, row("c", "a"))
        assert refused.value.outcome == "blocked"
        await turn(gate, row("a"))
        await waiting
        await turn(gate, row("c", "a"))

    asyncio.run(main())


async def turn(gate: Gate, each: dict[str, Any]) -> None:
    async with gate.turn(each):
        await asyncio.sleep(0)


def test_a_full_map_stops_reading_and_says_what_it_waits_for() -> None:
    read = []

    def rows() -> Any:
        for number in range(10):
            read.append(number)
            yield row(f"m{number}", "lost")

    with pytest.raises(TraceError, match="held_limit=3 is reached and nothing runs: m0 waits for lost"):
        list(Gate(held_limit=3).map(rows(), print))
    assert len(read) == 3


def test_known_is_asked_once_in_batches_and_on_a_miss_only() -> None:
    asked: list[list[str]] = []

    async def known(ids: list[str]) -> list[str]:
        asked.append(list(ids))
        await asyncio.sleep(0.01)
        return [each for each in ids if each.startswith("old")]

    async def main() -> None:
        gate = Gate(concurrency=10, known=known)
        await turn(gate, row("free"))
        waits = [asyncio.create_task(turn(gate, row(f"m{n}", "old-1", f"old-{n}", "here"))) for n in range(3)]
        await asyncio.sleep(0)
        await turn(gate, row("here"))
        await asyncio.gather(*waits)
        await turn(gate, row("later", "old-1", "here"))
        with pytest.raises(TurnRefused, match="duplicate"):
            await turn(gate, row("old-2"))

    asyncio.run(main())
    assert asked == [["old-1", "old-0", "old-2"]]


def test_a_question_that_fails_is_the_error_of_those_who_wait() -> None:
    answers = [OSError("no database"), ["a"]]

    def known(ids: list[str]) -> list[str]:
        answer = answers.pop(0)
        if isinstance(answer, OSError):
            raise answer
        return answer

    async def main() -> None:
        gate = Gate(known=known)
        with pytest.raises(OSError, match="no database"):
            await turn(gate, row("b", "a"))
        assert gate.waiting() == []
        await turn(gate, row("b", "a"))

    asyncio.run(main())
    gate = Gate(known=lambda ids: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        list(gate.map([row("b", "a")], print))
    assert (gate.waiting(), gate.held, gate.asks) == ([], 0, False)


@pytest.mark.parametrize("kind", ["threads", "asyncio"])
def test_a_question_that_fails_ends_a_map_and_leaves_nothing_behind(kind: str) -> None:
    def known(ids: list[str]) -> list[str]:
        if "bad" in ids:
            raise OSError("no database")
        return ids

    async def handler(each: dict[str, Any]) -> None:
        await asyncio.sleep(0.001)

    async def drive() -> None:
        async for _ in gate.map(rows, handler):
            pass

    gate = Gate(concurrency=2, known=known)
    rows = [row("1", "old"), row("2", "bad"), row("3", "bad"), row("4", "2"), row("5")]
    with pytest.raises(OSError, match="no database"):  # noqa: PT012
        if kind == "threads":
            list(gate.map(rows, lambda each: time.sleep(0.001)))
        else:
            asyncio.run(drive())
    assert (gate.running, gate.held, gate.waiting(), gate.asks) == (0, 0, [], False)


def test_many_misses_are_asked_for_in_batches() -> None:
    asked: list[int] = []

    def known(ids: list[str]) -> list[str]:
        asked.append(len(ids))
        time.sleep(0.05 if len(asked) == 1 else 0)
        return ids

    rows = [row(f"m{number}", f"old-{number}") for number in range(2500)]
    handled = list(Gate(concurrency=3, known=known).map(rows, lambda each: None))
    assert {each.outcome for each in handled} == {"delivered"}
    assert (sum(asked), len(asked) < 2500, max(asked) <= 1000) == (2500, True, True)


def test_what_is_missing_is_fetched_once() -> None:
    asked: list[list[str]] = []

    def fetch(ids: list[str]) -> list[dict[str, Any]]:
        asked.append(list(ids))
        return [row(each, "root") if each != "root" else row(each) for each in ids]

    handled = Gate(concurrency=2, on_missing=fetch).map([row("b", "a"), row("c", "a")], lambda each: None)
    assert told(handled) == [(name, "delivered") for name in ("root", "a", "b", "c")]
    assert asked == [["a"], ["root"]]

    async def main() -> None:
        with pytest.raises(MisuseError, match="a turn cannot handle"):
            await turn(Gate(on_missing=fetch), row("b", "a"))

    asyncio.run(main())


def fail(each: dict[str, Any]) -> str:
    if each.get("bad"):
        raise ValueError("bad")
    return str(each["message"])


def test_the_effects_of_a_failed_row_wait_and_a_retry_sets_them_free() -> None:
    gate, rows = Gate(), [row("a", bad=True), row("b", "a"), row("c")]
    first = list(gate.map(rows, fail))
    assert told(first) == [("a", "failed"), ("c", "delivered"), ("b", "blocked")]
    assert first[2].reason == "waits for a; a has not finished: it failed with ValueError('bad')"
    assert [each["message"] for each in gate.failed()] == ["a"]
    again = list(gate.map([row("b", "a"), row("a")], fail))
    assert [(*pair, each.attempts) for pair, each in zip(told(again), again, strict=True)] == [
        ("a", "delivered", 2), ("b", "delivered", 1),
    ]  # fmt: skip


def test_a_dead_letter_takes_everything_behind_it() -> None:
    rows = [row("c", "b"), row("b", "a"), row("a", bad=True), row("d", "c"), row("free")]
    handled = list(Gate(on_error="dead-letter").map(rows, fail))
    assert sorted(told(handled)) == [
        ("a", "quarantined"), ("b", "quarantined"), ("c", "quarantined"), ("d", "quarantined"), ("free", "delivered"),
    ]  # fmt: skip
    assert {each.reason for each in handled if each.row["message"] in "bc"} == {"behind a, which was dead-lettered"}


def test_a_choice_that_is_none_ends_the_map() -> None:
    with pytest.raises(MisuseError, match="on_error returned 'again'"):
        list(Gate(on_error=lambda *_: "again").map([row("a", bad=True)], fail))  # type: ignore[arg-type,return-value]
    with pytest.raises(MisuseError, match="on_error is 'retry'"):
        Gate(on_error="retry")


@pytest.mark.parametrize("named", [{"id": "id", "causes": "parnt"}, {"columns": {"message": "id"}}])
def test_a_row_without_the_column_of_causes_is_refused_before_anything_runs(named: dict[str, Any]) -> None:
    rows, begun = [{"id": 2, "parent": 1}, {"id": 1, "parent": None}], list[Any]()
    column = named.get("causes", "depends_on")
    gate, sentence = (
        Gate(**named),
        f"a row has no column '{column}' of causes; found: id, parent. .* without causes it is null",
    )
    with pytest.raises(MisuseError, match=sentence):
        list(gate.map(rows, begun.append))
    with pytest.raises(MisuseError, match=sentence), gate.turn(rows[0]):
        begun.append(rows[0])
    assert (begun, gate.running, gate.held) == ([], 0, 0)


def test_a_row_that_has_not_failed_cannot_be_dead_lettered() -> None:
    gate = Gate()
    sentence = "^'a' is not a failed row, and only failed rows can be dead-lettered; "
    with pytest.raises(MisuseError, match=sentence + "no row has failed$"):
        gate.dead_letter("a")
    list(gate.map([row("b", bad=True)], fail))
    with pytest.raises(MisuseError, match=sentence + "failed: b$"):
        gate.dead_letter("a")


@pytest.mark.parametrize("bad", [{"concurrency": 0}, {"held_limit": True}, {"by": "clock", "key": ["destination"]}])
def test_misuse_is_said(bad: dict[str, Any]) -> None:
    with pytest.raises(MisuseError):
        Gate(**bad, known=lambda ids: ids)


def test_plain_functions_and_coroutines_are_not_mixed_up() -> None:
    async def handler(each: Any) -> None: ...

    async def rows() -> AsyncIterator[dict[str, Any]]:
        yield row("b", "a")
        yield row("a")

    async def main() -> list[tuple[str, str]]:
        with pytest.raises(MisuseError, match="coroutine function"):
            [each async for each in Gate().map([row("a")], print)]
        return told([each async for each in Gate().map(rows(), handler)])

    assert asyncio.run(main()) == [("a", "delivered"), ("b", "delivered")]
    with pytest.raises(MisuseError, match="async for"):
        list(Gate().map([row("a")], handler))


def test_leaving_a_loop_early_takes_back_what_has_not_begun() -> None:
    gate, begun = Gate(concurrency=2), []

    def handle(each: dict[str, Any]) -> None:
        begun.append(each["message"])
        time.sleep(0.01)

    handled = iter(gate.map([row("a"), row("x", "a"), row("b", "lost"), row("c"), row("d")], handle))
    next(handled)
    handled.close()  # type: ignore[attr-defined]
    assert (gate.running, gate.held, gate.waiting()) == (0, 0, [])
    left = [name for name in "abcdx" if name not in begun]
    assert "b" in left
    assert sorted(told(gate.map([row(name) for name in left], handle))) == [(name, "delivered") for name in left]


def test_a_task_that_is_cancelled_in_its_handler_has_failed() -> None:
    async def main() -> None:
        gate, rows, begun = Gate(concurrency=2), [row("a"), row("b", "a")], asyncio.Event()

        async def handler(each: dict[str, Any]) -> None:
            begun.set()
            await asyncio.sleep(60)

        async def drive() -> None:
            async for _ in gate.map(rows, handler):
                pass

        task = asyncio.create_task(drive())
        await begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        while gate.running:
            await asyncio.sleep(0)
        assert [each["message"] for each in gate.failed()] == ["a"]
        assert (gate.running, gate.held) == (0, 0)

    asyncio.run(main())


def test_a_skip_from_another_thread_lets_the_rows_of_a_map_go_on() -> None:
    gate, begun = Gate(concurrency=2), threading.Event()

    def handle(each: dict[str, Any]) -> None:
        if each["message"] == "b":
            begun.set()
            return
        while not gate.waiting():
            time.sleep(0.001)
        threading.Thread(target=gate.skip, args=["lost"]).start()
        assert begun.wait(60), "b does not begin beside the long one"

    handled = gate.map([row("long"), row("b", "lost")], handle)
    assert sorted(told(handled)) == [("b", "released"), ("long", "delivered")]


@pytest.mark.parametrize("concurrency", [1, 1000])
def test_nothing_one_row_and_a_long_chain_that_comes_backwards(concurrency: int) -> None:
    assert told(Gate(concurrency=concurrency).map([], print)) == []
    assert told(Gate(concurrency=concurrency).map([row("a")], lambda each: None)) == [("a", "delivered")]
    length, order = 10_000, list[str]()
    chain = [row(f"m{number}", f"m{number - 1}") if number else row("m0") for number in range(length)]
    gate = Gate(concurrency=concurrency, held_limit=None)
    assert sum(1 for _ in gate.map(chain[::-1], lambda each: order.append(each["message"]))) == length
    assert order == [f"m{number}" for number in range(length)]
    assert (gate.running, gate.held) == (0, 0)


def test_a_row_that_comes_twice_is_handled_once() -> None:
    begun: list[str] = []
    rows = [row("b", "a"), row("b", "a"), row("a"), row("a"), row("b", "a")]
    handled = told(Gate(concurrency=4).map(rows, lambda each: begun.append(each["message"])))
    assert begun == ["a", "b"]
    assert sorted(handled) == [("a", "delivered"), ("a", "duplicate"), *[("b", "delivered")], *[("b", "duplicate")] * 2]


@pytest.mark.parametrize("steps", range(6))
def test_a_question_that_is_cancelled_at_any_step_is_asked_again(steps: int) -> None:
    async def known(ids: list[str]) -> list[str]:
        await asyncio.sleep(0)
        return ids

    gate = Gate(known=known)

    async def handle(each: dict[str, Any]) -> None:
        async with gate.turn(each):
            pass

    async def cancelled() -> None:
        task = asyncio.ensure_future(handle(row("b", "a")))
        for _ in range(steps):
            await asyncio.sleep(0)
        task.cancel()  # the loop ends, and cancels the question too

    asyncio.run(cancelled())
    asyncio.run(asyncio.wait_for(handle(row("c", "a")), 60))
    assert gate.waiting() == []


def test_leaving_a_loop_keeps_the_ends_of_handlers_that_were_not_seen_yet() -> None:
    async def main(gate: Gate) -> None:
        together = asyncio.Event()

        async def handler(each: Any) -> None:
            if each["message"] == "b":
                together.set()
            await together.wait()

        async with aclosing(aiter(gate.map([row("a"), row("b")], handler))) as handled:
            async for _ in handled:
                for _ in range(20):
                    await asyncio.sleep(0)  # the other one ends too
                break

    gate = Gate(concurrency=2)
    asyncio.run(asyncio.wait_for(main(gate), 60))
    assert (gate.running, gate.failed()) == (0, [])
    again = told(gate.map([row("a"), row("b"), row("c", "a", "b")], lambda each: None))
    assert sorted(again) == [("a", "duplicate"), ("b", "duplicate"), ("c", "delivered")]


def test_a_cancellation_that_a_handler_lets_out_fails_its_row_alone() -> None:
    async def handler(each: Any) -> None:
        if each["message"] == "a":
            other = asyncio.create_task(asyncio.sleep(60))
            asyncio.get_running_loop().call_soon(other.cancel)
            await other

    async def main(gate: Gate) -> list[tuple[str, str]]:
        return told([each async for each in gate.map([row("a"), row("b"), row("c", "a")], handler)])

    gate = Gate(concurrency=2)
    found = asyncio.run(asyncio.wait_for(main(gate), 60))
    assert sorted(found) == [("a", "failed"), ("b", "delivered"), ("c", "blocked")]
    assert [each["message"] for each in gate.failed()] == ["a"]


def test_leaving_a_loop_before_a_handler_had_its_first_step_takes_its_row_back() -> None:
    begun = list[str]()

    async def handler(each: Any) -> None:
        begun.append(each["message"])

    async def main(gate: Gate) -> None:
        async with aclosing(aiter(gate.map([row("a"), row("a"), row("b")], handler))) as handled:
            async for each in handled:
                assert each.outcome == "duplicate"  # the task of a was made, and has not run
                break

    gate = Gate(concurrency=4)
    asyncio.run(asyncio.wait_for(main(gate), 60))
    assert (begun, gate.running, gate.failed()) == ([], 0, [])
    assert told(gate.map([row("a")], lambda each: None)) == [("a", "delivered")]


def test_a_map_that_is_cancelled_twice_leaves_nothing_running() -> None:
    async def handler(each: Any) -> None:
        try:
            await asyncio.sleep(60)
        finally:
            await asyncio.sleep(0)
            await asyncio.sleep(0)

    async def main(gate: Gate) -> None:
        async def drive() -> None:
            async for _ in gate.map([row("a")], handler):
                pass

        task = asyncio.ensure_future(drive())
        while not gate.running:
            await asyncio.sleep(0)
        for _ in range(3):
            task.cancel()
            await asyncio.sleep(0)
        while gate.running:
            await asyncio.sleep(0)

    gate = Gate()
    asyncio.run(asyncio.wait_for(main(gate), 60))
    assert told(gate.map([row("a"), row("b", "a")], lambda each: None)) == [("a", "delivered"), ("b", "delivered")]


BESIDE = [{"message": f"m{number}", "depends_on": ["x"] if number % 2 else []} for number in range(4)]


@pytest.mark.parametrize("kind", ["asyncio", "threads"])
def test_a_map_waits_for_handlers_that_run_beside_it(kind: str) -> None:
    gate, order = Gate(concurrency=1, held_limit=2), list[str]()
    rows = iter([*BESIDE, {"message": "m4", "depends_on": []}])
    if kind == "threads":
        begun = threading.Event()

        def beside() -> None:
            with gate.turn({"message": "x", "depends_on": []}):
                begun.set()
                time.sleep(0.1)
                order.append("x")

        thread = threading.Thread(target=beside)
        thread.start()
        begun.wait()
        order += [each.row["message"] for each in gate.map(rows, lambda row: None) if each.outcome == "delivered"]
        thread.join()
    else:

        async def main() -> None:
            async def beside() -> None:
                async with gate.turn({"message": "x", "depends_on": []}):
                    await asyncio.sleep(0.1)
                    order.append("x")

            async def handle(row: Any) -> None:
                pass

            task = asyncio.create_task(beside())
            await asyncio.sleep(0)
            order.extend([each.row["message"] async for each in gate.map(rows, handle) if each.outcome == "delivered"])
            await task

        asyncio.run(main())
    assert (order[0], sorted(order)) == ("x", ["m0", "m1", "m2", "m3", "m4", "x"])


def test_two_maps_of_one_gate_wait_for_each_other() -> None:
    """The first row of one map runs until it alone is left: a map ends where no handler of its gate runs."""
    gate, begun, done = Gate(concurrency=12), threading.Event(), list[str]()
    first = [row(f"m{number}") for number in range(6)]
    second = [row(f"n{number}", f"m{number}") for number in range(6)]

    def handle(each: dict[str, Any]) -> None:
        begun.set()
        end = time.monotonic() + 60
        while each["message"] == "m0" and len(done) < 10:
            assert time.monotonic() < end, f"{done} are done, and no other row begins"
            time.sleep(0.001)
        done.append(each["message"])

    def drive(rows: list[dict[str, Any]]) -> list[str]:
        assert rows is first or begun.wait(60)
        return [each.outcome for each in gate.map(rows, handle)]

    with ThreadPoolExecutor() as pool:
        assert list(pool.map(drive, [first, second])) == [["delivered"] * 6] * 2
    assert done[-2:] == ["m0", "n0"]


@pytest.mark.parametrize("answer", [[("a",)], [{"id": "a"}], "a", [b"a"]])
def test_rows_of_a_query_are_no_answer_of_known(answer: Any) -> None:
    gate = Gate(known=lambda ids: answer)
    with pytest.raises(MisuseError, match=r"known returned .*a.*; a list of ids is expected"):
        list(gate.map([{"message": "b", "depends_on": ["a"]}], lambda row: None))
    assert gate.waiting() == []


def test_an_answer_of_known_may_be_read_once_and_in_numbers() -> None:
    gate = Gate(known=lambda ids: (int(each) for each in ids))
    assert [each.outcome for each in gate.map([{"message": 2, "depends_on": [1]}], lambda row: None)] == ["delivered"]


@pytest.mark.parametrize("choice", ["skip", "dead-letter"])
def test_many_failed_rows_beside_many_that_wait_take_time_in_proportion(choice: Any) -> None:
    def fail(row: Any) -> None:
        raise ValueError

    count = 20_000
    rows = [{"message": f"w{number}", "depends_on": ["never"]} for number in range(count)]
    rows += [{"message": f"f{number}", "depends_on": []} for number in range(count)]
    started = time.process_time()
    outcomes = Counter(each.outcome for each in Gate(on_error=choice).map(rows, fail))
    assert outcomes == {"skipped" if choice == "skip" else "quarantined": count, "blocked": count}
    assert time.process_time() - started < 60


@pytest.mark.parametrize("asker", ["map", "turn"])
@pytest.mark.parametrize("cut", [False, True])
def test_a_map_waits_for_what_another_caller_asks(asker: str, cut: bool) -> None:
    """Also where that caller is cancelled in the middle of its question: then this one asks."""
    calls: list[list[str]] = []

    async def main() -> list[tuple[str, str]]:
        asked, answered = asyncio.Event(), asyncio.Event()

        async def known(ids: list[str]) -> list[str]:
            calls.append(ids)
            asked.set()
            await answered.wait()
            return ids

        async def handle(each: Any) -> None:
            pass

        async def beside() -> None:
            if asker == "map":
                assert told([each async for each in gate.map([row("a", "x")], handle)]) == [("a", "delivered")]
                return
            async with gate.turn(row("a", "x")):
                pass

        async def second() -> list[tuple[str, str]]:
            return told([each async for each in gate.map([row("b", "x"), row("c", "y")], handle)])

        gate = Gate(known=known, concurrency=2)
        first = asyncio.create_task(beside())
        await asked.wait()
        other = asyncio.create_task(second())
        for _ in range(20):
            await asyncio.sleep(0)
        assert not other.done()
        if cut and asker == "map":
            first.cancel()
        answered.set()
        found = await other
        await asyncio.gather(first, return_exceptions=True)
        return found

    assert sorted(asyncio.run(asyncio.wait_for(main(), 60))) == [("b", "delivered"), ("c", "delivered")]
    assert calls[0] == ["x"]


@pytest.mark.parametrize("kind", ["asyncio", "threads"])
def test_a_turn_asks_where_the_map_that_asked_is_gone(kind: str) -> None:
    calls: list[list[str]] = []

    async def main(gate: Gate, asked: asyncio.Event) -> None:
        async def handle(each: Any) -> None:
            pass

        async def mapped() -> None:
            async for _ in gate.map([row("a", "x")], handle):
                pass

        async def turned() -> None:
            async with gate.turn(row("b", "x")):
                pass

        def in_thread() -> None:
            with gate.turn(row("b", "x")):
                pass

        first = asyncio.create_task(mapped())
        await asked.wait()
        other = asyncio.create_task(turned() if kind == "asyncio" else asyncio.to_thread(in_thread))
        while gate.held < 2:
            await asyncio.sleep(0)
        first.cancel()
        await other
        with pytest.raises(asyncio.CancelledError):
            await first

    async def whole() -> None:
        asked = asyncio.Event()

        async def known(ids: list[str]) -> list[str]:
            calls.append(ids)
            asked.set()
            if len(calls) == 1:
                await asyncio.Event().wait()
            return ids

        def plain(ids: list[str]) -> Any:
            return known(ids) if not calls else ids

        gate = Gate(known=known if kind == "asyncio" else plain)
        await main(gate, asked)
        assert gate.waiting() == []

    asyncio.run(asyncio.wait_for(whole(), 60))
    assert calls == [["x"]] * (2 if kind == "asyncio" else 1)


def test_rows_of_several_keys_that_one_answer_or_skip_sets_free_begin_as_they_arrived() -> None:
    async def main(known: Any) -> list[str]:
        gate, began = Gate(key=["k"], known=known), list[str]()

        async def handle(each: dict[str, Any]) -> None:
            async with gate.turn(each):
                began.append(each["message"])

        causes = {"a": "xy", "b": "x", "c": "x", "d": "yx", "e": "x"}
        rows = [row(name, *each, k=number % 2) for number, (name, each) in enumerate(causes.items())]
        tasks = [asyncio.create_task(handle(each)) for each in rows]
        while gate.held < len(rows) and not all(task.done() for task in tasks):
            await asyncio.sleep(0)
        if known is None:
            gate.skip("y")
            gate.skip("x")
        await asyncio.gather(*tasks)
        return began

    for known in (None, lambda ids: ids):
        assert asyncio.run(asyncio.wait_for(main(known), 60)) == ["a", "b", "c", "d", "e"]
