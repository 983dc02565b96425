"""Shrink a failure: to the fewest messages in this setting, then by removing steps one at a time.

Invariant: the result breaks the same property. No execution of the setting with fewer messages breaks it (smaller
settings were explored whole, unless the time ran out, which is said). And no single step, message or
destination can be left out.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Unpack

from thence.core.model.roster import positions
from thence.lab.explorer.coverage import Coverage, Failure
from thence.lab.explorer.search import Explorer, Options
from thence.lab.explorer.setting import CopyName, Setting, Step
from thence.lab.explorer.witness import Impossible, Witness, replay

TRIED_PER_SIZE = 64


@dataclass
class Smallest:
    """A witness, and whether fewer messages are known not to suffice."""

    witness: Witness
    fewest: bool


def smallest(failure: Failure, properties: frozenset[str], *, time_limit: float | None = None) -> Smallest:
    """Return the smallest execution that breaks the property of a failure."""
    broken = failure.problem.property
    judged = properties if broken == "no duplicates" else frozenset({broken, *_order(properties)})
    fewest = True
    for setting in _smaller(failure.setting):
        found = Explorer(setting, properties=judged, first=False, time_limit=time_limit).run()
        chosen = [f for f in found.failures if f.problem.property == broken][:TRIED_PER_SIZE]
        if chosen:
            return Smallest(min((shrunk(f, judged) for f in chosen), key=_size), fewest)
        fewest = fewest and found.complete
    return Smallest(shrunk(failure, judged), fewest)


def _order(properties: frozenset[str]) -> set[str]:
    return {name for name in properties if name.endswith("order")}


def _smaller(setting: Setting) -> Iterator[Setting]:
    for messages in range(1, setting.messages + 1):
        for crashes in range(min(setting.crashes, 1), setting.crashes + 1):
            for links in range(min(setting.links, 1), setting.links + 1):
                yield replace(setting, messages=messages, crashes=crashes, links=links)


def _size(witness: Witness) -> tuple[int, ...]:
    named = sum(step.target.bit_count() for step in witness.steps if step.kind == "send")
    return witness.messages(), len(witness.steps), named, *(step.process for step in witness.steps)


def shrunk(failure: Failure, properties: frozenset[str]) -> Witness:
    """Remove steps one at a time while the failure remains."""
    witness = Witness(failure.setting, tuple(sorted(properties)), failure.start, failure.steps)
    again = True
    while again:
        again = False
        for steps in _without_one(witness.steps, witness.setting):
            candidate = _possible(witness, steps, failure.problem.property)
            if candidate is not None:
                witness, again = candidate, True
                break
    return replace(witness, setting=replace(witness.setting, messages=max(1, witness.messages())))


def _possible(witness: Witness, steps: tuple[Step, ...], broken: str) -> Witness | None:
    try:
        result = replay(witness.setting, witness.start, steps, frozenset(witness.properties))
    except Impossible:
        return None
    if result.problem is None or result.problem.property != broken:
        return None
    return replace(witness, steps=steps[: result.done])


def _without_one(steps: tuple[Step, ...], setting: Setting) -> Iterator[tuple[Step, ...]]:
    """Yield the steps without one message, one other step, or one destination."""
    counts: dict[int, int] = {}
    for place, step in enumerate(steps):
        if step.kind == "send":
            counts[step.process] = number = counts.get(step.process, 0) + 1
            yield tuple(_renumbered(steps[:place] + steps[place + 1 :], step.process, number))
    for place, step in enumerate(steps):
        if step.kind != "send":
            yield steps[:place] + steps[place + 1 :]
    counts = {}
    for place, step in enumerate(steps):
        if step.kind != "send":
            continue
        counts[step.process] = number = counts.get(step.process, 0) + 1
        groups = setting.group_masks() if setting.grouped else tuple(1 << d for d in positions(step.target))
        for part in groups:
            if part & step.target and step.target & ~part:
                less = step._replace(target=step.target & ~part)
                rest = [s for s in steps[place + 1 :] if not _of(s, step.process, number, part)]
                yield (*steps[:place], less, *rest)


def _of(step: Step, sender: int, number: int, part: int) -> bool:
    copy = step.copy
    return copy is not None and (copy.sender, copy.number) == (sender, number) and bool(part >> step.process & 1)


def _renumbered(steps: tuple[Step, ...], sender: int, gone: int) -> Iterator[Step]:
    """Yield the steps without those of a removed message; later messages of its sender are renumbered."""
    for step in steps:
        copy = step.copy
        if copy is None or copy.sender != sender or copy.number < gone:
            yield step
        elif copy.number > gone:
            yield step._replace(copy=CopyName(copy.source, sender, copy.number - 1, copy.kind, copy.nth))


def find(setting: Setting, **options: Unpack[Options]) -> tuple[Coverage, Smallest | None]:
    """Explore a setting; where it fails, return the smallest execution that shows it."""
    explorer = Explorer(setting, **options)
    coverage = explorer.run()
    if not coverage.failures:
        return coverage, None
    return coverage, smallest(coverage.failures[0], explorer.properties, time_limit=explorer.time_limit)
