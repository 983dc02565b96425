"""Messages that are given back: handed over again, later, so many times, and then to the dead letters."""

from __future__ import annotations

import asyncio
import json
import shutil
from pathlib import Path

import pytest
from support.live_pair import PATIENCE, configure, folder, run, take, until

from thence.errors import MisuseError
from thence.live.message import FIRST_PAUSE, LAST_PAUSE
from thence.runtime import DoneError, Endpoint, load

assert folder is not None


def with_dead_letters(folder: Path, attempts: int) -> list[Path]:
    files = configure(folder, "abc", limits={"attempts": attempts})
    for file in files:
        file.write_text('dead_letter = "c"\n' + file.read_text())
    return files


def test_a_message_that_is_given_back_comes_again_before_new_ones(folder: Path) -> None:
    async def go() -> None:
        first, second = configure(folder)
        async with Endpoint(first) as a, Endpoint(second) as b:
            for text in (b"1", b"2", b"3", b"4"):
                await a.send({"b"}, text)
            one, two, three = await take(b, 3, done=False)
            await three.nack()
            await one.nack()
            await until(lambda: len(b.inbox) == 3)
            again = await take(b, 3, done=False)
            assert [(m.payload, m.attempt, m.redelivered) for m in again] == [
                (b"1", 2, True),
                (b"3", 2, True),
                (b"4", 1, False),
            ]
            await two.done()
            with pytest.raises(DoneError, match="a2 is done already"):
                await two.nack()

    run(go())


def test_after_so_many_seconds(folder: Path) -> None:
    async def go() -> None:
        first, second = configure(folder)
        async with Endpoint(first) as a, Endpoint(second) as b:
            await a.send({"b"}, b"1")
            (message,) = await take(b, 1, done=False)
            began = asyncio.get_running_loop().time()
            await message.nack(after=0.3)
            assert not b.inbox
            assert [m.attempt for m in await take(b, 1)] == [2]
            assert asyncio.get_running_loop().time() - began >= 0.29
            await until(lambda: not b.process.attempts)
            assert b.database.execute("SELECT * FROM thence_attempts") == []

    run(go())


def test_what_was_tried_often_enough_goes_to_the_dead_letters_in_one_commit(folder: Path) -> None:
    async def go() -> None:
        files = with_dead_letters(folder, 3)
        async with Endpoint(files[0]) as a, Endpoint(files[1]) as b, Endpoint(files[2]) as c:
            await a.send({"b"}, b"\x00poison")
            for attempt in (1, 2, 3):
                (message,) = await take(b, 1, done=False)
                assert message.attempt == attempt
                await message.nack(reason="cannot be read")
            (dead,) = await take(c, 1)
            assert (dead.label, dead.sender) == ("dead-letter", "b")
            head, _, payload = dead.payload.partition(b"\n")
            assert payload == b"\x00poison"
            assert json.loads(head) == {
                "message": "a1",
                "sender": "a",
                "label": None,
                "attempts": 3,
                "reason": "cannot be read",
            }
            assert not b.process.core.inbox
            assert not b.inbox

    run(go())


def test_a_message_that_ends_the_process_is_given_up_too(folder: Path) -> None:
    """Each life ends with the message in hand; the journal as it is then is what the next life finds."""

    async def go() -> None:
        files = with_dead_letters(folder, 2)
        async with Endpoint(files[0]) as a, Endpoint(files[2]) as c:
            await a.send({"b"}, b"poison")
            lives = 0
            while True:
                async with Endpoint(files[1]) as b:
                    reader = asyncio.create_task(take(b, 1, done=False))
                    dead = asyncio.create_task(take(c, 1))
                    await asyncio.wait({reader, dead}, timeout=PATIENCE, return_when=asyncio.FIRST_COMPLETED)
                    over = dead.done()
                    for task in (reader, dead):
                        task.cancel()
                    await asyncio.gather(reader, dead, return_exceptions=True)
                    lives += 1
                    for file in folder.glob("b.journal*"):
                        shutil.copy(file, folder / f"killed-{file.name}")
                if over:
                    break
                for file in folder.glob("killed-*"):
                    shutil.move(file, folder / file.name.removeprefix("killed-"))
            assert lives == 4  # the first attempt is not in the journal, so there is one more than the limit says
            assert not b.process.core.inbox

    run(go())


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ("", "limits.attempts is 2; dead_letter, a process, is expected"),
        ('dead_letter = "z"\n', r"dead_letter is 'z'; one of processes \(a, b\) is expected"),
    ],
)
def test_dead_letters_need_a_destination(folder: Path, change: str, told: str) -> None:
    first, _ = configure(folder, limits={"attempts": 2})
    first.write_text(change + first.read_text())
    with pytest.raises(MisuseError, match=told):
        load(first)


def test_a_message_whose_transaction_is_rolled_back_often_enough_is_given_up(folder: Path) -> None:
    async def go() -> None:
        files = with_dead_letters(folder, 2)
        async with Endpoint(files[0]) as a, Endpoint(files[1]) as b, Endpoint(files[2]) as c:
            await a.send({"b"}, b"poison")
            await a.send({"b"}, b"next")
            seen: list[tuple[bytes, int]] = []
            async with asyncio.timeout(PATIENCE):
                async for message in b.deliveries():
                    seen.append((message.payload, message.attempt))
                    try:
                        async with message.transaction():
                            if message.payload == b"poison":
                                raise ValueError("cannot be read")
                    except ValueError:
                        continue
                    break
            assert seen == [(b"poison", 1), (b"poison", 2), (b"next", 1)]
            (dead,) = await take(c, 1)
            head = json.loads(dead.payload.partition(b"\n")[0])
            assert (head["attempts"], "transaction was rolled back" in head["reason"]) == (2, True)

    run(go())


def test_a_message_that_was_rolled_back_can_be_given_back_for_later(folder: Path) -> None:
    async def go() -> None:
        first, second = configure(folder)
        async with Endpoint(first) as a, Endpoint(second) as b:
            await a.send({"b"}, b"1")
            for attempt in (1, 2, 3):
                (message,) = await take(b, 1, done=False)
                assert message.attempt == attempt
                with pytest.raises(ValueError, match="busy"):
                    async with message.transaction():
                        raise ValueError("busy")
                assert b.pause == FIRST_PAUSE * 2 ** (attempt - 1)
                assert len(b.inbox) == 1
            await message.nack(after=PATIENCE)
            assert not b.inbox  # it does not come before its time
            message.attempt = 100
            message.given_back = False
            message.rolled_back()
            assert b.pause == LAST_PAUSE

    run(go())
