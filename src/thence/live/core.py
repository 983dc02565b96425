"""One member with its inbox and outboxes, as a deterministic state machine of journaled inputs.

Invariant: the state after a list of inputs depends on nothing but that list: no clock, chance, connection or
acknowledgement goes in, except as an input. `apply` either takes an input wholly or raises (`MisuseError`, `PeerError`)
and changes nothing. What a step sets free (items, deliveries, rows of the trace) is returned, and must not leave this
process before the input is on disk. The digest of a step covers the digest before it, the input and all that it sets
free.

A message is delivered into the inbox, in causal order, and stays there until the application is done with it. Its
payload is never kept here: inbox, outboxes and held copies name the input that brought it.

Where a protocol hands messages on for others (those with groups), each message of theirs carries its payload only up
to `INLINE` bytes; larger ones travel once from their sender and by reference after that. A copy whose payload is not
here yet counts as not received: it is set aside, the payload is asked for, and the member hears of both together.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from hashlib import blake2b

from thence.core.model.message import MESSAGE, Copy, is_hop
from thence.core.model.plain import Row
from thence.core.model.roster import Roster
from thence.core.protocols import (
    Deferred,
    Deliver,
    Duplicate,
    Effect,
    GoesWithout,
    Member,
    Sent,
    Transmit,
    create,
    require,
)
from thence.core.protocols.ack_member import AckMember
from thence.core.protocols.registry import Need, check_options
from thence.errors import MisuseError, PeerError
from thence.live.group import Aside, InboxEntry, InputResult, Ref
from thence.live.inputs import (
    KIND_OF,
    PAYLOAD,
    WANT,
    Abandon,
    AcceptItem,
    Agreed,
    CopyItem,
    Crash,
    Done,
    Input,
    Join,
    MembershipChange,
    MessageKey,
    PayloadItem,
    Propose,
    Receive,
    Send,
    Trusted,
    copy_head,
    data_of,
    key_head,
    read_item,
)
from thence.live.journal import RELEASE, InputRow
from thence.live.membership import Membership
from thence.live.outbox import Outbox
from thence.live.stamp_versions import StampVersions
from thence.live.trace_rows import ROSTER_LIMIT, TraceRows

GIVEN: tuple[Need, ...] = (
    "fifo",
    "fixed membership",
    "broadcast only",
    "unicast only",
    "groups",
    "failure detector",
    "own sends at the receiver",
)
"""what a live endpoint gives a protocol; the rest of the registry's needs are refused"""

LABEL_LIMIT = 1000
HELD_LIMIT = 100_000
ORDER_LIMIT = 1 << 52
INLINE = 1024
DIGEST_BYTES = 8


class Core:
    """Member, inbox and outboxes of one process."""

    def __init__(self, member: Member, *, run: str = "run", record: bool = True) -> None:
        """Take a fresh or restored member; with `record` every step returns its rows of the trace."""
        self.member, self.me = member, member.me
        self.rows = TraceRows(member, run, record)
        self.number = self.deliveries = 0
        self.digest = bytes(DIGEST_BYTES)
        size = len(member.roster)
        self.received = [0] * size
        self.outboxes = [Outbox() for _ in range(size)]
        self.payloads: dict[MessageKey, Ref] = {}
        """messages that are here: held, or (where messages are handed on) still on the member's record"""
        self.aside: dict[MessageKey, list[Aside]] = {}
        self.deferred: dict[tuple[str | None, int], int] = {}
        self.deferred_sizes: dict[int, int] = {}
        self.inbox: dict[int, InboxEntry] = {}
        self._awaited = -1, 0
        self.held_most = 2 * HELD_LIMIT
        """held messages from which on copies are refused; beyond what peers that keep to their credit can bring"""
        self.kept: dict[int, int] = {}
        """how often held messages and the inbox name each input whose payload they need"""
        self.labels: set[str] = set()
        self.floors: dict[tuple[str | None, int], int] = {}
        """count of the last message delivered here, by label and sender"""
        self.membership, self.stamps = Membership(self), StampVersions(member)
        self._needs = require(member.name, GIVEN, driver="a live endpoint").needs
        self.relays = "groups" in self._needs
        """whether members forward messages of others, and acknowledge them (OK)"""

    @classmethod
    def fresh(
        cls,
        protocol: str,
        processes: Sequence[str],
        me: str,
        *,
        run: str = "run",
        record: bool = True,
        options: dict[str, int | str | bool] | None = None,
    ) -> Core:
        """Start a process without any history."""
        check_options(require(protocol, GIVEN, driver="a live endpoint"), options or {})
        if len(processes) > ROSTER_LIMIT:
            raise MisuseError(f"{len(processes)} processes; a live endpoint takes up to {ROSTER_LIMIT}")
        chosen: Row = dict(options or {})
        return cls(create(protocol, Roster(processes), me, **chosen), run=run, record=record)

    @property
    def roster(self) -> Roster:
        """The processes, in the order of their positions."""
        return self.member.roster

    @property
    def held(self) -> int:
        """The number of messages that wait for their causes here."""
        return len(self.payloads) + len(self.aside)

    def name(self, key: MessageKey) -> str:
        """Return the id of a message in the trace."""
        return self.rows.name(key)

    # -- one input -------------------------------------------------------------------------------------------------

    def apply(self, given: Input, time: float) -> InputResult:
        """Take an input; `time` only stands in the rows of the trace."""
        step = InputResult(given, self.number + 1, time)
        if type(given) is Receive:
            self._receive(given, step)
        elif type(given) is Send:
            self._send(given, step)
        elif type(given) is Done:
            step.done += [self.inbox.pop(number) for number in given.deliveries if number in self.inbox]
            for delivery in step.done:
                self._drop(delivery.ref)
        elif type(given) is Trusted:
            self.rows.trusted(self.roster.mask(given.processes), step.time)
            self._effects(self.member.trusted(given.processes), step)
        elif type(given) is Abandon:
            self._abandon(given.process, step)
        elif type(given) is Join:
            self._join(given.process, step)
        elif type(given) is Propose:
            self.membership.propose(given, step)
        elif type(given) is Agreed:
            self.stamps.agree(given.peer, given.in_bits)
        elif type(given) is Crash:
            self.rows.crash(time)
        self.number = step.number
        step.events = self.rows.take()
        return step

    def seal(self, step: InputResult) -> InputRow:
        """Return the row of an input that was applied; steps are sealed in the order of their inputs.

        Apart from `apply`, because its cost grows with the payload: a thread can do it while the event loop goes on.
        """
        given = step.given
        kind, data = KIND_OF[type(given)], data_of(given)
        digest = blake2b(b"%b%d " % (self.digest, kind), digest_size=DIGEST_BYTES)
        digest.update(data)
        covered: list[bytes] = []
        for peer, entry, _ in step.sent:
            covered += (b"|%d %d %d " % (peer, entry.number, entry.ref), entry.head)
        for delivery, key, ref, _ in step.delivered:
            covered.append(f"Delivery(number={delivery}, key={key!r}, ref={ref})".encode())
        digest.update(b"".join(covered))
        self.digest = digest.digest()
        return InputRow(step.number, kind, step.time, RELEASE, data, self.digest)

    def _send(self, given: Send, step: InputResult) -> None:
        self.check_send(given)
        done = self.member.send(given.destinations, label=given.label)
        if given.label is not None:
            self.labels.add(given.label)
        if isinstance(done, Deferred):
            step.ticket = (done.label, done.ticket)
            self.deferred[step.ticket] = step.number
            self.deferred_sizes[step.number] = len(given.payload)
            return
        step.message = self._sent(done, step.number, given.payload, step)

    def check_send(self, given: Send, labels: set[str] | None = None) -> None:
        """Refuse a send that a live endpoint does not take; the member has its own say after that."""
        if self.membership.changes and self.membership.left >> self.me & 1:
            raise MisuseError(f"{self.roster.name(self.me)} has left; it sends nothing more")
        if given.label is not None:
            _check_label(given.label, self.labels if labels is None else labels, MisuseError)
        if "broadcast only" in self._needs and given.destinations != self.roster.everyone & ~(1 << self.me):
            raise MisuseError(f"protocol {self.member.name} is broadcast only; a send goes to all others")

    def _sent(self, sent: Sent, ref: int, payload: bytes | None, step: InputResult) -> str:
        key = (sent.label, sent.message.sender, sent.message.count)
        order = self.rows.tick()
        self.rows.sent(key, sent.destinations, step.time)
        if self.relays:
            size = self.deferred_sizes.pop(ref, 0) if payload is None else len(payload)
            self.payloads[key] = Ref(ref, order, sent.destinations, size, 0)
            self._keep(ref)
        for copy in sent.copies:
            head = copy_head(order, self.stamps.encode(copy), with_payload=True)
            item = self.queue(copy.destination, head, ref, payload, step)
            if item and (is_hop(copy) or self._to_itself(copy)):
                self.rows.hop(copy, item, step.time)
        return self.name(key)

    def queue(self, peer: int, head: bytes, ref: int, body: bytes | None, step: InputResult) -> int:
        """Make an item for a peer and return its number; 0 if the peer was given up."""
        outbox = self.outboxes[peer]
        if outbox.closed:
            return 0
        entry, spill = outbox.add(head, ref, body)
        step.sent.append((peer, entry, spill))
        return entry.number

    # -- receipts ----------------------------------------------------------------------------------------------------

    def _receive(self, given: Receive, step: InputResult) -> None:
        item = read_item(given.item)
        if isinstance(item, CopyItem):
            self._copy(given, item, step)
        elif isinstance(item, MembershipChange):
            self.membership.change(item, step)
        elif isinstance(item, AcceptItem):
            self.membership.accept(item.number, given.peer)
        elif not self.relays:
            raise PeerError(
                f"{self.roster.name(given.peer)} asks for payloads, but protocol {self.member.name} relays none"
            )
        elif isinstance(item, PayloadItem):
            self._payload(item, step)
        else:
            known = self.payloads.get(item.key)
            if known is not None and known.destinations >> given.peer & 1:
                self.queue(given.peer, key_head(PAYLOAD, item.key, known.order), known.number, None, step)
        self.received[given.peer] = given.number

    def _copy(self, given: Receive, item: CopyItem, step: InputResult) -> None:
        peer = given.peer
        if item.order >= ORDER_LIMIT:
            raise PeerError(f"{self.roster.name(peer)} says order {item.order}; below {ORDER_LIMIT} is accepted")
        copy = self.member.decode(item.stamp, source=peer)
        self._check_copy(copy, item, peer)
        step.body = item.payload
        key = (copy.label, copy.sender, copy.count)
        if item.payload is None and self._lacks(copy, key):
            if is_hop(copy):
                self.rows.tick(item.order)
            self.aside.setdefault(key, []).append(Aside(peer, item.stamp, given.number))
            self.queue(peer, key_head(WANT, key), 0, b"", step)
            return
        effects = self.member.receive(copy)
        self._hop_arrived(copy, given.number, item.order, step.time)
        if copy.label is not None:
            self.labels.add(copy.label)
        if item.payload is not None and (self._new(key) if self.relays else type(effects[0]) is not Duplicate):
            self._arrived(copy, key, item, len(item.stamp), step)
        self._effects(effects, step, item.payload)
        if key in self.aside and item.payload is not None:
            self._take_aside(key, step)

    def _check_copy(self, copy: Copy, item: CopyItem, peer: int) -> None:
        if copy.label is not None:
            _check_label(copy.label, self.labels, PeerError)
        if copy.kind == MESSAGE and copy.sender != peer and not self.relays:
            raise PeerError(
                f"{self.roster.name(peer)} brings a message of {self.roster.name(copy.sender)}; "
                f"with {self.member.name} a message comes from its sender only"
            )
        if copy.kind == MESSAGE and item.payload is None and not self.relays:
            raise PeerError(f"{self.roster.name(peer)} brings a message without its payload")
        if copy.kind != MESSAGE and item.payload is not None and not self.relays:
            raise PeerError(f"{self.roster.name(peer)} brings a payload with a protocol message")
        if self.held >= self.held_most:
            raise PeerError(f"{self.held} messages are held here; {self.held_most} are the most that are accepted")

    def _arrived(
        self, copy: Copy, key: MessageKey, item: CopyItem | PayloadItem, stamp: int, step: InputResult
    ) -> None:
        """Note that a message has come for the first time, with its payload; within an OK, its stamp has no size."""
        length = stamp if copy.kind == MESSAGE else 0
        self.payloads[key] = ref = Ref(step.number, item.order, copy.destinations, len(item.payload or b""), length)
        self._keep(step.number)
        if copy.destinations >> self.me & 1:
            self.rows.tick(ref.order)
            self.rows.came("receive", key, copy, length, step.time)

    def _new(self, key: MessageKey) -> bool:
        label, sender, count = key
        return key not in self.payloads and self.floors.get((label, sender), 0) < count

    def _lacks(self, copy: Copy, key: MessageKey) -> bool:
        """Return whether a copy that came by reference is of a message addressed here whose payload is not here."""
        return self.relays and bool(copy.destinations >> self.me & 1) and self._new(key)

    def _payload(self, item: PayloadItem, step: InputResult) -> None:
        waiting = self.aside.get(item.key)
        step.body = item.payload
        if waiting and self._new(item.key):
            copy = self.member.decode(waiting[0].stamp, source=waiting[0].peer)
            self._arrived(copy, item.key, item, len(waiting[0].stamp), step)
            self._take_aside(item.key, step)

    def _take_aside(self, key: MessageKey, step: InputResult) -> None:
        for peer, stamp, item in self.aside.pop(key):
            copy = self.member.decode(stamp, source=peer)
            try:
                effects = self.member.receive(copy)
            except PeerError:
                continue  # said once, when it arrived, that it was well formed; what the member refuses now is dropped
            if item and is_hop(copy):
                self.rows.hop(copy, -item, step.time)  # the clock moved when it arrived
            self._effects(effects, step)

    # -- effects -----------------------------------------------------------------------------------------------------

    def _effects(self, effects: Sequence[Effect], step: InputResult, body: bytes | None = None) -> None:
        """Carry effects out; `body` is the payload that came with the copy whose effects they are."""
        for effect in effects:
            if type(effect) is Deliver:
                self._deliver(effect.copy, step)
            elif type(effect) is Transmit:
                for copy in effect.copies:
                    self._transmit(copy, body, step)
            elif type(effect) is Sent:
                ticket = (effect.label, effect.ticket or 0)
                ref = self.deferred.pop(ticket)
                step.released.append((ticket, self._sent(effect, ref, None, step)))
            elif type(effect) is GoesWithout:
                name = self.name((effect.copy.label, effect.copy.sender, effect.copy.count))
                step.without.append((name, [str(cause) for cause in effect.causes]))

    def _deliver(self, copy: Copy, step: InputResult) -> None:
        key = (copy.label, copy.sender, copy.count)
        ref = self.payloads[key]
        if self.relays:
            self.floors[copy.label, copy.sender] = copy.count
            self._keep(ref.number)
        else:
            del self.payloads[key]
        self.rows.tick(ref.order)
        self.deliveries += 1
        delivery = InboxEntry(self.deliveries, key, ref.number, ref.order)
        self.inbox[delivery.number] = delivery
        step.delivered.append(delivery)
        self.rows.came("deliver", key, copy, ref.stamp, step.time)

    def _transmit(self, copy: Copy, body: bytes | None, step: InputResult) -> None:
        """Forward a protocol message, with the payload it refers to if that is short and needed there."""
        known = self.payloads.get((copy.label, copy.sender, copy.count)) if self.relays else None
        order = self.rows.tick(known.order if known else 0)
        inline = known is not None and known.size <= INLINE and bool(copy.destinations >> copy.destination & 1)
        head = copy_head(order, self.stamps.encode(copy), with_payload=inline)
        if known is None or not inline:
            item = self.queue(copy.destination, head, 0, b"", step)
        else:
            item = self.queue(copy.destination, head, known.number, body if known.number == step.number else None, step)
        if item and is_hop(copy):
            self.rows.hop(copy, item, step.time)

    def _hop_arrived(self, copy: Copy, item: int, order: int, time: float) -> None:
        if is_hop(copy):
            self.rows.tick(order)
            self.rows.hop(copy, -item, time)
        elif self._to_itself(copy):
            self.rows.hop(copy, -item, time)  # the clock stands still: what was sent here is not news

    def _to_itself(self, copy: Copy) -> bool:
        """Return whether a message goes from its sender to itself and its arrival has no other row."""
        return self.relays and copy.source == copy.destination

    # -- membership -------------------------------------------------------------------------------------------------

    def _join(self, process: str, step: InputResult) -> None:
        self._effects(self.member.join(process), step)
        self.received.append(0)
        self.outboxes.append(Outbox())

    def _abandon(self, process: str, step: InputResult) -> None:
        position = self.roster.position(process)
        self._effects(self.member.abandon(process), step)
        self.outboxes[position].close()

    def forget(self) -> None:
        """Where messages are handed on: drop the payloads that no peer can ask for any more. Part of a snapshot."""
        if isinstance(self.member, AckMember):
            orders = self.member.orders()
            record = {(order.label, message.sender, message.count) for order in orders for message in order.on_record()}
            here = 1 << self.me
            self.payloads = {
                key: ref
                for key, ref in self.payloads.items()
                if key in record or (ref.destinations & here and self.floors.get(key[:2], 0) < key[2])
            }
            self.recount()

    def recount(self) -> None:
        """Recount how often each input is named by held messages and the inbox."""
        refs = [ref.number for ref in self.payloads.values()] + [delivery.ref for delivery in self.inbox.values()]
        self.kept = dict(Counter(refs))

    def _keep(self, number: int) -> None:
        self.kept[number] = self.kept.get(number, 0) + 1

    def _drop(self, number: int) -> None:
        if self.kept[number] == 1:
            del self.kept[number]
        else:
            self.kept[number] -= 1

    def awaited(self) -> int:
        """Return, as a mask, the processes whose messages are waited for by messages held here.

        A cause that is itself held here need not come any more: its sender gets no credit for it.
        """
        at, mask = self._awaited
        if at == self.number:
            return mask
        mask = 0
        for pending in self.member.pending():
            for cause in pending.waits_for:
                position = self.roster.position(cause.sender)
                if cause.pairwise or (pending.label, position, cause.count) not in self.payloads:
                    mask |= 1 << position
            mask |= self.roster.mask(pending.processes)
        self._awaited = self.number, mask
        return mask


def _check_label(label: str, known: set[str], error: type[MisuseError | PeerError]) -> None:
    if label not in known and len(known) >= LABEL_LIMIT:
        raise error(f"label {label!r} would be one more than the {LABEL_LIMIT} that are accepted")
