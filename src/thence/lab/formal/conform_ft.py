"""Executions of `ks-ft` in the terms of KsFtTrace.tla: the rows of a run with those of its hops, in one order.

*Invariant.* What KsFt takes from outside is recorded: arrivals of messages, OKs and relays, what failure detectors say,
crashes. The rows of the hops share the `order` of the run's rows (`simulate --stamps`). A process that goes on after
its `crash` row was started again from its journal; it is faulty only if that row is its last, and no hop follows it.
"""

from __future__ import annotations

from collections.abc import Sequence

from thence.core.model.events import Event
from thence.core.model.faults import groups_of
from thence.core.model.message_names import HOPS
from thence.core.model.roster import Roster, positions
from thence.errors import TraceError
from thence.lab.formal.conform_ks import Translation, where
from thence.lab.formal.tlc import Model
from thence.lab.formal.values import TlaValue, value_text
from thence.tables.files.recorder import TRUSTS


class FtTranslation(Translation):
    """One run of ks-ft under one label, with its hops."""

    specification = "KsFt"

    def __init__(self, events: Sequence[Event], hops: Sequence[Event], run: str, label: str | None) -> None:
        """Take usable rows, and the rows of the hops that say what they are about."""
        known = [event for event in hops if event.kind == "internal" or _about(event) is not None]
        if any(event.order is None for event in [*events, *known]):
            raise TraceError(f"run {run} says no order of its rows; `thence simulate --stamps` writes one")
        if any(event.kind == "receive" for event in hops) and not any(_about(event) for event in hops):
            raise TraceError(
                f"run {run} does not say what its protocol messages are about; `thence simulate --stamps` records it"
            )
        self.beyond = frozenset[int]()
        """places of processes that only other runs have; a detector says nothing of them"""
        super().__init__(events, run, label, [name for event in known for name in event.destinations or ()])
        ordered = sorted([*events, *known], key=lambda event: event.order or 0)
        self.rows = _arrivals_once(ordered)

    @property
    def faulty(self) -> frozenset[int]:
        """The processes that crash and are not started again."""
        last = {event.process: event for event in self.rows}
        return frozenset(self.places[name] for name, event in last.items() if event.kind == "crash")

    def _row(self, event: Event) -> dict[str, TlaValue]:
        if not event.run.endswith(HOPS):
            return super()._row(event) | {"source": 0, "T": frozenset()}
        row = {"p": self.places[event.process], "stamp": (), "size": (), "source": 0, "T": frozenset[int]()}
        about = _about(event)
        if about is None:
            trusted = event.message == TRUSTS
            none = {"kind": "trust" if trusted else "internal", "s": 1, "t": 0, "Dests": frozenset[int]()}
            return row | none | {"T": self._set(event.destinations or ()) | self.beyond}
        message, okays = about
        sender, count = self.counts.get(message, (1, 0))
        source = self.places.get(okays[0], 0) if okays else 0
        head = {"kind": "ok" if okays else "relay", "s": sender, "t": count}
        return row | head | {"Dests": self._set(self.to.get(message, ())), "source": source}

    def sentence(self, event: Event, why: TlaValue) -> str:
        """Explain why a row is not a step of KsFt."""
        at = _where(event)
        if why[0] == "crashed":
            return f"{at} cannot happen: {event.process} has crashed"
        if why[0] == "held":
            return f"{at} cannot happen yet: {self._named(why[1])} is not OKed by all it was sent to"
        if why[0] == "unsecured":
            lacking = ", ".join(sorted(self.names[place - 1] for place in why[1])) or "no process, but is not next"
            return f"{at} cannot happen yet: its message lacks the OK of {lacking}"
        if why[0] == "trust":
            return f"{at} cannot happen: a group that has a correct member has none that is trusted"
        if event.run.endswith(HOPS) and why[0] == "nowhere":
            return f"{at} cannot happen: no such protocol message was sent there"
        return super().sentence(event, why).replace(where(event), at)


def ft_model_of(traces: Sequence[FtTranslation], groups: str) -> Model:
    """Return the model that TLC runs; without groups each process is one of its own."""
    most = max(len(trace.names) for trace in traces)
    everyone = frozenset(range(1, most + 1))
    parts = {frozenset({place}) for place in everyone}
    if groups:
        if len({tuple(trace.names) for trace in traces}) > 1:
            raise TraceError("groups are given, but the runs have different processes; check each run by itself")
        masks = groups_of(groups, Roster(tuple(traces[0].names)))
        parts = {frozenset(place + 1 for place in positions(mask)) for mask in masks}
    for trace in traces:
        trace.beyond = everyone - frozenset(trace.places.values())
    constants = {
        "Proc": value_text(everyone), "Groups": value_text(frozenset(parts)), "Workload": "{}",
        "MaxMessages": "0", "MaxCrashes": "0", "HoldsBack": "TRUE",
    }  # fmt: skip
    rows = ",\n".join(trace.text() for trace in traces)
    definitions = {"Traces": f"<<\n{rows}\n>>", "Faulty": value_text(tuple(trace.faulty for trace in traces))}
    return Model("KsFtTrace", constants, "TSpec", view="TView", definitions=definitions)


def _about(event: Event) -> tuple[str, tuple[str, ...]] | None:
    """Return the message that the arrival of a hop is about, and who OKs it; None where that is not recorded."""
    return event.dependencies[0] if event.kind == "receive" and event.dependencies else None


def _arrivals_once(events: Sequence[Event]) -> list[Event]:
    """Leave out one of two rows of the same arrival: a hop that brings its message, and the receipt of that.

    That of a relay is the receipt, which has the size of the stamp. That of an OK is the hop, which says who OKs; the
    receipt of a message that came within an OK, which live endpoints record, has no size. The explorer records
    neither sizes nor such receipts.
    """
    sized = any(event.bytes is not None for event in events)
    left_out: set[int] = set()
    last: dict[str, int] = {}
    for place, event in enumerate(events):
        before = last.get(event.process, place)
        last[event.process] = place
        for hop, receipt in ((before, place), (place, before)):
            about = _about(events[hop]) if events[hop].run.endswith(HOPS) else None
            other = events[receipt]
            if about is None or other.run.endswith(HOPS) or (other.kind, other.message) != ("receive", about[0]):
                continue
            if not about[1]:
                left_out.add(hop)
            elif sized and other.bytes is None:
                left_out.add(receipt)
    return [event for place, event in enumerate(events) if place not in left_out]


def _where(event: Event) -> str:
    about = _about(event) if event.run.endswith(HOPS) else None
    if about is None:
        what = f"trusts {', '.join(event.destinations or ())}" if event.message == TRUSTS else None
        return where(event) if what is None else f"row {event.index} of {event.process} ({event.process} {what})"
    message, okays = about
    what = f"the OK of {message} by {okays[0]}" if okays else f"a relay of {message}"
    return f"row {event.index} of {event.process} among the hops ({event.process} receives {what})"
