"""Requests for a change of membership over the network, and their answers: `thence endpoint join` and `leave`.

A question is one frame, an answer is one frame, and asking again changes nothing: so either end may be killed at any
time. With TLS a process may request only its own change, by its own certificate; over NATS, by its own user
(`jetstream_ask.py`).
"""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from thence.core.model.plain import Row
from thence.errors import MisuseError, PeerError, ThenceError
from thence.live.config import Address, Config, parse_address
from thence.live.frames import ANSWER, ASK, HELLO_LIMIT, REFUSED, Framer, frame
from thence.live.inputs import Propose
from thence.live.tls import context, proven_name

if TYPE_CHECKING:
    from thence.live.process import LiveProcess

ASK_AGAIN_SECONDS = 0.3
CONNECT_SECONDS = 10.0


class Asker:
    """Waits until a change is committed, and answers."""

    gone = False

    def __init__(self, process: LiveProcess, answer: Callable[[bytes], None]) -> None:
        self._process, self._answer = process, answer

    def ask(self, given: Propose) -> None:
        """Queue the request; a repeated request, while members are away, adds no row to the journal."""
        process = self._process
        committed = process.group is None
        if committed and process.core.membership.begun(given):
            self.settle(None)
        else:
            process.ask(given, self)

    def settle(self, message: str | None) -> None:
        """Return the processes that have not accepted the change yet."""
        core = self._process.core
        self._say({"waiting": core.membership.waits_for(), "roster": list(core.roster)})

    def fail(self, error: ThenceError) -> None:
        """Answer with the error, or name the process to ask instead."""
        core = self._process.core
        proposer = core.roster.name(core.membership.proposer)
        self._say({"error": str(error)} if proposer == core.roster.name(core.me) else {"ask": proposer})

    def _say(self, row: Row) -> None:
        self._answer(json.dumps(row).encode())


def read_question(proven: str | None, body: bytes, process: LiveProcess, *, addressed: bool = True) -> Propose:
    """Parse a request and reject invalid ones; `addressed`: a joining process names its address."""
    core = process.core
    try:
        asked = json.loads(body)
        joins, name, address = asked["joins"], asked["name"], asked["address"]
        processes = asked["processes"]
        if not (isinstance(joins, bool) and isinstance(name, str) and 0 < len(name.encode()) <= 400):
            raise ValueError("no such change")
        if joins and addressed:
            parse_address(address)
        elif address != "":
            raise ValueError("an address")
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise PeerError(f"a question that cannot be read: {type(error).__name__} {error}") from None
    if proven is not None and proven != name:
        raise PeerError(f"{proven} asks for {name}; a process asks for itself only")
    if not core.member.grows:
        raise PeerError(f"protocol {core.member.name} needs a fixed membership; no process can join or leave")
    if joins and name in core.roster and core.membership.left >> core.roster.position(name) & 1:
        raise PeerError(f"{name} has left; its name cannot come back, choose another")
    wanted = [*core.roster, name] if name not in core.roster else list(core.roster)
    if joins and processes != wanted:
        raise PeerError(f"processes are {processes!r:.300} in the configuration of {name}; {wanted} is expected")
    return Propose(joins, name, address)


def read_answer(body: bytes) -> Row:
    """Parse an answer: an error, the process to ask instead, or the members that have not accepted yet."""
    try:
        answer: Row = json.loads(body)
        if {"error", "ask"} & answer.keys() or all(isinstance(answer[key], list) for key in ("waiting", "roster")):
            return answer
    except (ValueError, KeyError, AttributeError, RecursionError):
        pass
    raise PeerError(f"an answer of {len(body)} bytes that cannot be read")


async def change(config: Config, through: str, *, joins: bool, waiting: Callable[[list[str]], None]) -> list[str]:
    """Let the process of a configuration join or leave; return the roster once every member has accepted.

    `waiting` is called with the members that have not, whenever they differ from before.
    """
    others = [name for name in config.processes if name != config.name]
    if through not in others:
        raise MisuseError(f"--through is {through!r}; one of the other processes is expected: {', '.join(others)}")
    question = {
        "joins": joins,
        "name": config.name,
        "address": str(config.addresses[config.name]) if joins and config.nats is None else "",
        "processes": list(config.processes),
    }
    body = json.dumps(question).encode()
    if config.nats is None:
        return await _persuade(partial(_ask, config), through, others, body, waiting)
    from thence.live.jetstream_ask import JetStreamQuestions

    return await _persuade(JetStreamQuestions(config).ask, through, others, body, waiting)


async def _persuade(
    ask: Callable[[str, bytes], Awaitable[Row]],
    through: str,
    others: Sequence[str],
    body: bytes,
    waiting: Callable[[list[str]], None],
) -> list[str]:
    """Ask until every member has accepted."""
    before: list[str] | None = None
    peer = through
    while True:
        try:
            answer = await ask(peer, body)
        except (OSError, TimeoutError):
            answer = {"waiting": [peer], "roster": []}
        if "error" in answer:
            raise MisuseError(str(answer["error"]))
        if "ask" in answer:
            peer = str(answer["ask"])
            if peer not in others:
                raise MisuseError(f"{through} says to ask {peer}, which is not among processes: {', '.join(others)}")
            continue
        late = [str(name) for name in answer["waiting"]]
        if not late:
            return [str(name) for name in answer["roster"]]
        if late != before:
            waiting(late)
            before = late
        await asyncio.sleep(ASK_AGAIN_SECONDS)


async def _ask(config: Config, peer: str, body: bytes) -> Row:
    address: Address = config.addresses[peer]
    made = None if config.tls is None else context(config.tls, ssl.PROTOCOL_TLS_CLIENT)
    async with asyncio.timeout(CONNECT_SECONDS):
        reader, writer = await asyncio.open_connection(address.host, address.port, ssl=made)
        try:
            proven = proven_name(writer.get_extra_info("ssl_object"))
            if proven is not None and proven != peer:
                raise MisuseError(f"{address} is {proven}, not {peer}")
            writer.write(frame(ASK, body))
            framer = Framer(HELLO_LIMIT)
            while data := await reader.read(1 << 16):
                for kind, found in framer.feed(data):
                    if kind == REFUSED:
                        return {"error": bytes(found).decode("utf-8", "replace")}
                    if kind == ANSWER:
                        return read_answer(bytes(found))
        finally:
            with suppress(OSError, ssl.SSLError):
                writer.close()
    raise ConnectionError("it has ended before it answered")
