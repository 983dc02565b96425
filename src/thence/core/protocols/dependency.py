"""Shared by protocols with a dependency log: the log in the clear, contexts, and checks that reject impossible logs.

The log itself, with merging and bytes, is `core/wire/dependency_log_cy.py`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from thence.core.model.message import Copy, MessageId
from thence.core.model.roster import positions
from thence.core.wire.codec import Shape
from thence.core.wire.dependency_log_cy import Log
from thence.core.wire.entries import Entries
from thence.core.wire.reader_cy import Reader
from thence.errors import MisuseError, PeerError

if TYPE_CHECKING:
    from thence.core.protocols.base import Member


def facts_of(log: Log) -> set[tuple[MessageId, int]]:
    """Return the pairs (message, destination)."""
    return {
        (MessageId(sender, count), d)
        for sender, group in log.items()
        for count, dests in group
        for d in positions(dests)
    }


def in_the_clear(log: Log) -> list[tuple[MessageId, int]]:
    """Return the entries by sender and count."""
    return [(MessageId(sender, count), dests) for sender, group in log.items() for count, dests in group]


def by_message(facts: Iterable[tuple[int, int, int]]) -> list[tuple[MessageId, int]]:
    """Return messages with destination masks, given facts (sender, count, destination) in any order."""
    table: dict[MessageId, int] = {}
    for sender, count, destination in facts:
        message = MessageId(sender, count)
        table[message] = table.get(message, 0) | 1 << destination
    return sorted(table.items())


def given_context(member: Member, context: object, shape: Shape, *, explicit: bool) -> Any:
    """Return the context that an application passes to a send; raise an error if it is invalid."""
    if not explicit:
        raise MisuseError(f"protocol {member.name} takes a context only from a member made with explicit=True")
    given = checked_context(member, context, shape)
    own = given.get(member.me)
    newest = max(count if isinstance(count, int) else count[0] for count in own) if own else 0
    if newest > member.count:
        name = member.roster.name(member.me)
        raise MisuseError(
            f"the context names message {newest} of {name}, who has sent {member.count}; one of this label is accepted"
        )
    return given


def checked_context(member: Member, context: object, shape: Shape) -> Any:
    """Return an application's context; raise an error if no member under this roster can have made it."""
    try:
        if isinstance(shape, Entries) and isinstance(context, dict):
            context = Log(context)
        out = bytearray()
        shape.write(context, out, member.size)
        same = shape.read(Reader(bytes(out), member.size)) == context
    except (AttributeError, IndexError, KeyError, OverflowError, PeerError, TypeError, ValueError):
        same = False
    if not same:
        raise MisuseError(
            f"the context is a {type(context).__name__} that no {member.name} over {member.size} processes has made; "
            "what context(), context_of() or merge() returned is accepted"
        )
    return context


def check_log(member: Member, copy: Copy, log: Log) -> None:
    """Reject a log with messages that the member, or the sender of the copy, has not sent by then."""
    if log.beyond(member.me, member.count, copy.sender, copy.count):
        member.check_known(copy, member.me, log.newest(member.me))
        member.check_known(copy, copy.sender, log.newest(copy.sender))


def check_own(member: Member, log: Log) -> None:
    """Refuse a restored log that names its owner beyond its count."""
    member.check_own(log.newest(member.me))
