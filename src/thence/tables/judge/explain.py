"""One violation for people: its sentence, and the rows that show it as a text diagram.

Invariant: violations are numbered from 1 in the order (run, destination, missing), the same on either engine. The
decisive end, the two deliveries at the destination, is always drawn; where a path is long, rows in its middle are left
out and that is said.
"""

from __future__ import annotations

from dataclasses import replace

from thence.errors import MisuseError
from thence.tables.explain.diagram import diagram
from thence.tables.explain.scene import Scene, shown_by, violated
from thence.tables.judge.result import AuditResult, key_of, violation_of

DRAWN = 24
"""Rows of a diagram at most."""


def explanation(result: AuditResult, number: int = 1, *, width: int | None = None) -> str:
    """Return a violation by its number, as a sentence and a diagram of at most `width` columns if possible."""
    if number < 1:
        raise MisuseError(f"violations are numbered from 1, found {number}")
    found = result.nth_violation(number)
    if found is None:
        raise MisuseError(f"there is no violation {number}; {_how_many(result)}")
    row, path = found
    finding = violated(violation_of(row), path, never=key_of(row) in result.never_delivered([row]))
    messages = {step.message for step in path or () if step.message} | set(finding.messages())
    events = shown_by(result.findings.events(str(row["run"]), messages), finding)
    scene = Scene(str(row["run"]), events, (finding,))
    name = f"run {row['run']}: " if len(result.run_rows) > 1 else ""
    return f"{name}{finding.sentence}\n\n{_drawn(scene, width)}"


def _drawn(scene: Scene, width: int | None) -> str:
    """Draw a scene; of a long one the beginning and the end."""
    left_out = len(scene.events) - DRAWN
    if left_out <= 0:
        return diagram(scene, limit=DRAWN, width=width)
    head = DRAWN // 4
    events = [*scene.events[:head], *scene.events[head + left_out :]]
    drawn = diagram(replace(scene, events=events), limit=DRAWN, width=width)
    return f"{drawn}({left_out} rows after the first {head} left out)\n"


def _how_many(result: AuditResult) -> str:
    count = sum(run["violations"] for run in result.run_rows)
    return f"there {'is' if count == 1 else 'are'} {count or 'none'}"
