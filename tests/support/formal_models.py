"""The bounded systems in which the specifications are checked."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from thence.errors import MisuseError
from thence.lab.formal.tlc import Model
from thence.lab.formal.values import Written, value_text

ORDER = ("CausalOrder", "NoNeedlessWaiting", "ExactlyOnce", "ExactLogs", "ExactCopies", "CanonicalLogs")
"""the invariants of KSProperties"""
FANOUTS = ("unicast", "any", "broadcast")


def _constants(processes: int, messages: int, destinations: str, *, to_self: bool = False) -> dict[str, str]:
    if destinations not in FANOUTS:
        raise MisuseError(f"destinations {destinations!r}; {', '.join(FANOUTS)} are accepted")
    return {
        "Proc": value_text(frozenset(range(1, processes + 1))),
        "Fanout": value_text(destinations),
        "ToSelf": value_text(to_self),
        "MaxMessages": str(messages),
    }


def ks(processes: int, messages: int, destinations: str, *, to_self: bool = False) -> Model:
    """Return KS with its safety properties: order, exactly once, least information."""
    given = _constants(processes, messages, destinations, to_self=to_self)
    return Model("KSProperties", given, "HSpec", ORDER, ("AtMostOnce",))


def ks_live(processes: int, messages: int, destinations: str, *, to_self: bool = False) -> Model:
    """Return KS under fairness: whatever is sent is delivered."""
    given = _constants(processes, messages, destinations, to_self=to_self)
    return Model("KSProperties", given, "FairSpec", (), ("Liveness",))


def ks_member(processes: int, messages: int, destinations: str, *, to_self: bool = False) -> Model:
    """Return KS in the steps of the code, with the states that the explorer counts."""
    given = _constants(processes, messages, destinations, to_self=to_self)
    return Model("KSMember", given, "MSpec", ("CausalOrder",), view="View")


FT = (
    "CausalOrder", "Integrity", "AtMostOnce", "Genuine", "Validity", "UniformAgreement", "Secures", "ExactLogs",
)  # fmt: skip
"""the invariants of KsFt"""


def ks_ft(
    groups: Sequence[Iterable[int]],
    messages: int,
    crashes: int,
    *,
    workload: Iterable[tuple[int, Iterable[int]]] = (),
    holds_back: bool = True,
) -> Model:
    """Return ks-ft with crashes and failure detectors; `holds_back=False` is without the repair of errata 20.

    A `workload` names the sends that are made, each once in any order; without one any are.
    """
    asked = frozenset((_name(sender), frozenset(map(_name, to))) for sender, to in workload)
    masks = [frozenset(map(_name, group)) for group in groups]
    names = sorted(frozenset().union(*masks))
    given = {
        "Proc": value_text(frozenset(names)),
        "Groups": value_text(frozenset(masks)),
        "MaxMessages": str(messages),
        "MaxCrashes": str(crashes),
        "HoldsBack": value_text(holds_back),
    }
    symmetry = "" if asked else "Symmetry"
    return Model("KsFt", given, "Spec", FT, symmetry=symmetry, named=names, definitions={"Workload": value_text(asked)})


def ks_ft_live(groups: Sequence[Iterable[int]], messages: int, crashes: int) -> Model:
    """Return ks-ft under fairness: whatever must be delivered is."""
    # TLC does not check what happens in the end under symmetry
    model = ks_ft(groups, messages, crashes)
    return replace(model, specification="FairSpec", invariants=(), properties=("Liveness",), symmetry="")


def ks_ft_member(processes: int, messages: int, crashes: int) -> Model:
    """Return ks-ft with the states of the explorer, each process a group of its own; it prints a line for each."""
    model = ks_ft([[process] for process in range(1, processes + 1)], messages, crashes)
    counted = ("CausalOrder", "Counted")
    return replace(model, module="KsFtMember", invariants=counted, symmetry="", view="View", instead={"Spent": "Never"})


def _name(process: int) -> Written:
    return Written(f"p{process}")
