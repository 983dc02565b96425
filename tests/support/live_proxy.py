"""A proxy before every process of a fleet, in its own thread: cuts, delays, or stands still one way or both."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Mapping
from random import Random


class Pipe(asyncio.Protocol):
    """One side of a connection through the proxy."""

    def __init__(self, other: Pipe | None = None) -> None:
        self.other = other
        self.transport: asyncio.Transport | None = None
        self.kept: deque[tuple[float, bytes]] = deque()
        """what has come, and when it goes on"""
        self.still = False
        self.delay = 0.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        if self.other is not None:
            self.other.other = self
            self.other.flush()

    def data_received(self, data: bytes) -> None:
        loop = asyncio.get_running_loop()
        self.kept.append((loop.time() + self.delay, data))
        if self.delay:
            loop.call_later(self.delay, self.flush)
        self.flush()

    def flush(self) -> None:
        now = asyncio.get_running_loop().time() + 0.001  # a timer may come a clock's tick too soon
        if not self.still and self.other is not None and self.other.transport is not None:
            while self.kept and self.kept[0][0] <= now:
                self.other.transport.write(self.kept.popleft()[1])

    def connection_lost(self, exc: Exception | None) -> None:
        if self.other is not None and self.other.transport is not None:
            self.other.transport.close()

    def abort(self) -> None:
        for each in (self, self.other):
            if each is not None and each.transport is not None:
                each.transport.abort()


class Proxies:
    """Forwards each of some ports to another."""

    def __init__(self, routes: Mapping[int, int]) -> None:
        self.routes, self.pipes = routes, set[Pipe]()
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.ready = threading.Event()
        self.thread.start()
        assert self.ready.wait(60)

    def _run(self) -> None:
        async def listen() -> None:
            for outside, inside in self.routes.items():
                await self.loop.create_server(lambda inside=inside: self._accept(inside), "127.0.0.1", outside)
            self.ready.set()

        self.loop.run_until_complete(listen())
        self.loop.run_forever()

    def _accept(self, inside: int) -> Pipe:
        pipe = Pipe()
        self.pipes.add(pipe)

        async def dial() -> None:
            try:
                await self.loop.create_connection(lambda: Pipe(pipe), "127.0.0.1", inside)
            except OSError:
                pipe.abort()

        self.loop.create_task(dial())
        return pipe

    def cut(self, chance: Random, one_way: bool) -> None:
        """Cut a connection, or let one direction of it stand still and cut it a second later."""
        self.loop.call_soon_threadsafe(self._cut, chance.random(), one_way, chance.random() < 0.5)

    def _alive(self) -> list[Pipe]:
        alive = [p for p in self.pipes if p.transport is not None and not p.transport.is_closing()]
        self.pipes = set(alive)
        return sorted(alive, key=id)

    def _cut(self, which: float, one_way: bool, back: bool) -> None:
        alive = self._alive()
        if not alive:
            return
        pipe = alive[int(which * len(alive))]
        if not one_way:
            pipe.abort()
            return
        side = pipe.other if back and pipe.other is not None else pipe
        side.still = True
        self.loop.call_later(1.0, pipe.abort)

    def delay(self, chance: Random, seconds: float) -> None:
        """Let one connection be slow, both ways, for as long as it lasts."""
        self.loop.call_soon_threadsafe(self._delay, chance.random(), seconds)

    def _delay(self, which: float, seconds: float) -> None:
        if alive := self._alive():
            pipe = alive[int(which * len(alive))]
            for side in (pipe, pipe.other):
                if side is not None:
                    side.delay = max(side.delay, seconds)  # never shorter: bytes must not overtake each other

    def swallow(self, chance: Random | None = None, share: float = 1.0) -> None:
        """Let connections there are, all or a share, take bytes and give none, forever; later ones are not touched."""
        done = threading.Event()

        def still() -> None:
            for pipe in self._alive():
                if chance is None or chance.random() < share:
                    for side in (pipe, pipe.other):
                        if side is not None:
                            side.still = True
            done.set()

        self.loop.call_soon_threadsafe(still)
        assert done.wait(60)

    def close(self) -> None:
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join(60)
