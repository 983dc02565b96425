"""Scenes as columns of numbers, ready to be typed arrays in a page, and names as a page shows them.

*Invariant.* Event number i of a run is row i of its scene. All runs of a page share their tables of processes,
messages, labels and files. -1 is null, and a time that is not recorded is NaN. A column takes the smallest type that
holds it, little end first. What a page leaves out (findings beyond a number, stamps beyond a size) is said in the
notes of the run. A name without control characters, and short enough, is shown as it is; processes without events are
in natural order: p2 before p10.
"""

from __future__ import annotations

import re
import sys
from array import array
from base64 import b64encode
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

from thence.core.model.escape import visible as escaped
from thence.core.model.events import Event
from thence.tables.explain.scene import Finding, RowId, Scene

PAGE_EVENTS = 100_000
"""Events that one page takes; more are divided into excerpts."""
FINDINGS = 5_000
"""Findings of a run that a page lists."""
STAMPED = 1_000_000
"""Numbers in stamps in the clear that a page takes for a run."""

PAGE_KINDS = {"send": 0, "receive": 1, "deliver": 2, "internal": 3, "crash": 4}

JsonObject = dict[str, object]
NAME_LIMIT = 120
LONG_TEXT = 2000


def legible(text: str, limit: int = NAME_LIMIT) -> str:
    """Return a text with what cannot be seen written as an escape, cut if it is long."""
    made = escaped(text)
    return made if len(made) <= limit else made[: limit - 1] + "…"


def natural(name: str) -> list[tuple[bool, int, str]]:
    """Return a key that sorts p2 before p10."""
    parts = re.findall(r"[0-9]+|[^0-9]+", name)
    return [(not p.isdecimal(), int(p) if p.isdecimal() else 0, p) for p in (part[:18] for part in parts)]


class Numbering(dict[str, int]):
    """Assigns numbers to texts, in order of first use."""

    def __missing__(self, text: str) -> int:
        self[text] = number = len(self)
        return number

    def texts(self) -> list[str]:
        """Return the texts as they are shown, in order of their numbers."""
        return [legible(text) for text in self]


@dataclass(slots=True)
class Tables:
    """The names that all runs of a page share."""

    processes: Numbering = field(default_factory=Numbering)
    messages: Numbering = field(default_factory=Numbering)
    labels: Numbering = field(default_factory=Numbering)
    files: Numbering = field(default_factory=Numbering)


def encoded(scenes: Sequence[Scene]) -> JsonObject:
    """Return the data of a page, as JSON can hold it."""
    tables = Tables()
    for scene in scenes:  # lanes in order of first appearance, so that an execution reads from the top left
        for event in scene.events:
            tables.processes[event.process]
    silent = {to for scene in scenes for e in scene.events for to in e.destinations or ()} - tables.processes.keys()
    for name in sorted(silent, key=lambda each: (natural(each), each)):
        tables.processes[name]
    runs = [_EncodedRun(scene, tables).json() for scene in scenes]
    return {
        "processes": tables.processes.texts(),
        "messages": tables.messages.texts(),
        "labels": tables.labels.texts(),
        "files": tables.files.texts(),
        "runs": runs,
    }


def column(values: Sequence[int] | Sequence[float]) -> JsonObject:
    """Return numbers as a typed array in base64: Int8, Int16, Int32 or Float64, whichever is least."""
    if all(type(value) is int for value in values):
        low, high = min(values, default=0), max(values, default=0)
        kind = next(
            (k for k, bits in (("b", 7), ("h", 15), ("i", 31)) if -(1 << bits) <= low and high < 1 << bits), "d"
        )
    else:
        kind = "d"
    data = array(kind, values)
    if sys.byteorder == "big":
        data.byteswap()
    return {"type": kind, "data": b64encode(data.tobytes()).decode()}


class _EncodedRun:
    """One scene on its way into columns."""

    def __init__(self, scene: Scene, tables: Tables) -> None:
        self.scene, self.tables = scene, tables
        self.notes = list(scene.notes)
        self.place: dict[RowId, int] = {(e.process, e.index): i for i, e in enumerate(scene.events)}
        self.sends: dict[str, int] = {}
        self.arrivals: dict[tuple[str, str], list[int]] = defaultdict(list)
        self.deliveries: dict[tuple[str, str], list[int]] = defaultdict(list)
        for i, event in enumerate(scene.events):
            if event.message is None or (event.process, event.index) in scene.aside:
                continue
            if event.kind == "send":
                self.sends[event.message] = i
            elif event.kind == "receive":
                self.arrivals[event.message, event.process].append(i)
            elif event.kind == "deliver":
                self.deliveries[event.message, event.process].append(i)

    def json(self) -> JsonObject:
        """Return everything that the page gets of this run."""
        events, tables = self.scene.events, self.tables
        columns = {
            "lane": [tables.processes[e.process] for e in events],
            "kind": [PAGE_KINDS[e.kind] for e in events],
            "message": [-1 if e.message is None else tables.messages[e.message] for e in events],
            "label": [-1 if e.label is None else tables.labels[e.label] for e in events],
            "index": [e.index for e in events],
            "cause": self._causes(),
            "pair": self._pairs(),
            "aside": [int((e.process, e.index) in self.scene.aside) for e in events],
            **self._recorded(events),
            **self._destinations(events),
            **self._stamps(events),
        }
        findings = [self._finding(each) for each in self.scene.findings[:FINDINGS]]
        if len(self.scene.findings) > FINDINGS:
            self.notes.append(f"{len(self.scene.findings) - FINDINGS} more findings are not on this page")
        return {
            "name": legible(self.scene.run),
            "verdict": self.scene.verdict,
            "notes": [legible(note, LONG_TEXT) for note in self.notes],
            "findings": findings,
            "columns": {name: column(values) for name, values in columns.items()},
        }

    def _causes(self) -> list[int]:
        """Return for each arrival and delivery the send of its message."""
        aside = self.scene.aside
        return [
            self.sends.get(e.message or "", -1)
            if e.kind in ("receive", "deliver") and (e.process, e.index) not in aside
            else -1
            for e in self.scene.events
        ]

    def _pairs(self) -> list[int]:
        """Return the delivery of each arrival and the arrival of each delivery; the copy is held between the two."""
        pairs = [-1] * len(self.scene.events)
        for copy, arrived in self.arrivals.items():
            for one, two in zip(arrived, self.deliveries.get(copy, ()), strict=False):
                if one < two:
                    pairs[one], pairs[two] = two, one
        return pairs

    def _recorded(self, events: Sequence[Event]) -> dict[str, Sequence[int] | Sequence[float]]:
        """Return the optional columns that this trace has."""
        found: dict[str, Sequence[int] | Sequence[float]] = {}
        if any(e.time is not None for e in events):
            found["time"] = [float("nan") if e.time is None else e.time for e in events]
        for name in ("entries", "facts", "bytes"):
            sizes = [getattr(e, name) for e in events]
            if any(size is not None for size in sizes):
                found[name] = [-1 if size is None else size for size in sizes]
        if self.scene.origins:
            places = [self.scene.origins.get((e.process, e.index)) for e in events]
            found["file"] = [-1 if place is None else self.tables.files[place[0]] for place in places]
            found["line"] = [-1 if place is None else place[1] for place in places]
        return found

    def _destinations(self, events: Sequence[Event]) -> dict[str, Sequence[int]]:
        """Return the destinations of all sends in a row, and where those of each event start."""
        starts, lanes = [0], []
        for event in events:
            lanes += [self.tables.processes[name] for name in event.destinations or ()]
            starts.append(len(lanes))
        return {"toStart": starts, "toLane": lanes}

    def _stamps(self, events: Sequence[Event]) -> dict[str, Sequence[int]]:
        """Return the stamps in the clear, each once: entries of a stamp, destinations of an entry."""
        known: dict[tuple[tuple[str, tuple[str, ...]], ...], int] = {}
        which = [-1 if e.dependencies is None else known.setdefault(e.dependencies, len(known)) for e in events]
        if not known:
            return {}
        size = sum(1 + len(to) for stamp in known for _, to in stamp)
        if size > STAMPED:
            self.notes.append(f"the stamps in the clear hold {size} numbers and are left out; {STAMPED} are accepted")
            return {}
        starts, messages, fact_starts, facts = [0], [], [0], []
        for stamp in known:
            for message, to in stamp:
                messages.append(self.tables.messages[message])
                facts += [self.tables.processes[name] for name in to]
                fact_starts.append(len(facts))
            starts.append(len(messages))
        return {
            "stamp": which,
            "stampStart": starts,
            "stampMessage": messages,
            "factStart": fact_starts,
            "factLane": facts,
        }

    def _finding(self, finding: Finding) -> JsonObject:
        """Return a finding with the numbers of its events; -1 for events outside the scene."""
        path = [self.place.get((step.process, step.index), -1) for step in finding.path or ()]
        rows = [self.place.get(row, -1) for row in finding.rows]
        made: JsonObject = {
            "what": finding.what,
            "text": legible(finding.sentence, LONG_TEXT),
            "number": finding.number,
        }
        if finding.violation:
            made["short"] = [legible(str(name)) for name in (finding.early, finding.message, finding.destination)]
        made["path"] = [place for place in path if place >= 0]
        made["lane"] = -1 if finding.destination is None else self.tables.processes.get(finding.destination, -1)
        there = finding.destination or ""
        if finding.message is not None:
            made["missingSend"] = self.sends.get(finding.message, -1)
            rows += self.deliveries.get((finding.message, there), ()) if not finding.violation else ()
        if finding.violation:
            made["earlySend"] = self.sends.get(finding.early or "", -1)
            made["early"] = next(iter(self.deliveries.get((finding.early or "", there), ())), -1)
            made["late"] = next(iter(self.deliveries.get((finding.message or "", there), ())), -1)
        made["rows"] = [row for row in rows if row >= 0]
        return made
