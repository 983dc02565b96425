"""The plain stepper's state, as columns and back.

Law. `resumed(state_of(delivery), ...)` answers every further row as `delivery` would.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import chain
from typing import Any

from thence.delivery.event_time import EventTime
from thence.delivery.foreign import ForeignRule
from thence.delivery.packing import Texts
from thence.delivery.plain import Delivery, Kept
from thence.delivery.policy import Policy
from thence.delivery.reading import Read, Reading
from thence.delivery.rule import Held, Rule
from thence.delivery.state import Floats, HeldRows, Order, Sources, State, agree, floats, ints, spans, told
from thence.model.message import Copy
from thence.model.plain import Field


def state_of(delivery: Delivery) -> State:
    """Return the state of a delivery."""
    reading, time = delivery.reading, delivery.time
    protocol, roster = told(reading)
    state = State(reading.by, protocol, roster, delivery.rows, delivery.position, time.now, time.began, time.doubted)
    state.orders = [_order(label, rule, reading.by) for label, rule in delivery.rules.items()]
    state.held = _held(delivery)
    return state


def _sources(by: str, values: list[Any]) -> Sources:
    """Return sources as a column: positions for stamps, else texts."""
    return ints(values) if by == "stamp" else Texts.of(values)


def _order(label: str | None, rule: Rule | ForeignRule, by: str) -> Order:
    if isinstance(rule, ForeignRule):
        return Order(label, receiver=rule.dump(), me=rule.receiver.me)
    came = {s: t for s, t in rule.delivered.items() if not (rule.cyclic and s in rule.holes)}
    holes = [(s, first, last) for s, each in rule.holes.items() for first, last in each]
    return Order(
        label,
        _sources(by, list(came)),
        ints(came.values()),
        _sources(by, [s for s, _, _ in holes]),
        ints(first for _, first, _ in holes),
        ints(last for _, _, last in holes),
        _sources(by, list(rule.seen)),
        ints(rule.seen.values()),
        _sources(by, list(rule.quarantined)),
        ints(sorted(rule.delivered.forgotten)),
    )


def _held(delivery: Delivery) -> HeldRows:
    by, kept = delivery.reading.by, delivery.kept
    if not kept:
        return HeldRows()
    places = {label: place for place, label in enumerate(delivery.rules)}
    rows: list[Held] = []
    for ticket, each in kept.items():
        rule = delivery.rules[each.order]
        if isinstance(rule, Rule):
            rows.append(rule.held[ticket])
        else:  # what it waited for is kept as it is named
            rows.append(Held(0, 0, (), ()))
    foreign = {t: r.waits[t] for r in delivery.rules.values() if isinstance(r, ForeignRule) for t in r.waits}
    names = [each.message for each in kept.values()]
    if foreign:
        names = ["\0".join([name or "", *foreign[t]]) for t, name in zip(kept, names, strict=True)]
    flat = list(chain.from_iterable(row.needs for row in rows))
    waited = [need in row.waited for row in rows for need in row.needs]
    return HeldRows(
        ints(kept),
        ints(places[each.order] for each in kept.values()),
        floats(each.since for each in kept.values()),
        floats(delivery.doubts.get(ticket) for ticket in kept),
        ints(each.came for each in kept.values()),
        ints(each.message is not None for each in kept.values()),
        Texts.of([name or "" for name in names]),
        _sources(by, [row.source for row in rows]),
        ints(row.number for row in rows),
        ints(len(row.needs) for row in rows),
        _sources(by, [source for source, _ in flat]),
        ints(number for _, number in flat),
        ints(waited),
    )


def resumed(state: State, reading: Reading, policy: Policy, where: str = "") -> Delivery:
    """Return the delivery that a state describes."""
    delivery = Delivery(agree(state, reading), policy, where)
    delivery.rows, delivery.position = state.rows, state.position
    delivery.time = EventTime(policy.max_jump, state.now, state.began, state.doubted)
    for order in state.orders:
        delivery.rules[order.label] = _rule(delivery, order)
    _hold(delivery, state)
    return delivery


def _listed(column: Sources | Floats) -> list[Field]:
    """Return a column as Python's own values."""
    return list(column) if isinstance(column, Texts) else column.tolist()


def _pairs(*columns: Sources | Floats) -> Iterator[tuple[Field, ...]]:
    return zip(*map(_listed, columns), strict=True)


def _rule(delivery: Delivery, order: Order) -> Rule | ForeignRule:
    if order.receiver:
        return delivery.new_rule(Read(order.label, 0, 1, (), Copy(0, 1, 0, 0, order.me, None, order.label)))
    rule = delivery.new_rule()
    assert isinstance(rule, Rule)
    rule.delivered.update(_pairs(order.delivered_source, order.delivered_number))
    if rule.remember is not None:
        rule.recent.extend(rule.delivered)
    for source, first, last in _pairs(order.hole_source, order.hole_first, order.hole_last):
        rule.holes.setdefault(source, []).append((first, last))
        rule.delivered[source] = max(last, rule.delivered.get(source, 0))
    rule.seen = dict(_pairs(order.seen_source, order.seen_number))
    rule.quarantined = dict.fromkeys(_listed(order.quarantined))
    rule.delivered.forgotten.update(_listed(order.forgotten))
    return rule


def _hold(delivery: Delivery, state: State) -> None:
    held, labels = state.held, [order.label for order in state.orders]
    needs = list(_pairs(held.need_source, held.need_number, held.need_waited))
    rows = _pairs(held.ticket, held.order, held.since, held.ahead, held.came, held.named, held.message, held.source,
                  held.number)  # fmt: skip
    foreign: dict[str | None, dict[int, tuple[str, ...]]] = {o.label: {} for o in state.orders if o.receiver}
    for row, span in zip(rows, spans(_listed(held.needs)), strict=True):
        ticket, place, since, ahead, came, named, message, source, number = row
        label, waits = labels[place], list[str]()
        if label in foreign:
            message, *waits = message.split("\0")
            foreign[label][ticket] = tuple(waits)
        since = None if math.isnan(since) else since
        delivery.kept[ticket] = Kept(label, message if named else None, since, came)
        if not math.isnan(ahead):
            delivery.doubts[ticket] = ahead
        rule = delivery.rules[label]
        if isinstance(rule, Rule):
            own = needs[span]
            waited = tuple((s, t) for s, t, is_waited in own if is_waited)
            rule.hold(ticket, Held(source, number, tuple((s, t) for s, t, _ in own), waited))
    for order in state.orders:
        rule = delivery.rules[order.label]
        if isinstance(rule, ForeignRule):
            waits_of = foreign[order.label]
            rule.load(order.receiver, list(waits_of), list(waits_of.values()))
