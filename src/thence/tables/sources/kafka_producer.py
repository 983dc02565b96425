"""A Kafka producer that writes the causes of each record into its headers.

Invariant: what this process has produced and observed before is a cause of what it produces next: by name, the last
record it produced and what it observed since; or, with a member, by the member's stamps.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from thence.core.model.plain import Fields
from thence.core.protocols import Member, Sent
from thence.errors import MisuseError, PeerError
from thence.tables.sources.headers import write_headers
from thence.tables.sources.kafka_client import CALL_SECONDS, Found, client

if TYPE_CHECKING:
    from confluent_kafka import KafkaError


class CausalProducer:
    """Produces records that say their causes: everything this process has sent and delivered before."""

    def __init__(self, config: Fields, sender: str, member: Member | None = None) -> None:
        """Start a producer whose records name their causes in headers.

        Args:
            config: of confluent-kafka's producer.
            sender: the name of this process; ids of its records begin with it.
            member: a member of a protocol; records then carry its stamps in place of the ids of causes.
        """
        self.sender, self.member = sender, member
        self.count = 0
        self._frontier: list[str] = []
        self._failed: list[str] = []
        self._producer = client().Producer({"enable.idempotence": True, **config})

    def produce(
        self,
        topic: str,
        value: bytes,
        *,
        message: str | None = None,
        key: bytes | None = None,
        partition: int | None = None,
        destinations: Iterable[str] = (),
    ) -> str:
        """Produce a record whose causes are everything produced and observed before, and return its id.

        Args:
            topic: where it goes.
            value: its content.
            message: an id of your own: produced again after a crash, the record is recognised as a duplicate.
            key: Kafka's key of the record.
            partition: Kafka's partition; chosen by the key if not given.
            destinations: the processes that consume it, for the stamps of a member.
        """
        self.count += 1
        name = message or f"{self.sender}:{self.count}"
        stamps = {} if self.member is None else self._stamps(self.member, destinations)
        headers = write_headers(name, self.sender, None if self.member else self._frontier, stamps)
        where = {} if partition is None else {"partition": partition}
        arguments = {"key": key, "headers": headers, "on_delivery": self._delivered, **where}
        while True:
            try:
                self._producer.produce(topic, value, **arguments)
            except BufferError:
                self._producer.poll(0.1)
            else:
                self._frontier = [name]  # not before: a record that the client refuses is no cause of the next
                self._producer.poll(0)
                return name

    def observe(self, row: Fields) -> None:
        """Record that this process has delivered a row: it is a cause of what is produced from now on.

        Args:
            row: a row that `CausalConsumer.poll` returned.
        """
        if self.member is None:
            self._frontier.append(str(row["message"]))
        else:
            self.member.receive(self.member.decode(row["stamp"], source=str(row["sender"])))

    def flush(self, timeout: float = CALL_SECONDS) -> None:
        """Wait until the broker has every record; raise `PeerError` if one did not reach it.

        Args:
            timeout: seconds to wait.
        """
        left = self._producer.flush(timeout)
        if left or self._failed:
            raise PeerError(
                f"{left + len(self._failed)} records did not reach the broker: {'; '.join(self._failed[:3])}"
            )

    def _delivered(self, error: KafkaError | None, record: Found) -> None:
        if error is not None:
            self._failed.append(f"{record.topic()}: {error}")

    @staticmethod
    def _stamps(member: Member, destinations: Iterable[str]) -> dict[str, bytes]:
        sent = [each for each in [member.send(list(destinations))] if isinstance(each, Sent)]
        if not sent:
            raise MisuseError("this protocol defers sends; Kafka needs one that stamps at once, as ks")
        return {member.roster.name(copy.destination): member.encode(copy) for copy in sent[0].copies}
