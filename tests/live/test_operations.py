"""What operators see of an endpoint: metrics, logs, files of the trace, and the loop it runs on."""

from __future__ import annotations

import asyncio
import json
import logging
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TextIO, cast
from urllib.request import urlopen

import pytest
import uvloop
from support.live_pair import PATIENCE, configure, folder, run, take, until
from support.processes import free_ports

import thence
from thence.cli.why import _show as show_why
from thence.errors import MisuseError
from thence.live.admin import why
from thence.live.database import JournalError, StandardDatabase
from thence.live.inputs import SEND
from thence.live.journal import Journal
from thence.live.logs import EVENTS, JsonFormatter
from thence.live.stdio import _line, _read
from thence.runtime import Endpoint

assert folder is not None


def test_prometheus_finds_the_counters(folder: Path) -> None:
    async def go() -> None:
        first, second = configure(folder)
        (port,) = free_ports(1)
        first.write_text(f'metrics = "127.0.0.1:{port}"\n' + first.read_text())
        async with Endpoint(first) as a, Endpoint(second) as b:
            await a.send({"b"}, b"x")
            await take(b, 1)
            await until(lambda: a.process.links[1].outbox.acked == 1)

            def read() -> list[str]:
                with urlopen(f"http://127.0.0.1:{port}/metrics", timeout=PATIENCE) as answer:
                    return list(answer.read().decode().splitlines())

            lines = await asyncio.to_thread(read)
            assert 'thence_live_sent_total{peer="b"} 1.0' in lines
            assert 'thence_live_on_their_way{peer="b"} 0.0' in lines
            assert "thence_live_held 0.0" in lines
            assert not any(line.startswith("thence_live_commit_seconds_count 0") for line in lines)

    run(go())


def test_an_endpoint_that_cannot_start_leaves_nothing_behind(folder: Path) -> None:
    async def go() -> None:
        first, _ = configure(folder)
        text = first.read_text()
        taken = await asyncio.start_server(lambda reader, writer: None, "127.0.0.1", 0)
        port = taken.sockets[0].getsockname()[1]
        first.write_text(f'metrics = "127.0.0.1:{port}"\n' + text)
        before = asyncio.all_tasks()
        with pytest.raises(MisuseError, match=f"metrics is 127.0.0.1:{port}: Address already in use"):
            await Endpoint(first).__aenter__()
        assert asyncio.all_tasks() == before
        taken.close()
        first.write_text(text)
        async with Endpoint(first) as a:
            assert await a.send({"b"}, b"x") == "a1"

    run(go())


def test_logs_are_sentences_and_facts(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "thence.runtime")

    async def go() -> None:
        first, second = configure(folder)
        async with Endpoint(first) as a:
            async with Endpoint(second) as b:
                await a.send({"b"}, b"x")
                await take(b, 1)
            for file in folder.glob("b.j*"):
                file.unlink()
            async with Endpoint(second):
                await until(lambda: a.process.links[1].refusal is not None)

    run(go())
    rows = [json.loads(JsonFormatter().format(record)) for record in caplog.records if record.name == "thence.runtime"]
    assert {row["event"] for row in rows} <= EVENTS.keys()
    assert {row["event"] for row in rows} - {"refuses"} == {"started", "connected", "lost", "refused", "stopped"}
    refusals = [row for row in rows if row["event"] == "refused" and row["process"] == "a"]
    assert refusals  # one for each time that it dials before b has stopped
    for refusal in refusals:
        assert (refusal["peer"], refusal["level"]) == ("b", "warning")
        assert "lost its memory" in refusal["reason"]
        assert refusal["reason"] in refusal["sentence"]
    assert rows[0]["time"].endswith("+00:00")


def test_a_record_of_another_logger_is_a_line_too() -> None:
    try:
        raise ZeroDivisionError
    except ZeroDivisionError as error:
        record = logging.getLogger("asyncio").makeRecord(
            "asyncio", logging.ERROR, "", 0, "%s!", ("x",), (ZeroDivisionError, error, error.__traceback__)
        )
    row = json.loads(JsonFormatter().format(record))
    assert (row["sentence"], row["event"], row["logger"]) == ("x!", None, "asyncio")
    assert "ZeroDivisionError" in row["traceback"]


async def exchange(first: Path, second: Path, count: int) -> None:
    async with Endpoint(first) as a, Endpoint(second) as b:
        for _ in range(count):
            await a.send({"b"}, b"x")
        await take(b, count)
        await until(lambda: a.process.links[1].outbox.acked == a.process.links[1].outbox.sent)


def test_the_trace_goes_on_in_new_files(folder: Path) -> None:
    async def go() -> None:
        first, second = configure(folder, limits={"record_bytes": 1500})
        await exchange(first, second, 20)
        await exchange(first, second, 20)

    run(go())
    files = sorted(folder.glob("a.*jsonl"))
    assert len(files) > 3
    assert all(file.stat().st_size < 2000 for file in files)
    found = thence.audit(sorted(folder.glob("*.jsonl")))
    assert (found.verdict, found.messages) == ("causal", 40)


def test_a_trace_begun_anew_at_rest_has_a_gap_and_nothing_else(folder: Path) -> None:
    async def go() -> None:
        first, second = configure(folder)
        await exchange(first, second, 20)
        await exchange(first, second, 1)  # so that the older snapshot, too, is of a time when the first 20 were done
        for file in folder.glob("*.jsonl"):
            file.unlink()
        await exchange(first, second, 20)

    run(go())
    found = thence.audit(sorted(folder.glob("*.jsonl")))
    assert (found.verdict, found.messages) == ("unknown", 20)
    assert not any(found.runs[0][what] for what in ("undelivered", "duplicates", "misdelivered"))


def test_a_line_that_comes_after_the_end_is_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever writes the lines need not know that the endpoint has stopped."""
    troubles: list[object] = []
    monkeypatch.setattr(threading, "excepthook", troubles.append)
    ended = threading.Event()

    class Late:
        def __iter__(self) -> Iterator[str]:
            ended.wait()
            yield "one line\n"

    nobody: Any = None

    async def go() -> threading.Thread:
        reading = asyncio.create_task(_read(nobody, cast(TextIO, Late()), nobody, {}, asyncio.Event(), None))
        await until(lambda: any(each.name == "thence-input" for each in threading.enumerate()))
        reading.cancel()
        (thread,) = [each for each in threading.enumerate() if each.name == "thence-input"]
        return thread

    thread = asyncio.run(go())
    ended.set()
    thread.join()
    assert troubles == []


def test_endpoints_run_on_uvloop(folder: Path) -> None:
    async def go() -> None:
        assert isinstance(asyncio.get_running_loop(), uvloop.Loop)
        first, second = configure(folder, plain=False)
        async with Endpoint(first) as a, Endpoint(second) as b:
            await asyncio.gather(*(a.send({"b"}, b"%d" % number) for number in range(200)))
            assert [int(m.payload) for m in await take(b, 200)] == list(range(200))

    uvloop.run(go())


def test_why_names_the_root_of_a_jam_first(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """c hears b's answers to a message of a that it cannot get: all of them wait for a."""

    async def go() -> None:
        files = configure(folder, "abc")
        async with Endpoint(files[1]) as b, Endpoint(files[2]) as c:
            async with Endpoint(files[0]) as a:
                await until(lambda: all(link.open for link in a.process.links[1:]))
                a.process.sessions[2].flush = lambda: None  # type: ignore[method-assign]
                await a.send({"b", "c"}, b"question")
                await take(b, 1)
                for _ in range(30):
                    await b.send({"c"}, b"answer")
                await until(lambda: len(c.process.core.payloads) == 30)
                a.process.sessions[2].channel.abort()  # type: ignore[attr-defined]
                a.transport._stopping = True  # type: ignore[attr-defined]
                for task in a.transport._diallers:  # type: ignore[attr-defined]
                    task.cancel()
                await until(lambda: not c.process.links[0].open)
                answer = why(c)
                (root,) = answer["roots"]
                assert (root["process"], root["reachable"], root["messages"]) == ("a", False, 30)
                show_why(answer, None)

    run(go())
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("All 30 held messages wait for a, which is away, the first for ")
    assert any("the first 20 of 30" in line for line in lines)
    assert sum("answer" in line or " b1 " in line or "waits" in line for line in lines) < 25
    assert len(lines) < 40


def test_a_backup_that_cannot_be_written_says_why_and_ends_nothing(folder: Path) -> None:
    async def go() -> None:
        async with Endpoint(configure(folder)[0]) as a:
            with pytest.raises(JournalError, match=r"cannot be copied to .*copy: No such file or directory"):
                await a.backup(folder / "missing" / "copy")
            with pytest.raises(MisuseError, match=r"a\.journal is the journal itself; a copy goes to another file"):
                await a.backup(str(a.config.journal))
            assert await a.send({"b"}, b"x") == "a1"

    run(go())


def test_a_backup_lets_the_endpoint_go_on(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However long a journal takes to copy: messages are sent meanwhile, and the copy is whole."""
    sent, real = threading.Event(), StandardDatabase.backup

    def slow(self: StandardDatabase, target: Path | str) -> None:
        assert sent.wait(60), "nothing could be sent while a copy was made"
        real(self, target)

    monkeypatch.setattr(StandardDatabase, "backup", slow)

    async def go() -> None:
        async with Endpoint(configure(folder)[0]) as a:
            copying = asyncio.create_task(a.backup(folder / "copy"))
            await asyncio.sleep(0)
            name = await a.send({"b"}, b"x")
            sent.set()
            await copying
            assert name == "a1"

    run(go())
    journal = Journal(StandardDatabase(folder / "copy"))
    assert [journal.payload(row.number) for row in journal.inputs(0) if row.kind == SEND] == [b"x"]
    journal.close()


@pytest.mark.parametrize(
    ("line", "told"),
    [
        (b'{"send": ["b"], "payload": "ok", "lable": "l"}', "'lable' is not a key of a send line; accepted: send, "),
        (b'{"done": 3, "number": 3}', "'number' is not a key of a done line; accepted: done"),
    ],
)
def test_an_input_line_with_an_unknown_key_is_refused(folder: Path, line: bytes, told: str) -> None:
    async def go() -> None:
        async with Endpoint(configure(folder)[0]) as a:
            with pytest.raises(MisuseError, match=told):
                await _line(a, line, lambda row: None, {})

    run(go())
