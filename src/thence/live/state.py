"""The state of a core as bytes: what a snapshot in the journal holds.

Invariant: `read_state(dump(core))` behaves like `core` under every further input. Anything else is refused
with a sentence. JSON, so that a person can read what a journal holds; bytes stand in it as base64.
"""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections.abc import Callable
from typing import Any

from thence.core.model.plain import Row
from thence.core.protocols import lookup
from thence.errors import PeerError, ThenceError
from thence.live.core import Core
from thence.live.group import Aside, InboxEntry, Ref
from thence.live.inputs import MembershipChange, MessageKey
from thence.live.outbox import Outbox, OutboxItem

InboxAfter = Callable[[int, int], list[InboxEntry]]
"""gives the inbox after an input, when there were this many deliveries"""
STATE_VERSION = 3
"""version 1 always has the inbox in it; 1 and 2 know no changes of membership, and write stamps of version 1 only"""


def dump(core: Core, *, inbox: bool = True) -> bytes:
    """Write a state, with or without its inbox."""
    waiting = {"inbox": [[d.number, *d.key, d.ref] for d in core.inbox.values()]} if inbox else {}
    return json.dumps(
        {
            **waiting,
            "version": STATE_VERSION,
            "protocol": core.member.name,
            "member": _text(core.member.snapshot()),
            "number": core.number,
            "digest": core.digest.hex(),
            "order": core.rows.order,
            "index": core.rows.index,
            "hops": core.rows.hops,
            "deliveries": core.deliveries,
            "received": core.received,
            "outboxes": [_outbox(outbox) for outbox in core.outboxes],
            "payloads": [[*key, *ref] for key, ref in core.payloads.items()],
            "aside": [
                [*key, [[a.peer, _text(a.stamp), a.item] for a in waiting]] for key, waiting in core.aside.items()
            ],
            "deferred": [[*ticket, ref, core.deferred_sizes.get(ref, 0)] for ticket, ref in core.deferred.items()],
            "labels": sorted(core.labels),
            "changes": [list(change) for change in core.membership.changes],
            "accepted": core.membership.accepted,
            "in_bits": core.stamps.in_bits,
            "floors": [[label, sender, count] for (label, sender), count in core.floors.items()],
        },
        separators=(",", ":"),
    ).encode()


def read_state(data: bytes, *, run: str = "run", record: bool = True, inbox: InboxAfter | None = None) -> Core:
    """Read a state; `inbox` is asked for its inbox if that is not in it."""
    try:
        state = json.loads(data)
        if state["version"] not in range(1, STATE_VERSION + 1):
            raise PeerError(f"a state of version {state['version']}; this release reads 1 to {STATE_VERSION}")
        core = _core(state, run, record)
        if "inbox" in state:
            waiting = [InboxEntry(row[0], _key(row[1:]), row[4]) for row in state["inbox"]]
        else:
            waiting = [] if inbox is None else inbox(core.number, core.deliveries)
        core.inbox = {delivery.number: delivery for delivery in waiting}
        core.recount()
        return core
    except (ThenceError, ValueError, KeyError, TypeError, IndexError) as error:
        raise PeerError(f"a snapshot of {len(data)} bytes cannot be read: {error}") from error


def hops_of(data: bytes) -> int:
    """Return how many rows of hops there were when a state was written."""
    try:
        return int(json.loads(data)["hops"])
    except (ValueError, KeyError, TypeError) as error:
        raise PeerError(f"a snapshot of {len(data)} bytes cannot be read: {error}") from error


def _core(state: Row, run: str, record: bool) -> Core:
    member = lookup(state["protocol"]).protocol.restore(b64decode(state["member"]))
    core = Core(member, run=run, record=record)
    core.number, core.digest = state["number"], bytes.fromhex(state["digest"])
    core.rows.resume(state["order"], state["index"], state["hops"])
    core.deliveries = state["deliveries"]
    core.received = state["received"]
    core.outboxes = [_read_outbox(row) for row in state["outboxes"]]
    core.payloads = {_key(row): Ref(*row[3:]) for row in state["payloads"]}
    core.aside = {
        _key(row): [Aside(peer, b64decode(stamp), *item) for peer, stamp, *item in row[3]] for row in state["aside"]
    }
    core.deferred = {(label, ticket): ref for label, ticket, ref, _ in state["deferred"]}
    core.deferred_sizes = {ref: size for _, _, ref, size in state["deferred"]}
    core.labels = set(state["labels"])
    core.membership.changes = [MembershipChange(*row) for row in state.get("changes", [])]
    core.membership.accepted = state.get("accepted", 0)
    core.stamps.in_bits = state.get("in_bits", 0)
    core.floors = {(label, sender): count for label, sender, count in state["floors"]}
    return core


def _text(data: bytes) -> str:
    return b64encode(data).decode()


def _key(row: list[Any]) -> MessageKey:
    return row[0], row[1], row[2]


def _outbox(outbox: Outbox) -> Row:
    front = [[entry.number, _text(entry.head), entry.ref] for entry in outbox.front]
    return {"sent": outbox.sent, "acked": outbox.acked, "closed": outbox.closed, "front": front}


def _read_outbox(row: Row) -> Outbox:
    outbox = Outbox()
    outbox.sent, outbox.acked, outbox.closed = row["sent"], row["acked"], row["closed"]
    for number, head, ref in row["front"]:
        entry = OutboxItem(number, b64decode(head), ref, None if ref else b"")
        outbox.front.append(entry)
        outbox.bytes += len(entry.head)
    return outbox
