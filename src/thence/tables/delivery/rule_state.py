"""The state of a rule, as columns and back.

*Invariant.* `resumed(state_of(rule), ...)` answers every further row as `rule` would.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from math import isnan, nan
from typing import Any

from thence.core.model.plain import Field
from thence.tables.delivery.codes_cy import DONE
from thence.tables.delivery.delivery_rule_cy import Rule
from thence.tables.delivery.held_cy import HeldArrays, HeldRow
from thence.tables.delivery.member_rule import ForeignRule
from thence.tables.delivery.packing import Texts
from thence.tables.delivery.policy import Policy
from thence.tables.delivery.reading import Reading
from thence.tables.delivery.room_cy import Room
from thence.tables.delivery.state import (
    HeldColumns,
    OrderColumns,
    SourceColumn,
    State,
    agree,
    ints,
    reading_terms,
    spans,
)

Named = dict[Hashable, int]
"""The codes of the sources of one causal order."""


def state_of(rule: Rule) -> State:
    """Return the state of a rule."""
    rule.tidy()
    state = State(rule.reading.by, *reading_terms(rule.reading), rule.rows, rule.position)
    state.now, state.began, state.doubted = (
        None if isnan(each) else each for each in (rule.now, rule.began, rule.doubted)
    )
    for label, receiver in rule.foreign.items():
        state.orders.append(OrderColumns(label, receiver=receiver.dump(), me=receiver.receiver.me))
    for label, sources in rule.orders.items():
        state.orders.append(_order(label, sources, rule))
    state.held = _held_rows(rule, rule.arrays_held())
    return state


def _order(label: str | None, sources: Named, rule: Rule) -> OrderColumns:
    def column(values: list[Hashable]) -> SourceColumn:
        return _sources(rule, values)

    known = [(name, code, rule.source(code)) for name, code in sources.items() if code != DONE]
    if not rule.cyclic:
        levels = [(name, rule.level_of(code)) for name, code, _ in known if rule.level_of(code)]
        delivered, numbers = column([name for name, _ in levels]), ints(level for _, level in levels)
    else:
        done = [name for name, code in sources.items() if code == DONE]
        ids = done if rule.recent is None else list(rule.recent)
        delivered, numbers = column(ids), ints([1]) * len(ids)
    holes = [(name, *hole) for name, _, source in known for hole in source.holes or ()]
    seen = [(name, source.seen) for name, _, source in known if source.seen]
    return OrderColumns(
        label,
        delivered,
        numbers,
        column([name for name, _, _ in holes]),
        ints(first for _, first, _ in holes),
        ints(last for _, _, last in holes),
        column([name for name, _ in seen]),
        ints(number for _, number in seen),
        column([name for name, _, source in known if source.quarantined]),
        ints(sorted(rule.forgotten)),
    )


def _sources(rule: Rule, values: list[Hashable]) -> SourceColumn:
    """Return sources as a column: positions for stamps, else texts."""
    return ints(values) if rule.reading.by == "stamp" else Texts.of(values)  # type: ignore[arg-type]


def _held_rows(rule: Rule, rows: HeldArrays) -> HeldColumns:
    """Return held rows as columns of a state."""
    if not rows.ticket:
        return HeldColumns()
    places = {label: place for place, label in enumerate([*rule.foreign, *rule.orders])}
    names = rows.names or [()] * len(rows.ticket)
    return HeldColumns(
        rows.ticket,
        ints([places[label] for label in rows.labels]),
        rows.since,
        rows.ahead,
        rows.came,
        Texts.of(["\0".join(["", *each]) for each in names] if rule.foreign else []),
        _sources(rule, list(map(rule.text, rows.own_code))),
        rows.own_number,
        rows.own_needs,
        _sources(rule, list(map(rule.text, rows.need_code))),
        rows.need_number,
        rows.need_waited,
    )


# -- back --------------------------------------------------------------------------------------------------------------


def resumed(state: State, reading: Reading, policy: Policy, where: object = "", room: Room | None = None) -> Rule:
    """Return the rule that a state describes."""
    rule = Rule(agree(state, reading), policy, where, room)
    rule.rows, rule.position = state.rows, state.position
    rule.now, rule.began, rule.doubted = (
        nan if each is None else each for each in (state.now, state.began, state.doubted)
    )
    receivers = {order.label: rule.receiver(order.label, order.me) for order in state.orders if order.receiver}
    for order in state.orders:
        if not order.receiver:
            _take_order(rule, order)
    labels = [order.label for order in state.orders]
    rows = list(_rows(rule, state.held, labels))
    for row in rows:
        rule.keep(row)
    for order in state.orders:
        if order.receiver:
            _load(receivers[order.label], order, rows)
    return rule


def know(rule: Rule, label: str | None, ids: Sequence[Hashable]) -> None:
    """Count ids of explicit causes as delivered before the next row comes; they get no position."""
    rule.known(label, "")  # creates the order, even without known ids
    rule.orders[label].update(dict.fromkeys(ids, DONE))
    if rule.recent is not None:
        rule.recent.extend(ids)


def _take_order(rule: Rule, order: OrderColumns) -> None:
    delivered = _listed(order.delivered_source)
    rule.known(order.label, "")
    if rule.cyclic:
        know(rule, order.label, delivered)
        rule.forgotten.update(_listed(order.forgotten))
    else:
        for name, number in zip(delivered, _listed(order.delivered_number), strict=True):
            rule.set_level(rule.code(order.label, name), number)
    for name, first, last in _together(order.hole_source, order.hole_first, order.hole_last):
        code = rule.code(order.label, name)
        source = rule.source(code)
        source.holes = [*(source.holes or ()), (first, last)]
        rule.set_level(code, max(rule.level_of(code), last))
        rule.holes += 1
    for name, number in _together(order.seen_source, order.seen_number):
        rule.source(rule.code(order.label, name)).seen = number
    for name in _listed(order.quarantined):
        rule.source(rule.code(order.label, name)).quarantined = True


def _rows(rule: Rule, held: HeldColumns, labels: list[str | None]) -> Iterator[HeldRow]:
    """Yield held rows."""
    waits = iter(_listed(held.message))
    own = _together(held.source, held.number, spans(_listed(held.needs)))
    needs = list(_together(held.need_source, held.need_number, held.need_waited))
    for ticket, place, since, ahead, came in _together(held.ticket, held.order, held.since, held.ahead, held.came):
        label = labels[place]
        if label in rule.foreign:
            names = tuple(next(waits).split("\0")[1:])
            yield HeldRow(ticket, label, -1, 0, since, ahead, came, [], [], names)
        else:
            name, number, span = next(own)
            yield read_held_row(rule, (ticket, label, name, number, since, ahead, came), needs[span])


def read_held_row(rule: Rule, about: tuple[Any, ...], needs: Sequence[tuple[Any, ...]]) -> HeldRow:
    """Return a held row whose source is given by name; `needs`: names, numbers, and whether it is held for each."""
    ticket, label, name, number, since, ahead, came = about
    found = [(rule.named_code(label, other), count) for other, count, _ in needs]
    waited = [bool(each[2]) for each in needs]
    return HeldRow(ticket, label, rule.code(label, name), number, since, ahead, came, found, waited)


def _load(receiver: ForeignRule, order: OrderColumns, rows: list[HeldRow]) -> None:
    receiver.load(order.receiver, sorted(row.ticket for row in rows if row.label == order.label))


def _listed(column: Texts | Iterable[object]) -> list[Field]:
    """Return a column as Python's own values."""
    return column.tolist() if isinstance(column, Texts) else list(column)


def _together(*columns: Texts | Iterable[object]) -> Iterator[tuple[Field, ...]]:
    return zip(*map(_listed, columns), strict=True)
