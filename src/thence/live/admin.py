"""The local admin socket of a running endpoint: reports what it holds, and for which cause.

One line of JSON in, one line of JSON out, over a Unix socket that only its owner may open.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
from pathlib import Path
from typing import TYPE_CHECKING

from thence.core.model.plain import Row
from thence.core.protocols.effects import Pending
from thence.errors import MisuseError
from thence.live.link import Link

if TYPE_CHECKING:
    from thence.live.endpoint import Endpoint

QUESTION_LIMIT = 1 << 16


class Admin:
    """Answers on the socket of one endpoint."""

    def __init__(self, endpoint: Endpoint, path: Path) -> None:
        self.endpoint, self.path = endpoint, path
        self._server: asyncio.Server | None = None

    async def start(self) -> None:
        """Create the socket and answer requests on it."""
        self.path.unlink(missing_ok=True)
        if len(str(self.path)) > 100:
            raise MisuseError(f"admin is {self.path}, which is longer than the 100 characters of a socket's name")
        before = os.umask(0o177)
        try:
            self._server = await asyncio.start_unix_server(self._serve, str(self.path), limit=QUESTION_LIMIT)
        finally:
            os.umask(before)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(5.0):
                line = await reader.readline()
            writer.write(json.dumps(await self._answer(line)).encode() + b"\n")
            await writer.drain()
        except (TimeoutError, ValueError, OSError):
            pass  # the client is gone, or its request is not JSON
        finally:
            writer.close()

    async def _answer(self, line: bytes) -> Row:
        asked = json.loads(line)
        if asked == {"ask": "why"}:
            return why(self.endpoint)
        if isinstance(asked, dict) and asked.get("ask") == "abandon" and isinstance(asked.get("process"), str):
            try:
                await self.endpoint.abandon(asked["process"])
            except MisuseError as error:
                return {"error": str(error)}
            return {"abandoned": asked["process"]}
        return {"error": "ask is one of why, abandon"}

    async def stop(self) -> None:
        """Stop answering and remove the socket."""
        if self._server is not None:
            self._server.close()
            self.path.unlink(missing_ok=True)


def why(endpoint: Endpoint) -> Row:
    """Report what an endpoint holds, the causes it waits for and their senders, its links and its journal."""
    process = endpoint.process
    core, journal = process.core, process.journal
    pending = core.member.pending()
    since = {core.name(key): journal.time(ref.number) for key, ref in core.payloads.items()}
    return {
        "process": core.roster.name(core.me),
        "protocol": core.member.name,
        "failure": None if endpoint.failure is None else str(endpoint.failure),
        "held": [_explained(each) | {"since": since.get(_name(each))} for each in pending if each.what == "copy"],
        "roots": _roots(endpoint, pending, since),
        "deferred": [_explained(each) for each in pending if each.what != "copy"],
        "payloads_awaited": [core.name(key) for key in core.aside],
        "inbox": len(core.inbox),
        "links": [_described(link) for position, link in enumerate(process.links) if position != core.me],
        "journal": {
            "identity": journal.identity,
            "inputs": core.number,
            "deliveries": core.deliveries,
            "bytes": journal.bytes(),
            "synchronous": endpoint.config.synchronous,
            "path": str(endpoint.config.journal),
        },
    }


def _roots(endpoint: Endpoint, pending: list[Pending], since: dict[str, float | None]) -> list[Row]:
    """Return the processes whose missing messages block others, with how many wait, directly or not, and since when.

    A cause that is itself held here is not a root; what it waits for is.
    """
    process = endpoint.process
    held = {_name(each): each for each in pending if each.what == "copy"}
    lacks: dict[str, frozenset[str]] = {}

    def lacking(name: str) -> frozenset[str]:
        todo = [name]
        while todo:
            each = held[todo[-1]]
            suffix = f"/{each.label}" if each.label else ""
            causes = [(f"{cause}{suffix}", cause.sender) for cause in each.waits_for]
            open_ones = [cause for cause, _ in causes if cause in held and cause not in lacks and cause not in todo]
            if open_ones:
                todo += open_ones
                continue
            found = {sender for cause, sender in causes if cause not in held}
            found.update(*(lacks.get(cause, ()) for cause, _ in causes))
            lacks[todo.pop()] = frozenset(found)
        return lacks[name]

    waiting: dict[str, list[str]] = {}
    for message in held:
        for name in sorted(lacking(message)):
            waiting.setdefault(name, []).append(message)
    here = endpoint.transport.reachable()
    rows: list[Row] = []
    for name, messages in waiting.items():
        times = [at for at in map(since.get, messages) if at is not None]
        reachable = process.core.roster.position(name) in here
        oldest = min(times, default=None)
        rows.append({"process": name, "reachable": reachable, "messages": len(messages), "since": oldest})
    return sorted(rows, key=lambda row: (-row["messages"], row["process"]))


def _explained(pending: Pending) -> Row:
    return {
        "message": pending.message,
        "sender": pending.sender,
        "label": pending.label,
        "waits_for": [str(cause) for cause in pending.waits_for],
        "processes": list(pending.processes),
        "reason": pending.reason,
    }


def _name(pending: Pending) -> str:
    """Name a held message as the trace does."""
    return f"{pending.message}/{pending.label}" if pending.label else str(pending.message)


def _described(link: Link) -> Row:
    return {
        "process": link.name,
        "connected": link.open,
        "refusal": link.refusal,
        "sent": link.outbox.sent,
        "acknowledged": link.outbox.acked,
        "received": link.received,
        "abandoned": link.outbox.closed,
    }


def ask(path: Path, question: Row) -> Row:
    """Put a question to the endpoint behind a socket."""
    try:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(10.0)
            connection.connect(str(path))
            connection.sendall(json.dumps(question).encode() + b"\n")
            data = b""
            while not data.endswith(b"\n"):
                more = connection.recv(1 << 16)
                if not more:
                    break
                data += more
    except OSError as error:
        raise MisuseError(f"no endpoint answers at {path}: {error.strerror or error}; is it running?") from error
    if not data:
        raise MisuseError(f"the endpoint at {path} did not answer")
    answer: Row = json.loads(data)
    if "error" in answer:
        raise MisuseError(str(answer["error"]))
    return answer
