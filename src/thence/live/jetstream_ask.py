"""Requests for a change of membership through NATS servers, and their answers.

Invariant: the subject identifies who asks and who answers, because a user may publish only under its own name. A
question and its answer begin with the same random mark: a late answer is not taken for that to another question.
"""

from __future__ import annotations

import asyncio
import json
import secrets
import ssl
from typing import TYPE_CHECKING

from thence.core.model.plain import Row
from thence.errors import MisuseError, PeerError
from thence.live.changes import Asker, read_answer, read_question
from thence.live.config import Config
from thence.live.frames import HELLO_LIMIT
from thence.live.nats_server import Subjects, connection_settings, read_password
from thence.live.tls import client_context, tls_problem

if TYPE_CHECKING:
    from nats.aio.client import Client
    from nats.aio.msg import Msg

    from thence.live.jetstream import JetStreamTransport

ANSWER_SECONDS = 3.0


class JetStreamQuestions:
    """The side that asks: a process that joins or leaves. Each question has a connection of its own."""

    def __init__(self, config: Config) -> None:
        """Take the configuration of the process that asks."""
        assert config.nats is not None
        self.config, self.nats, self.names = config, config.nats, Subjects(config.nats.stream)
        self._reached = False

    async def ask(self, peer: str, body: bytes) -> Row:
        """Put a question to a process; OSError or TimeoutError if it does not answer."""
        from nats.errors import Error

        try:
            client = await self._connect()
            try:
                async with asyncio.timeout(ANSWER_SECONDS):
                    return await self._answer(client, peer, body)
            finally:
                await client.close()
        except Error as error:
            raise ConnectionError(str(error)) from error

    async def _connect(self) -> Client:
        """Connect as the user of this process; servers that never were there are a mistake, later ones are away."""
        from nats.aio.client import Client
        from nats.errors import Error

        tls = None if self.config.tls is None else client_context(self.config.tls)
        client, found = Client(), list[Exception]()

        async def noted(error: Exception) -> None:
            found.append(error)

        try:
            await client.connect(
                **connection_settings(self.config, read_password(self.nats), tls),
                allow_reconnect=False,
                max_reconnect_attempts=1,
                reconnect_time_wait=1,
                error_cb=noted,
            )
        except (Error, OSError, TimeoutError) as error:
            if "authorization" in str(error).lower():
                raise MisuseError(
                    f"the NATS servers refuse user {self.nats.user!r}; add it to their configuration, reload them, and "
                    "check nats.user and nats.password"
                ) from error
            if self._reached:
                raise
            why = found[-1] if found else error  # of no use is that no server is left to try
            reason = tls_problem(why) if isinstance(why, ssl.SSLError) else f"{type(why).__name__} {why}".strip()
            raise MisuseError(
                f"no server of nats.servers ({', '.join(self.nats.servers)}) answers: {reason}"
            ) from error
        self._reached = True
        return client

    async def _answer(self, client: Client, peer: str, body: bytes) -> Row:
        answers = await client.subscribe(self.names.answer(peer, self.config.name))
        await client.flush()
        mark = secrets.token_hex(8).encode()
        await client.publish(self.names.question(self.config.name, peer), mark + b" " + body)
        async for message in answers.messages:
            same, _, answer = message.data.partition(b" ")
            if same == mark:
                return read_answer(answer)
        raise ConnectionError("the NATS server is away")


class JetStreamAnswers:
    """The side that is asked: a member."""

    def __init__(self, transport: JetStreamTransport) -> None:
        """Answer for the process of a transport."""
        self._transport = transport
        self._tasks: set[asyncio.Task[None]] = set()

    def take(self, message: Msg) -> None:
        """Take a question; the answer follows when the change is committed, or refused."""
        transport = self._transport
        asker = transport.names.name(message.subject.split(".")[1])
        mark, _, body = message.data[:HELLO_LIMIT].partition(b" ")

        def answer(row: bytes) -> None:
            task = asyncio.get_running_loop().create_task(self._publish(asker, mark[:64] + b" " + row))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

        try:
            question = read_question(asker, body, transport.process, addressed=False)
        except PeerError as error:
            answer(json.dumps({"error": str(error)}).encode())
        else:
            Asker(transport.process, answer).ask(question)

    async def _publish(self, asker: str, data: bytes) -> None:
        from nats.errors import Error

        transport = self._transport
        try:
            if transport.client is not None:
                await transport.client.publish(transport.names.answer(transport.config.name, asker), data)
        except (Error, OSError):
            pass  # the server is away; it is asked again
