"""Protocols side by side on one small simulated traffic, with their stamps in the clear: a page to step through.

*Invariant.* The runs differ in the protocol alone; each is audited. The same arguments give the same page.
"""

from __future__ import annotations

from collections.abc import Sequence

from thence.core.model.events import Event
from thence.lab.simulator import Scenario, simulate
from thence.show.spacetime.findings import findings_of
from thence.show.spacetime.pages import Recorded, one_page
from thence.tables.engines.local.audit import audit_events


def side_by_side(protocols: Sequence[str], *, seed: int) -> Recorded:
    """Return what some protocols do on the same traffic, and what is wrong with it."""
    events: list[Event] = []
    for name in protocols:
        scenario = Scenario(protocol=name, processes=4, messages=24, seed=seed, run=name)
        events += [e for e in simulate(scenario, trace=True, stamps=True).events if e.run == name]
    with audit_events(events) as audit:
        verdicts = {run["run"]: run["verdict"] for run in audit.run_rows}
        return Recorded(events, findings_of(audit), verdicts, {}, " beside ".join(protocols))


def side_by_side_page(protocols: Sequence[str] = ("ks", "unordered"), *, seed: int = 1) -> str:
    """Return the page of some protocols on the same traffic."""
    lead = "The same messages, sent at the same times, under each protocol. Step with the arrow keys."
    return one_page(side_by_side(protocols, seed=seed), lead=lead)
