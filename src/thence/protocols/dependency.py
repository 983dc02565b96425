"""The dependency log of KS98 and ci-dc: messages of the causal past with their still relevant destinations.

Law (KS98 section 4.2). A log maps each sender to a *group*: its entries (count, destinations) by ascending count, as an
immutable tuple. An entry means: the message may still be on its way to these destinations. What is absent speaks too:
if a sender's newest entry is t, every message of it below t that has no entry is delivered, or guaranteed to be
delivered in order, everywhere. So an empty entry is kept only as the newest of its sender.

Groups are immutable because most of them pass unchanged from log to stamp to log: they are shared, compared by identity
first, and only the senders that changed cost anything.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from thence.errors import MisuseError, PeerError
from thence.model.codec import Shape
from thence.model.message import Copy, MessageId
from thence.model.roster import positions
from thence.model.varint import Reader

if TYPE_CHECKING:
    from thence.protocols.base import Member

Group = tuple[tuple[int, int], ...]
Log = dict[int, Group]


def without(group: Group, mask: int) -> Group:
    """Take destinations out of every entry and drop the older entries this empties (PURGE_NULL_ENTRIES)."""
    newest, last = group[-1]
    if len(group) == 1:
        return ((newest, last & ~mask),) if last & mask else group
    kept = [(count, rest) for count, dests in group[:-1] if (rest := dests & ~mask)]
    kept.append((newest, last & ~mask))
    return tuple(kept)


def appended(group: Group | None, count: int, destinations: int) -> Group:
    """Add a newer entry; an empty newest before it need not stay."""
    if group is None:
        return ((count, destinations),)
    if group[-1][1] == 0:
        return (*group[:-1], (count, destinations))
    return (*group, (count, destinations))


def merged(logged: Group, arriving: Group) -> Group:
    """Merge two groups of one sender (KS98 RCV(4), first loop as its comment says, and RCV(5)).

    An entry one side lacks is redundant if that side knows a newer message of the sender; of an entry both have, the
    destinations both have remain.
    """
    newest = arriving[-1][0]
    result = []
    at, end = 0, len(arriving)
    for entry in logged:
        count, dests = entry
        while at < end and arriving[at][0] < count:
            at += 1
        if at < end and arriving[at][0] == count:
            result.append((count, dests & arriving[at][1]))
            at += 1
        elif count > newest:
            result.append(entry)
    result += arriving[at:]
    last = result.pop()
    kept = [entry for entry in result if entry[1]]
    kept.append(last)
    return tuple(kept)


def merge_into(log: Log, other: Iterable[tuple[int, Group]], delivered: int = 0) -> None:
    """Merge the groups of a stamp or a context into a log; `delivered` is taken out of what comes in.

    Most groups are older throughout and change nothing, or newer throughout and simply stand: only the rest is
    worked out.
    """
    known = log.get
    for sender, arriving in other:
        logged = known(sender)
        newest, dests = arriving[-1]
        if logged is None:
            log[sender] = without(arriving, delivered) if delivered else arriving
        elif newest < logged[0][0]:
            pass  # older throughout
        elif len(arriving) == 1:
            dests &= ~delivered
            if logged[-1][0] < newest:
                log[sender] = ((newest, dests),)
            elif len(logged) == 1:  # neither is older nor newer, so both speak of one message
                common = logged[0][1] & dests
                if common != logged[0][1]:
                    log[sender] = ((newest, common),)
            else:
                log[sender] = merged(logged, ((newest, dests),))
        else:
            if delivered:
                arriving = without(arriving, delivered)
            if logged[-1][0] < arriving[0][0]:
                log[sender] = arriving
            elif logged != arriving:
                log[sender] = merged(logged, arriving)


def needs_of(log: Log, me: int) -> list[tuple[int, int]]:
    """Return the messages that are, as far as a log knows, still on their way to position `me`."""
    bit = 1 << me
    return [(sender, count) for sender, group in log.items() for count, dests in group if dests & bit]


def entry_count(log: Log) -> int:
    """Count the entries, empty ones too."""
    return sum(map(len, log.values()))


def fact_count(log: Log) -> int:
    """Count the pairs (message, destination)."""
    return sum(dests.bit_count() for group in log.values() for _, dests in group)


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
    return [(MessageId(sender, count), dests) for sender in sorted(log) for count, dests in log[sender]]


def by_message(facts: Iterable[tuple[int, int, int]]) -> list[tuple[MessageId, int]]:
    """Return messages with destination masks, given facts (sender, count, destination) in any order."""
    table: dict[MessageId, int] = {}
    for sender, count, destination in facts:
        message = MessageId(sender, count)
        table[message] = table.get(message, 0) | 1 << destination
    return sorted(table.items())


def given_context(member: Member, context: object, shape: Shape, *, explicit: bool) -> dict[int, Any]:
    """Return the context that an application hands to a send, or say why it is none."""
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


def checked_context(member: Member, context: object, shape: Shape) -> dict[int, Any]:
    """Return what an application holds as a context, or say that no member under this roster can have made it."""
    try:
        out = bytearray()
        shape.write(context, out, member.size)
        same = shape.read(Reader(bytes(out), member.size)) == context
    except (AttributeError, IndexError, KeyError, PeerError, TypeError, ValueError):
        same = False
    if not same or not isinstance(context, dict):
        raise MisuseError(
            f"the context is a {type(context).__name__} that no {member.name} over {member.size} processes has made; "
            "what context(), context_of() or merge() returned is accepted"
        )
    return context


def check_log(member: Member, copy: Copy, log: Log) -> None:
    """Refuse a log that names the member beyond its count, or what the sender of its copy sent later."""
    for sender in (member.me, copy.sender):
        group = log.get(sender)
        if group is not None:
            member.check_known(copy, sender, group[-1][0])


def check_own(member: Member, log: Log) -> None:
    """Refuse a restored log that names its owner beyond its count."""
    if member.me in log:
        member.check_own(log[member.me][-1][0])
