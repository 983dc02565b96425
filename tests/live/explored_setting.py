"""A core and its links as the explorer sees a member: every execution of a small system goes through them unchanged.

What the explorer takes for a stamp is the number and the bytes of the item that a link carries. Between two steps the
core is written down and read back, so every step is also one after a restart from a snapshot; every item comes twice,
and the second time must be passed over.
"""

from __future__ import annotations

import json
from collections.abc import Hashable, Iterable
from typing import Any, ClassVar, cast

from thence.core.model.message import MESSAGE, Copy, MessageId
from thence.core.protocols.effects import Deferred, Deliver, Effect, Pending, Sent, Transmit
from thence.core.protocols.registry import ProtocolEntry
from thence.core.wire.codec import INT, TEXT, RecordShape, Shape
from thence.errors import MisuseError
from thence.lab.explorer.judge_memory import Perm
from thence.lab.explorer.setting import Setting
from thence.live.core import Core
from thence.live.group import InputResult
from thence.live.inputs import CopyItem, Input, Receive, Send, Trusted, read_item
from thence.live.link import Link
from thence.live.state import dump, read_state
from thence.protocols import lookup


class Carried:
    """A core in the place of a member."""

    kinds: ClassVar[dict[str, Shape]] = {}

    def __init__(self, core: Core) -> None:
        self.core, self.me = core, core.me

    @property
    def count(self) -> int:
        return self.core.member.count

    def fork(self) -> Carried:
        return type(self)(read_state(dump(self.core)))

    def state(self, rename: Perm | None = None) -> Hashable:
        if rename is not None:
            raise MisuseError("a core has no other names")
        row = json.loads(dump(self.core))
        del row["digest"]  # of the inputs in their order; what they led to is what counts
        return json.dumps(row)

    def pending(self) -> list[Pending]:
        return self.core.member.pending()

    def send(self, destinations: int, token: object = None) -> Sent | Deferred:
        step = self._apply(Send(destinations, b""))
        if step.ticket is not None:
            return Deferred(step.ticket[1], destinations, (), "the core holds it back")
        (sent,) = self._effects(step)
        assert isinstance(sent, Sent)
        return sent

    def trusted(self, processes: Iterable[str]) -> list[Effect]:
        return self._effects(self._apply(Trusted(tuple(processes))))

    def receive(self, copy: Copy) -> list[Effect]:
        number, text = copy.stamp
        item = bytes.fromhex(text)
        core, peer = self.core, copy.source
        link = Link(core.roster.name(peer), core.outboxes[peer], core.received[peer], None)
        link.greet("", "", [], "", "")
        assert link.accept(number, len(item))
        step = self._apply(Receive(peer, number, item))
        link.wrote(core.received[peer], len(item))
        assert not link.accept(number, len(item))
        return self._effects(step)

    def _apply(self, given: Input) -> InputResult:
        return self.core.apply(given, 0.0)

    def _effects(self, step: InputResult) -> list[Effect]:
        """Return what a step set free, deliveries first: a send that was held back leaves after them."""
        own: dict[int, list[Copy]] = {}
        others: list[Copy] = []
        for peer, entry, spill in step.sent:
            assert not spill
            copy = self._copy(peer, entry.number, entry.head + (entry.body or b""))
            if copy.kind == MESSAGE and copy.sender == self.me:
                own.setdefault(copy.count, []).append(copy)
            else:
                others.append(copy)
        found: list[Effect] = [
            Deliver(Copy(key[1], key[2], 1 << self.me, key[1], self.me, (0, ""))) for _, key, *_ in step.delivered
        ]
        for count, copies in own.items():
            found.append(Sent(MessageId(self.me, count), copies[0].destinations, tuple(copies)))
        return found + ([Transmit(tuple(others))] if others else [])

    def _copy(self, peer: int, number: int, item: bytes) -> Copy:
        read = read_item(item)
        assert isinstance(read, CopyItem)
        inner = self.core.member.decode(read.stamp, source=self.me)
        stamp = (number, item.hex())
        return Copy(inner.sender, inner.count, inner.destinations, self.me, peer, stamp, kind=inner.kind)


class LiveSetting(Setting):
    """A setting whose members are cores."""

    @property
    def entry(self) -> ProtocolEntry:
        ours = lookup(self.protocol)
        options = {
            "kinds": dict.fromkeys(ours.protocol.kinds, RecordShape(INT, TEXT)),
            "options": ours.protocol.options,
        }
        shaped: Any = type("Shaped", (Carried,), {**options, "name": ours.name})
        return ProtocolEntry(shaped, ours.summary, ours.source, ours.needs, ours.guarantee, ours.waits)

    def member(self, process: int) -> Any:
        names, carried = self.roster().names, cast(type[Carried], self.entry.protocol)
        options = {"groups": self.groups} if self.grouped else {}
        return carried(Core.fresh(self.protocol, names, names[process], options=options))  # type: ignore[arg-type]

    def symmetries(self, perms: list[Perm]) -> list[Perm]:
        return [tuple(range(self.processes))]
