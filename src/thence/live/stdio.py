"""An endpoint for shells and other languages: JSON lines in, JSON lines out.

In: `{"send": ["b", "c"], "payload": "text"}` (or `"base64": "..."`; `"label"` is optional), `{"done": 3}`.
Out: `{"ready": "a"}`, `{"sent": "a1"}` once it cannot be lost, `{"delivered": "b4", "number": 3, "sender": "b",
"payload": "...", "redelivered": false}` in causal order, `{"error": "..."}` for a line that cannot be used.

A delivery is done once its line is written, or, with `manual`, when a line says so.
"""

from __future__ import annotations

import asyncio
import base64
import json
import signal
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import IO

from thence.core.model.plain import Row
from thence.errors import MisuseError, ThenceError
from thence.live.endpoint import Endpoint
from thence.live.message import Message

Write = Callable[[Row], None]
KEYS = {"send": ("send", "payload", "base64", "label"), "done": ("done",)}
"""the keys of each kind of input line"""
AHEAD = 1000
"""lines of the input that are read before they are dealt with"""


async def converse(endpoint: Endpoint, *, manual: bool = False, linger: float | None = None) -> None:
    """Run an endpoint between standard input and output until it is interrupted.

    With `linger` it also ends that many seconds after the end of the input.
    """

    def write(row: Row) -> None:
        sys.stdout.write(json.dumps(row, ensure_ascii=False) + "\n")
        sys.stdout.flush()

    # A reader of our own: where a thread still waits for a line of Python's, Python aborts as it ends.
    source = open(sys.stdin.fileno(), "rb", closefd=False)  # noqa: SIM115
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for each in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(each, stop.set)
    async with endpoint as me:
        write({"ready": me.config.name})
        waiting: dict[int, Message] = {}
        tasks = [
            loop.create_task(_read(me, source, write, waiting, stop, linger)),
            loop.create_task(_deliver(me, write, waiting, manual)),
            loop.create_task(stop.wait()),
        ]
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for task in done:
            if not task.cancelled() and (error := task.exception()) is not None:
                raise error


async def _deliver(me: Endpoint, write: Write, waiting: dict[int, Message], manual: bool) -> None:
    async for message in me.deliveries():
        row: Row = {"delivered": message.id, "number": message.number, "sender": message.sender}
        if message.label is not None:
            row["label"] = message.label
        try:
            row["payload"] = message.payload.decode()
        except UnicodeDecodeError:
            row["base64"] = base64.b64encode(message.payload).decode()
        write({**row, "redelivered": message.redelivered})
        if manual:
            waiting[message.number] = message
        else:
            await message.done()


async def _read(
    me: Endpoint,
    source: IO[bytes],
    write: Write,
    waiting: dict[int, Message],
    stop: asyncio.Event,
    linger: float | None,
) -> None:
    lines: asyncio.Queue[bytes | None] = asyncio.Queue()
    loop = asyncio.get_running_loop()
    room = threading.Semaphore(AHEAD)

    def pull() -> None:
        with suppress(RuntimeError):  # the loop is closed: the endpoint has stopped, and nothing waits for this line
            for line in source:
                room.acquire()
                loop.call_soon_threadsafe(lines.put_nowait, line)
            loop.call_soon_threadsafe(lines.put_nowait, None)

    threading.Thread(target=pull, daemon=True, name="thence-input").start()
    while (line := await lines.get()) is not None:
        room.release()
        if line.strip():
            try:
                await _line(me, line, write, waiting)
            except ThenceError as error:
                write({"error": str(error)})
                me.writer.check()
    if linger is None:
        await stop.wait()
    else:
        await asyncio.sleep(linger)


async def _line(me: Endpoint, line: bytes, write: Write, waiting: dict[int, Message]) -> None:
    shown = repr(line.strip()[:60].decode(errors="backslashreplace"))
    try:
        asked = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise MisuseError(f"not JSON: {shown}: {error}") from None
    for verb, keys in KEYS.items():
        if isinstance(asked, dict) and verb in asked and (unknown := asked.keys() - {*keys}):
            raise MisuseError(f"{min(unknown)!r:.60} is not a key of a {verb} line; accepted: {', '.join(keys)}")
    if isinstance(asked, dict) and "send" in asked:
        write({"sent": await me.send(*_send(asked), label=asked.get("label"))})
    elif isinstance(asked, dict) and isinstance(asked.get("done"), int) and asked["done"] in waiting:
        await waiting.pop(asked["done"]).done()
        write({"done": asked["done"]})
    else:
        raise MisuseError(f"{shown} is not understood; a line with send, or with done of an open delivery, is accepted")


def _send(asked: Row) -> tuple[list[str], bytes]:
    to = asked["send"]
    if not isinstance(to, list) or not all(isinstance(name, str) for name in to):
        raise MisuseError(f"send is {to!r:.60}; a list of names is expected")
    if isinstance(asked.get("base64"), str):
        try:
            return to, base64.b64decode(asked["base64"], validate=True)
        except ValueError as error:
            raise MisuseError(f"base64: {error}") from None
    if not isinstance(asked.get("payload"), str):
        raise MisuseError('a send needs a payload: "payload" with a text is accepted, or "base64" with bytes')
    try:
        return to, asked["payload"].encode()
    except UnicodeEncodeError as error:
        raise MisuseError(f"payload: {error.reason} at position {error.start + 1}") from None
