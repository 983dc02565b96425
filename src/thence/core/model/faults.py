"""The crash model and the failure detector, shared by every driver: pure functions of sets, no time and no chance.

Invariant (Schiper and Pedone 2009, section 3.1, as repaired).

- A crash is final. It loses any subset of the crashed process's copies in flight; copies addressed to it
  vanish. Links are quasi-reliable: between two processes that never crash nothing is lost.
- A process is *faulty* in an execution if it crashes at some time in it, *correct* otherwise. Who is faulty
  is fixed before the execution begins, when is not: accuracy speaks of the future.
- The failure detector gives each process a set of trusted processes. Accuracy: at every time, for every group
  with a correct member, some correct member of it is trusted. Completeness: in the end no process that crashed is
  trusted.

Departure: the paper's accuracy asks for one correct process in the whole system and restricts the output to a
group afterwards. That restriction may trust no process in a group that has correct members, and breaks agreement
(errata 18). `legal(..., per_group=False)` is that literal reading, kept to show it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product

from thence.core.model.message import Copy
from thence.core.model.roster import Roster, positions
from thence.errors import MisuseError


def groups_of(text: str, roster: Roster) -> tuple[int, ...]:
    """Read disjoint groups that cover the roster: "ab|cd|e", with commas between longer names; "" is one group each."""
    if not text:
        return tuple(1 << position for position in range(len(roster)))
    masks: list[int] = []
    for part in text.split("|"):
        names = part.split(",") if "," in part or part in roster else list(part)
        masks.append(roster.mask(name for name in names if name))
    together = 0
    for mask, part in zip(masks, text.split("|"), strict=True):
        if mask == 0:
            raise MisuseError(f"groups {text!r} hold an empty group; each group needs a member")
        if together & mask:
            raise MisuseError(f"group {part!r} shares {', '.join(roster.members(together & mask))} with another one")
        together |= mask
    if together != roster.everyone:
        left = ", ".join(roster.members(roster.everyone & ~together))
        raise MisuseError(f"groups {text!r} leave out {left}; every process belongs to exactly one group")
    return tuple(masks)


def legal(trusted: int, groups: Sequence[int], faulty: int, *, per_group: bool = True) -> bool:
    """Return whether a failure detector may give this output while these processes are the faulty ones."""
    scopes = groups if per_group else [sum(groups)]
    return all(trusted & scope & ~faulty for scope in scopes if scope & ~faulty)


def legalise(wish: int, groups: Sequence[int], faulty: int) -> int:
    """Return the wish, with the first correct member added in each group where the wish trusts no correct one."""
    for group in groups:
        correct = group & ~faulty
        if correct and not wish & correct:
            wish |= correct & -correct
    return wish


def least(groups: Sequence[int], faulty: int, *, per_group: bool = True) -> Iterator[int]:
    """Yield the least legal outputs, those from which no process can be taken away: the adversary's choices."""
    scopes = groups if per_group else [sum(groups)]
    correct = [[1 << p for p in positions(scope & ~faulty)] or [0] for scope in scopes]
    for choice in product(*correct):
        yield sum(choice)


def outputs(groups: Sequence[int], faulty: int, *, per_group: bool = True) -> Iterator[int]:
    """Yield every legal output, the smallest first."""
    everyone = sum(groups)
    for trusted in sorted(range(everyone + 1), key=lambda mask: (mask.bit_count(), mask)):
        if not trusted & ~everyone and legal(trusted, groups, faulty, per_group=per_group):
            yield trusted


def may_be_lost(copy: Copy, crashed: int) -> bool:
    """Return whether a copy in flight may be lost because a process among `crashed` (a mask) sent it."""
    return bool(crashed >> copy.source & 1)


def nobody_receives(copy: Copy, crashed: int) -> bool:
    """Return whether a copy vanishes because its destination is among `crashed` (a mask)."""
    return bool(crashed >> copy.destination & 1)
