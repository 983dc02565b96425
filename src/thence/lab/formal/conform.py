"""Checks whether a recorded execution is a behaviour of the specification: writes it for TLC and reads the verdict."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from thence.core.model.events import Event
from thence.core.model.message_names import HOPS
from thence.core.model.order import RejectedRow, by_label, by_run, gaps, usable
from thence.errors import MisuseError, TraceError
from thence.lab.explorer.witness import FORMAT, Impossible, loads
from thence.lab.formal.conform_ft import FtTranslation, ft_model_of
from thence.lab.formal.conform_ks import Conformance, Translation, model_of, where
from thence.lab.formal.tlc import TLC_SECONDS, TlcError, check
from thence.lab.formal.values import TlaValue
from thence.lab.papers.variants import VARIANTS

SPECIFIED = ("ks", "ks-ft")
"""protocols that have a specification"""


def conform(
    events: Iterable[Event],
    *,
    protocol: str = "ks",
    groups: str = "",
    patience: float = TLC_SECONDS,
    folder: Path | None = None,
) -> list[Conformance]:
    """Check each run and label by itself, in one run of TLC.

    `protocol` is one of `SPECIFIED`; `groups` are those of ks-ft, as in "ab|c", each process one if not given. `folder`
    keeps what TLC was given.
    """
    if protocol not in SPECIFIED:
        raise MisuseError(f"protocol {protocol} has no specification; {', '.join(SPECIFIED)} are accepted")
    if groups and protocol != "ks-ft":
        raise MisuseError(f"protocol {protocol} knows no groups; leave them out")
    found: list[Conformance | Translation] = []
    runs = by_run(events)
    for run, rows in runs.items():
        if run.endswith(HOPS):
            continue
        good, rejected = usable(rows)
        if missing := gaps(rows):
            process, index = missing[0]
            raise TraceError(f"run {run} has no row {index - 1} of {process}; a whole trace is needed")
        if rejected:
            found.append(_unusable(run, len(rows), rejected[0]))
            continue
        for label, labelled in by_label(good).items():
            if protocol == "ks":
                found.append(Translation(labelled, run, label))
            else:
                hops = [hop for hop in runs.get(f"{run}{HOPS}", ()) if hop.label == label or hop.kind == "internal"]
                found.append(FtTranslation(labelled, hops, run, label))
    if not found:
        raise TraceError("the trace holds no run; record one with `thence simulate --stamps --trace FILE`")
    judged = _judged([each for each in found if isinstance(each, Translation)], groups, patience, folder)
    return [next(judged) if isinstance(each, Translation) else each for each in found]


def _unusable(run: str, rows: int, rejected: RejectedRow) -> Conformance:
    event = rejected.event
    return Conformance(run, event.label, rows, 0, event, f"{where(event)} cannot happen: {rejected.reason}")


def _judged(traces: Sequence[Translation], groups: str, patience: float, folder: Path | None) -> Iterator[Conformance]:
    """Let TLC judge the traces that have rows."""
    for trace in traces:
        if not trace.stamped:
            raise TraceError(
                f"run {trace.run} records no stamps, so there is nothing to compare; "
                "`thence simulate --stamps` records them"
            )
    verdicts: dict[int, TlaValue] = {}
    if any(trace.rows for trace in traces):
        ft = [trace for trace in traces if isinstance(trace, FtTranslation)]
        outcome = check(ft_model_of(ft, groups) if ft else model_of(traces), patience=patience, folder=folder)
        verdicts = {answer[1]: answer for answer in outcome.printed if answer[0] in ("conforms", "refused")}
    for number, trace in enumerate(traces, 1):
        answer = verdicts.get(number, ("conforms", number, 0))
        if answer[0] == "conforms" and answer[2] != len(trace.rows):
            raise TlcError(f"TLC gave no verdict on run {trace.run}: {outcome.output[-300:]}")
        yield trace.verdict(answer)


# -- executions that the explorer saved ------------------------------------------------------------------------------

LOOKED_AT = 200
"""characters at the beginning of a file that say what it is"""


def is_execution(path: Path) -> bool:
    """Return whether a file is an execution that the explorer saved."""
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return f'"{FORMAT}"'.encode() in file.read(LOOKED_AT)


def replayed_events(path: Path) -> list[Event]:
    """Replay a saved execution and return its events, stamps in the clear, and those of its hops."""
    try:
        done = loads(path.read_text(encoding="utf-8"), VARIANTS).run()
        return [*done.events, *done.hops]
    except Impossible as error:
        raise TraceError(f"{path} is not an execution of its setting any more: {error}") from None
    except TraceError as error:
        raise TraceError(f"{path}: {error}; an execution written by --save is accepted") from None
