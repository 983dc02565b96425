"""The properties an exploration judges, by name.

| name | holds when |
|---|---|
| `causal order`, `two-hop order`, `fifo order` | nothing is delivered before what must precede it, anywhere |
| `no duplicates` | nothing is delivered twice, or where it was not addressed (uniform integrity) |
| `no needless waiting` | a received copy whose causes are all delivered is delivered at once |
| `liveness` | with nothing in flight, all that is not lost, nor behind a loss, is delivered; no send waits |
| `progress` | it never happens that nothing is in flight and every process holds back a send |
| `bounded sends` | no process sends more messages in one epoch than its bound (`bounded`) |
| `exact facts` | copies and logs hold the facts of the propagation constraints and no others (`minimum.py`) |
| `validity` | what a correct process sends, every correct destination delivers |
| `uniform agreement` | what any process delivers, even one that crashes later, every correct destination delivers |
| `genuine` | only the sender and the destinations of a message send or receive anything on its behalf |
"""

from __future__ import annotations

from collections.abc import Iterable

from thence.core.protocols.registry import ProtocolEntry
from thence.errors import MisuseError

ORDERS = ("causal order", "two-hop order", "fifo order")
PROPERTY_NAMES = (
    *ORDERS,
    "no duplicates",
    "no needless waiting",
    "liveness",
    "progress",
    "bounded sends",
    "exact facts",
    "validity",
    "uniform agreement",
    "genuine",
)
EXACT = frozenset({"ks", "ci-dc"})
"""protocols whose facts are the minimum"""


def default(entry: ProtocolEntry, *, crashes: int = 0, fault: str | None = None) -> frozenset[str]:
    """Return the properties that a protocol promises; one without an order is judged by causal order.

    A printed variant is held to what its `fault` says it breaks.
    """
    guarantee = "causal" if entry.guarantee == "none" else entry.guarantee
    chosen = {f"{guarantee} order", "no duplicates"}
    if "failure detector" in entry.needs:
        chosen |= {"genuine"}
    chosen |= {"validity", "uniform agreement"} if crashes else {"liveness"}
    if fault == "not minimal":
        return frozenset({"exact facts"})
    if fault == "over its bound":
        return frozenset({"causal order", "bounded sends"})
    if fault == "unsafe":
        return frozenset(chosen - {"liveness"})
    if fault == "stuck":
        return frozenset(chosen & {"liveness", "validity", "uniform agreement"})
    if entry.waits == "causes only" and entry.guarantee == "causal":
        chosen.add("no needless waiting")
    if entry.name in EXACT:
        chosen.add("exact facts")
    if "bound" in entry.protocol.options:
        chosen.add("bounded sends")
    return frozenset(chosen)


def properties_of(names: Iterable[str]) -> frozenset[str]:
    """Return the properties of these names; one order at most."""
    found = frozenset(name.replace("-", " ") if name not in PROPERTY_NAMES else name for name in names)
    found = frozenset("two-hop order" if name == "two hop order" else name for name in found)
    for name in found:
        if name not in PROPERTY_NAMES:
            there = ", ".join(each.replace(" ", "-") for each in PROPERTY_NAMES)
            raise MisuseError(f"no property {name!r}; there are {there}")
    if len(found & set(ORDERS)) > 1:
        raise MisuseError("judge one order at a time: causal order implies fifo order")
    return found
