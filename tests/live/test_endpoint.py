"""What an application sees of an endpoint."""

from __future__ import annotations

import asyncio
import shutil
import sqlite3
from dataclasses import replace
from pathlib import Path

import pytest
from support.live_pair import configure, folder, run, take, until

from thence.errors import MisuseError
from thence.live import outbox
from thence.live import process as process
from thence.live.heartbeat import Detector
from thence.live.inputs import TRUSTED
from thence.runtime import Endpoint, JournalError, RolledBackError, load

assert folder is not None


def test_a_message_arrives_over_tls_and_is_done(folder: Path) -> None:
    async def go() -> None:
        first, second = configure(folder, plain=False)
        async with Endpoint(first) as a, Endpoint(second) as b:
            assert await a.send({"b"}, b"hello") == "a1"
            (message,) = await take(b, 1)
            assert (message.id, message.sender, message.payload, message.redelivered) == ("a1", "a", b"hello", False)
            await until(lambda: a.process.links[1].outbox.acked == 1)

    run(go())


def test_what_was_not_done_comes_again_after_a_stop_and_what_was_done_does_not(folder: Path) -> None:
    async def go() -> None:
        first, second = configure(folder)
        async with Endpoint(first) as a:
            async with Endpoint(second) as b:
                for text in (b"1", b"2", b"3"):
                    await a.send({"b"}, text)
                one, _, _ = await take(b, 3, done=False)
                await one.done()
            async with Endpoint(second) as b:
                again = await take(b, 2)
                assert [(m.payload, m.redelivered) for m in again] == [(b"2", True), (b"3", True)]

    run(go())


def test_a_transaction_is_one_commit(folder: Path) -> None:
    async def go() -> None:
        first, second = configure(folder)
        async with Endpoint(first) as a, Endpoint(second) as b:
            await a.send({"b"}, b"order")
            (message,) = await take(b, 1, done=False)

            async def fail() -> None:
                async with message.transaction() as tx:
                    tx.execute("CREATE TABLE stock (item TEXT)")
                    tx.send({"a"}, b"never")
                    raise ZeroDivisionError

            with pytest.raises(ZeroDivisionError):
                await fail()
            assert b.database.execute("SELECT name FROM sqlite_master WHERE name = 'stock'") == []
            async with message.transaction() as tx:
                tx.execute("CREATE TABLE stock (item TEXT)")
                tx.execute("INSERT INTO stock VALUES (?)", ("book",))
                tx.send({"a"}, b"done")
            assert b.database.execute("SELECT item FROM stock") == [("book",)]
            assert [m.payload for m in await take(a, 1)] == [b"done"]
            assert not b.process.core.inbox

    run(go())


def test_what_arrives_during_a_transaction_keeps_its_order(folder: Path) -> None:
    async def go() -> None:
        first, second = configure(folder)
        async with Endpoint(first) as a, Endpoint(second) as b:
            await a.send({"b"}, b"0")
            (message,) = await take(b, 1, done=False)
            async with message.transaction():
                for number in range(1, 20):
                    await a.send({"b"}, b"%d" % number)
                await until(lambda: b.process.links[0].arrived == 20)
                assert b.process.links[0].received == 1  # nothing is acknowledged meanwhile
            assert [int(m.payload) for m in await take(b, 19)] == list(range(1, 20))
            await until(lambda: a.process.links[1].outbox.acked == 20)

    run(go())


def test_a_transaction_that_takes_too_long_is_rolled_back(folder: Path) -> None:
    async def go() -> None:
        first, second = configure(folder, limits={"transaction_seconds": 0.1})
        async with Endpoint(first) as a, Endpoint(second) as b:
            await a.send({"b"}, b"x")
            (message,) = await take(b, 1, done=False)

            async def work(seconds: float) -> None:
                async with message.transaction() as tx:
                    tx.execute("CREATE TABLE late (x)")
                    await asyncio.sleep(seconds)

            with pytest.raises(RolledBackError, match=r"more than 0\.1 s"):
                await work(0.3)
            assert b.database.execute("SELECT name FROM sqlite_master WHERE name = 'late'") == []
            b.config = replace(b.config, limits=replace(b.config.limits, transaction_seconds=60.0))
            await work(0)
            assert b.database.execute("SELECT name FROM sqlite_master WHERE name = 'late'") == [("late",)]
            await a.send({"b"}, b"y")
            assert [m.payload for m in await take(b, 1)] == [b"y"]

    run(go())


@pytest.mark.parametrize(
    "statement",
    ["DELETE FROM thence_inputs", "COMMIT", "ROLLBACK", "PRAGMA synchronous=OFF", "ATTACH ':memory:' AS other"],
)
def test_the_journal_is_out_of_reach_of_the_application(folder: Path, statement: str) -> None:
    async def go() -> None:
        first, second = configure(folder)
        async with Endpoint(first) as a, Endpoint(second) as b:
            await a.send({"b"}, b"x")
            (message,) = await take(b, 1, done=False)
            with pytest.raises(JournalError, match="not authorized"):
                async with message.transaction() as tx:
                    tx.execute(statement)
            await message.done()

    run(go())


def test_misuse_is_told(folder: Path) -> None:
    async def go() -> None:
        first, _ = configure(folder, limits={"payload_bytes": 10})
        async with Endpoint(first) as a:
            for destinations, payload, text in (
                ({"z"}, b"", "no process 'z'"),
                (set(), b"", "no process"),
                ("b", b"", "a set of names"),
                ({"b"}, "text", "bytes are expected"),
                ({"b"}, b"12345678901", "payload_bytes"),
            ):
                with pytest.raises(MisuseError, match=text):
                    await a.send(destinations, payload)  # type: ignore[arg-type]
            for label, text in ((5, "label is a int"), ("l" * 256, "255 bytes"), ("\ud800", "UTF-8 cannot hold")):
                with pytest.raises(MisuseError, match=text):
                    await a.send({"b"}, b"", label=label)  # type: ignore[arg-type]
            with pytest.raises(JournalError, match="in use"):
                async with Endpoint(first):
                    pass

    run(go())


def test_a_destination_that_stays_away_is_waited_for(folder: Path) -> None:
    async def go() -> None:
        first, second = configure(folder, limits={"outbox_items": 3})
        async with Endpoint(first) as a:
            for _ in range(3):
                await a.send({"b"}, b"x")
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.3):
                    await a.send({"b"}, b"one too many")
            waiting = asyncio.create_task(a.send({"b"}, b"later"))
            async with Endpoint(second) as b:
                assert len(await take(b, 4)) == 4
                await waiting

    run(go())


def test_a_destination_that_stays_away_can_be_given_up(folder: Path) -> None:
    async def go() -> None:
        first, *_ = configure(folder, "abc", limits={"outbox_items": 2, "away": "abandon"})
        async with Endpoint(first) as a:
            for _ in range(2):
                await a.send({"b"}, b"x")
            with pytest.raises(MisuseError, match="b"):
                await a.send({"b"}, b"y")
            assert a.process.links[1].outbox.closed
            assert await a.send({"c"}, b"z") is not None

    run(go())


def test_nobody_can_be_given_up_where_the_protocol_needs_everybody(folder: Path) -> None:
    first, *_ = configure(folder, "abc", protocol="ses", limits={"away": "abandon"})
    with pytest.raises(
        MisuseError, match=r'limits.away is "abandon"; protocol ses cannot abandon .* wait and spill are'
    ):
        load(first)


def test_what_waits_for_somebody_away_spills_into_the_journal(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (outbox, process):
        monkeypatch.setattr(module, "LIMIT_ITEMS", 8)

    async def go() -> None:
        first, second = configure(folder, limits={"outbox_items": 3, "away": "spill"})
        async with Endpoint(first) as a:
            for number in range(40):
                await a.send({"b"}, b"%d" % number)
            assert len(a.process.core.outboxes[1].front) == 8
            assert a.database.execute("SELECT count(*) FROM thence_outbox") == [(32,)]
        async with Endpoint(first) as a, Endpoint(second) as b:
            assert [int(m.payload) for m in await take(b, 40)] == list(range(40))
            await until(lambda: a.process.links[1].outbox.acked == 40)
            await a.send({"b"}, b"the last one")
            await until(lambda: a.database.execute("SELECT count(*) FROM thence_outbox") == [(0,)])

    run(go())


def test_a_spilling_send_waits_for_room_in_the_journal(folder: Path) -> None:
    async def go() -> None:
        first, _ = configure(folder, limits={"outbox_items": 1, "away": "spill"})
        async with Endpoint(first) as a:
            await a.send({"b"}, b"x")
            await a.send({"b"}, b"x")
            a.process.full = True
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.2):
                    await a.send({"b"}, b"one too many")
            a.process.full = False
            assert await a.send({"b"}, b"later") == "a3"

    run(go())


def test_a_lost_journal_is_refused_by_the_peer_and_stops_the_process(folder: Path) -> None:
    async def go() -> None:
        first, second = configure(folder)
        async with Endpoint(first) as a:
            async with Endpoint(second) as b:
                await a.send({"b"}, b"x")
                await take(b, 1)
            for file in folder.glob("b.j*"):
                file.unlink()
            async with Endpoint(second) as b:
                await until(lambda: "another journal" in (a.process.links[1].refusal or ""))
                await until(lambda: "lost its memory" in (b.process.links[0].refusal or ""))

    run(go())


def test_a_restored_backup_is_found_out(folder: Path) -> None:
    async def go() -> None:
        first, second = configure(folder)
        async with Endpoint(first) as a:
            async with Endpoint(second) as b:
                await a.send({"b"}, b"x")
                await take(b, 1)
                await b.backup(folder / "copy")
                await b.send({"a"}, b"after the copy")
                await take(a, 1)
            for file in folder.glob("b.j*"):
                file.unlink()
            shutil.copy(folder / "copy", folder / "b.journal")
            async with Endpoint(second) as b:
                await until(lambda: b.failure is not None)
                assert "b has lost its memory" in str(b.failure)
                with pytest.raises(JournalError, match="lost its memory"):
                    await b.send({"a"}, b"y")

    run(go())


def test_a_journal_behind_its_mark_or_its_trace_is_refused(folder: Path) -> None:
    async def go() -> None:
        first, second = configure(folder)
        async with Endpoint(first) as a, Endpoint(second) as b:
            shutil.copy(folder / "b.journal", folder / "early")
            await a.send({"b"}, b"x")
            await take(b, 1)
        shutil.copy(folder / "early", folder / "b.journal")
        with pytest.raises(JournalError, match=r"input \d+ was committed"):
            await Endpoint(second).__aenter__()
        (folder / "b.journal.mark").unlink()
        with pytest.raises(JournalError, match=r"the trace has \d+ rows"):
            await Endpoint(second).__aenter__()

    run(go())


def test_processes_can_be_added_at_the_end_only(folder: Path) -> None:
    async def go() -> None:
        first, second, third = configure(folder, "abc")
        texts = {file: file.read_text() for file in (first, second, third)}
        for file in (first, second):
            text = file.read_text().replace('["a", "b", "c"]', '["a", "b"]')
            file.write_text("\n".join(line for line in text.splitlines() if not line.startswith('"c"')))
        async with Endpoint(first) as a, Endpoint(second) as b:
            await a.send({"b"}, b"x")
            await take(b, 1)
        for file, text in texts.items():
            file.write_text(text)
        async with Endpoint(first) as a, Endpoint(second) as b, Endpoint(third) as c:
            await a.send({"b", "c"}, b"y")
            assert [m.id for m in (*await take(b, 1), *await take(c, 1))] == ["a2", "a2"]
        first.write_text(texts[first].replace('["a", "b", "c"]', '["a", "c", "b"]'))
        with pytest.raises(MisuseError, match="added at the end"):
            await Endpoint(first).__aenter__()

    run(go())


def test_pruning_keeps_the_journal_small(folder: Path) -> None:
    async def go() -> None:
        first, second = configure(folder)
        async with Endpoint(first) as a, Endpoint(second) as b:
            a.process.snapshot_every = b.process.snapshot_every = 50
            for _ in range(12):
                await asyncio.gather(*(a.send({"b"}, b"x" * 1000) for _ in range(50)))
                await take(b, 50)
            for each in (a, b):
                rows = each.database.execute("SELECT count(*) FROM thence_inputs")[0][0]
                assert isinstance(rows, int)
                assert rows < 300
                assert each.journal.bytes() < 1 << 20

    run(go())


def test_the_endpoint_holds_with_a_cause_and_says_why(folder: Path) -> None:
    async def go() -> None:
        from thence.live.admin import why

        files = configure(folder, "abc")
        async with Endpoint(files[0]) as a, Endpoint(files[1]) as b:
            await a.send({"b", "c"}, b"question")
            await take(b, 1)
            await b.send({"c"}, b"answer")
            a.transport._stopping = True
            for channel in list(a.transport.channels):
                channel.abort()
            for task in a.transport._diallers:
                task.cancel()
            async with Endpoint(files[2]) as c:
                await until(lambda: bool(why(c)["held"]))
                (held,) = why(c)["held"]
                assert (held["message"], held["waits_for"], held["sender"]) == ("b1", ["a1"], "b")
                assert held["since"] > 0

    run(go())


def test_configuration_errors_name_the_key(tmp_path: Path) -> None:
    good = configure(tmp_path)[0].read_text()
    bad = tmp_path / "bad.toml"
    for old, new, told in (
        ('name = "a"', 'name = "z"', "name is 'z'"),
        ('protocol = "ks"', 'protocol = "kz"', "protocol: no protocol 'kz'"),
        ('protocol = "ks"', 'protocol = "central"', "protocol: protocol central needs coordinator"),
        ("stop_seconds = 0.2", "stop_seconds = 'x'", "limits.stop_seconds is 'x'"),
        ("stop_seconds = 0.2", "stopp_seconds = 1", "limits.stopp_seconds is not a key"),
        ("plain = true", "", "tls or plain"),
        ('"127.0.0.1:', '"8.8.8.8:', "addresses.a is 8.8.8.8"),
        ('synchronous = "full"', 'synchronous = "off"', "synchronous is 'off'"),
        ('journal = "a.journal"', "", "journal is missing"),
    ):
        bad.write_text(good.replace(old, new))
        with pytest.raises(MisuseError) as error:
            load(bad)
        assert told in str(error.value)


def test_standard_sqlite_is_what_the_journal_says_it_is(folder: Path) -> None:
    async def go() -> None:
        first, _ = configure(folder)
        async with Endpoint(first) as a:
            assert a.database.execute("PRAGMA journal_mode") == [("wal",)]
            assert a.database.execute("PRAGMA synchronous") == [(2,)]
        with sqlite3.connect(folder / "a.journal") as database:
            assert database.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        database.close()

    run(go())


def test_the_detector_keeps_a_majority_and_forgives_its_own_lateness() -> None:
    detector = Detector(0, 5, [0b111, 0b11000], interval=1.0, threshold=8.0, now=0.0)
    for now in range(1, 40):
        detector.tick(float(now))
        detector.heard(1, float(now))
        detector.heard(3, float(now))
    assert detector.trusted(39.0) == 0b11011  # 2 is silent; 4 is too, but is needed for a majority of its group
    assert detector.phi(2, 39.0) > 8.0 > detector.phi(1, 39.0)
    late = Detector(0, 2, [0b11], interval=1.0, threshold=8.0, now=0.0)
    late.tick(1.0)
    late.tick(100.0)
    assert late.phi(1, 100.0) < 1.5


@pytest.mark.parametrize("protocol", ["ks-ft", "a-causal"])
def test_a_minority_that_dies_for_good_does_not_hold_the_others_up(folder: Path, protocol: str) -> None:
    async def go() -> None:
        limits = {"heartbeat_seconds": 0.05}
        files = configure(folder, "abcd", plain=False, limits=limits, protocol=protocol, options={"groups": "abc|d"})
        async with Endpoint(files[0]) as a, Endpoint(files[1]) as b, Endpoint(files[3]) as d:
            c = await Endpoint(files[2]).__aenter__()
            await a.send({"a", "b", "c", "d"}, b"x" * 3000)
            assert [len(m.payload) for each in (a, b, c, d) for m in await take(each, 1)] == [3000] * 4
            for task in c._tasks:
                task.cancel()
            await c.transport.stop()  # as good as dead: it never says a word again
            await d.send({"a", "b", "c"}, b"after")
            assert [m.payload for each in (a, b) for m in await take(each, 1)] == [b"after"] * 2
            told = "SELECT data FROM thence_inputs WHERE kind = ? ORDER BY number"
            await until(lambda: a.database.execute(told, (TRUSTED,))[-1:] == [(b"a\nb\nd",)])
            c._let_go()

    run(go())


def test_a_journal_that_fails_answers_everybody_with_the_reason(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def go() -> None:
        first, second = configure(folder)
        async with Endpoint(first) as a, Endpoint(second) as b:
            await a.send({"b"}, b"x")
            (message,) = await take(b, 1, done=False)

            def fail() -> None:
                raise JournalError("no room")

            monkeypatch.setattr(b.database, "commit", fail)
            answers = await asyncio.gather(message.done(), b.send({"a"}, b"y"), return_exceptions=True)
            assert all("no room" in str(answer) for answer in answers)
            with pytest.raises(JournalError, match="no room"):
                await take(b, 1)
            await until(lambda: not a.process.links[1].open)
        monkeypatch.undo()
        async with Endpoint(second) as b:
            (again,) = await take(b, 1)
            assert again.redelivered

    run(go())
