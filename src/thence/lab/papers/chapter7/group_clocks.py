"""A vector clock for each group, over groups that overlap: the second row of table 7.1, as a protocol that runs.

Invariant: every message goes to the others of one group. A member keeps, for each group g and each process r of g, the
count of the latest message of r to g in its causal past; a message carries all of these vectors. At q it is delivered
once, for each group that q is in and each r of it, that message of r has been delivered at q.

Needs groups that are known in advance and may overlap, and messages to whole groups. Cost: the sizes of all groups
together, whichever processes communicate. Not in the registry: `ks` carries less and needs neither.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from thence.core.model.events import Event
from thence.core.model.message import MESSAGE, Copy
from thence.core.model.roster import Roster
from thence.core.protocols.effects import Effect, Sent
from thence.core.protocols.receiver import ClockMember, Needs
from thence.core.wire.codec import INT, MASK, TEXT, ByProcess, RecordShape, Seq, Shape
from thence.errors import MisuseError, PeerError
from thence.lab.simulator import RunRecorder, Scenario, Simulation

GROUP_STAMP = Seq(RecordShape(MASK, ByProcess(INT)), make=tuple)


class GroupClocks(ClockMember):
    """One vector for each group."""

    name = "group-clocks"
    code = 180
    kinds: ClassVar[dict[str, Shape]] = {MESSAGE: GROUP_STAMP}
    fields: ClassVar[dict[str, Shape]] = {"vectors": Seq(RecordShape(MASK, ByProcess(INT)))}
    options: ClassVar[dict[str, Shape]] = {"groups": TEXT}

    def __init__(self, roster: Roster, process: str | int, *, label: str | None = None, groups: str = "") -> None:
        """Take the groups as text: `a,b,c/c,d`."""
        super().__init__(roster, process, label=label)
        self.groups = groups
        masks = [roster.mask(part.split(",")) for part in groups.split("/") if part]
        if not masks:
            raise MisuseError("group-clocks needs groups; a,b,c/c,d is accepted")
        self.vectors: list[tuple[int, dict[int, int]]] = [(mask, {}) for mask in sorted(set(masks))]

    @staticmethod
    def needs(copy: Copy, me: int) -> Needs:
        """Of every group that this destination is in, the latest message of each process."""
        latest: dict[int, int] = {}
        for mask, vector in copy.stamp:
            if mask >> me & 1:
                for process, count in vector.items():
                    if process != me:
                        latest[process] = max(latest.get(process, 0), count)
        return tuple(latest.items())

    def _send(self, destinations: int, context: object, token: object) -> Sent:
        self._no_context(context)
        group = destinations | self.bit
        if group not in dict(self.vectors):
            names = ", ".join(self.roster.members(destinations))
            raise MisuseError(f"{self.roster.name(self.me)} sends to {names}, which are not the others of one group")
        self.count += 1
        stamp = tuple((mask, vector.copy()) for mask, vector in self.vectors)
        sent = self._sent(destinations, lambda d: stamp)
        dict(self.vectors)[group][self.me] = self.count
        return sent

    def _check(self, copy: Copy) -> None:
        masks = [mask for mask, _ in copy.stamp]
        if masks != [mask for mask, _ in self.vectors] or copy.destinations | 1 << copy.sender not in masks:
            raise PeerError(f"message {self._name(copy)} names other groups than those known here, {self.groups!r}")
        for mask, vector in copy.stamp:
            for process, count in vector.items():
                limit = copy.count - 1 if process == copy.sender else self.count if process == self.me else count
                if not mask >> process & 1 or count > limit:
                    raise self.beyond(self.roster.name(process), count, copy)

    def _delivered(self, copy: Copy) -> list[Effect]:
        vectors = dict(self.vectors)
        for mask, vector in copy.stamp:
            for process, count in vector.items():
                vectors[mask][process] = max(vectors[mask].get(process, 0), count)
        group = copy.destinations | 1 << copy.sender
        vectors[group][copy.sender] = max(vectors[group].get(copy.sender, 0), copy.count)
        return []

    @classmethod
    def entries(cls, copy: Copy) -> int:
        """Count the components of all vectors."""
        return sum(mask.bit_count() for mask, _ in copy.stamp)

    def log_size(self) -> int:
        """Count the components of all vectors."""
        return sum(mask.bit_count() for mask, _ in self.vectors)


def group_run(groups: Mapping[str, Sequence[str]], seed: int, messages: int) -> tuple[list[Event], list[int]]:
    """Simulate the processes of these groups, called a, b, c, ...; return the events, and the size of each stamp."""
    names = sorted({name for members in groups.values() for name in members})
    called = dict(zip(names, Roster.of(len(names)), strict=True))
    text = "/".join(",".join(called[name] for name in members) for members in groups.values())
    scenario = Scenario("ks", len(names), messages, workload=f"groups:{text}", seed=seed)
    recorder = RunRecorder()
    members = [GroupClocks(scenario.roster, place, groups=text) for place in range(len(names))]
    Simulation(scenario, recorder, members=members).run()
    events = recorder.rows
    return events, [event.entries for event in events if event.entries is not None]
