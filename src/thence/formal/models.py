"""The bounded systems in which the specifications are checked."""

from __future__ import annotations

from thence.errors import MisuseError
from thence.formal.tlc import Model
from thence.formal.values import written

ORDER = ("CausalOrder", "NoNeedlessWaiting", "ExactlyOnce", "ExactLogs", "ExactCopies", "CanonicalLogs")
"""the invariants of KSProperties"""
FANOUTS = ("unicast", "any", "broadcast")


def _constants(processes: int, messages: int, destinations: str, *, to_self: bool = False) -> dict[str, str]:
    if destinations not in FANOUTS:
        raise MisuseError(f"destinations {destinations!r}; {', '.join(FANOUTS)} are accepted")
    return {
        "Proc": written(frozenset(range(1, processes + 1))),
        "Fanout": written(destinations),
        "ToSelf": written(to_self),
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
