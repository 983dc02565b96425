"""An execution that shows a failure: replayed step by step; as notation, in words, as a picture, as JSON.

Invariant: a witness holds the steps, not what they led to. A reader replays it through the members
themselves, so it shows a failure only as long as the protocol has it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from thence.core.model.events import Event, EventKind, render
from thence.core.model.message import MESSAGE, Copy
from thence.core.model.message_names import HOPS, name_of
from thence.core.model.order import Violation
from thence.core.model.plain import Fields, Json, Row
from thence.core.protocols.effects import Answer, Deliver, Sent
from thence.errors import MisuseError, TraceError
from thence.lab.explorer.judge import Problem
from thence.lab.explorer.moves import Moves
from thence.lab.explorer.properties import properties_of
from thence.lab.explorer.setting import CopyName, Setting, Start, Step, Variant
from thence.lab.explorer.system import UNTOLD, System
from thence.tables.explain.diagram import diagram
from thence.tables.explain.scene import Finding, Scene, scene_of, violated
from thence.tables.explain.sentence import PathStep, sentence
from thence.tables.files.recorder import TRUSTS

StepRow = list[str | int | list[str]]
"""A step as JSON: its kind and process, then whom it is for or which copy it takes."""

FORMAT = "thence-execution-1"

ClearStamp = tuple[tuple[str, tuple[str, ...]], ...]
"""A stamp in the clear: messages with destinations."""


@dataclass
class Replay:
    """The result of a sequence of steps."""

    setting: Setting
    system: System
    problem: Problem | None
    events: list[Event] = field(default_factory=list)
    hops: list[Event] = field(default_factory=list)
    """OKs that arrived and what failure detectors said, in the order of the events"""
    done: int = 0
    """steps taken before the end or the problem, that step included"""
    moves: Moves | None = None

    def note(
        self,
        process: str,
        kind: EventKind,
        message: str | None = None,
        to: tuple[str, ...] | None = None,
        stamp: ClearStamp | None = None,
        *,
        hop: bool = False,
    ) -> None:
        """Add a row of the run, or of its hops, which share one order."""
        rows, run = (self.hops, f"run{HOPS}") if hop else (self.events, "run")
        index = 1 + sum(event.process == process for event in rows)
        order = len(self.events) + len(self.hops)
        rows.append(Event(run, process, index, kind, message, to, order=order, dependencies=stamp))


class Impossible(Exception):
    """A step that is not possible at its place."""


def replay(setting: Setting, start: Start, steps: tuple[Step, ...], properties: frozenset[str]) -> Replay:
    """Take the steps one by one until a property breaks; at the end, judge what is at rest."""
    moves = Moves(setting, properties)
    root = moves.starts().get(start)
    if root is None:
        raise Impossible(f"no execution of the setting starts with {start}")
    result = Replay(setting, root, None, moves=moves)
    for process, trusted in enumerate(root.trust):
        if trusted != UNTOLD:
            result.note(moves.roster.name(process), "internal", TRUSTS, moves.roster.members(trusted), hop=True)
    for step in steps:
        _check(moves, result.system, step)
        move = moves.apply(result.system, step)
        _record(result, moves, step, move.effects)
        result.system, result.problem = move.system, move.problem
        result.done += 1
        if move.problem is not None:
            return result
    if not result.system.flight and moves.settled(result.system):
        result.problem = moves.stuck(result.system)
    return result


def _path(result: Replay, violation: Violation) -> list[PathStep] | None:
    """Return the causal path that proves a violation."""
    from thence.tables.judge.proof_path import path  # loads numpy, which exploring does not need

    return path(result.events, violation)


def _check(moves: Moves, system: System, step: Step) -> None:
    if step not in moves.steps(system, step.process):
        raise Impossible(f"step {step} is not possible where it stands")


def _record(result: Replay, moves: Moves, step: Step, effects: tuple[Answer, ...]) -> None:
    name, members = moves.roster.name, moves.roster.members
    here, copy = name(step.process), step.copy
    if step.kind == "crash":
        result.note(here, "crash")
    if step.kind == "trust":
        result.note(here, "internal", TRUSTS, members(step.target), hop=True)
    if step.kind == "receive" and copy is not None:
        message, source = name_of(name(copy.sender), copy.number), name(copy.source)
        if copy.kind == MESSAGE:
            result.note(here, "receive", message)
        else:
            result.note(here, "receive", f"{message}/{source}", stamp=((message, (source,)),), hop=True)
    for effect in effects:
        if isinstance(effect, Sent):
            message = name_of(name(effect.message.sender), effect.message.count)
            result.note(here, "send", message, members(effect.destinations))
        elif isinstance(effect, Deliver):
            message = name_of(name(effect.copy.sender), effect.copy.count)
            result.note(here, "deliver", message, stamp=_clear(result, moves, step, effect.copy))


def _clear(result: Replay, moves: Moves, step: Step, copy: Copy) -> ClearStamp | None:
    """Return the stamp of a copy in the clear, where the protocol has such."""
    member = result.system.nodes[step.process].member
    found = None if member is None else member.dependencies(copy)
    if found is None:
        return None
    name, members = moves.roster.name, moves.roster.members
    return tuple((name_of(name(message.sender), message.count), members(mask)) for message, mask in found)


@dataclass(frozen=True)
class Witness:
    """A failure with its steps, ready to be shown, stored and replayed."""

    setting: Setting
    properties: tuple[str, ...]
    start: Start
    steps: tuple[Step, ...]

    def run(self) -> Replay:
        """Replay the execution and judge it."""
        return replay(self.setting, self.start, self.steps, frozenset(self.properties))

    def messages(self) -> int:
        """Count the messages that the execution sends."""
        return sum(step.kind == "send" for step in self.steps)

    def events(self, result: Replay | None = None) -> list[Event]:
        """Return the events; an arrival is shown only where the copy had to wait."""
        events = (result or self.run()).events
        shown = []
        for place, event in enumerate(events):
            after = events[place + 1] if place + 1 < len(events) else None
            at_once = after is not None and (after.process, after.kind, after.message) == (
                event.process, "deliver", event.message
            )  # fmt: skip
            if event.kind != "receive" or not at_once:
                shown.append(event)
        return [replace(event, order=order) for order, event in enumerate(shown)]

    def notation(self) -> str:
        """Return the execution in the notation of `core/model/events.py`."""
        return render(self.events())

    def sentence(self) -> str:
        """Return what is wrong with the execution, as one sentence."""
        result = self.run()
        problem, moves = result.problem, result.moves
        if problem is None or moves is None:
            return "every property holds in this execution"
        name, space = moves.roster.name, moves.space

        def called(slot: int) -> str:
            sender, count = space.message(slot)
            return name_of(name(sender), count)

        process = name(problem.process)
        if problem.property == "progress":
            return "every process holds back a send and nothing is in flight: no process will ever send again"
        if problem.property.endswith("order"):
            violation = Violation("run", process, called(problem.message), called(problem.other))
            return sentence(_path(result, violation), violation)
        if problem.property == "no duplicates":
            return f"{process} delivered {called(problem.message)} twice, or without being addressed"
        if problem.property == "no needless waiting":
            return f"{process} holds {called(problem.message)} back although every cause of it is delivered there"
        if problem.property == "exact facts":
            what = "its dependency log" if problem.message < 0 else f"a copy of {called(problem.message)}"
            return f"{process}: {what} holds other facts than the propagation constraints require"
        if problem.property == "bounded sends":
            return f"{process} sent more messages in one epoch than its bound allows"
        if problem.property == "genuine":
            return f"{process} took part in sending {called(problem.message)}, though it is not addressed to it"
        return _stuck(result, problem, process, called)

    def faults(self) -> str:
        """List opened links, crashing processes and whom each process trusts from the start; "" without those."""
        roster = self.setting.roster()
        opened = [(roster.name(s.process), *roster.members(s.target)) for s in self.steps if s.kind == "link"]
        if not self.setting.crashes:
            return "; ".join(f"{here} opens a link to {there}" for here, there in opened)
        crashing = ", ".join(roster.members(self.start.faulty)) or "no process"
        outputs = {name: mask for name, mask in zip(roster, self.start.trust, strict=True) if mask != UNTOLD}
        trusts = "; ".join(
            f"{name} trusts {', '.join(roster.members(mask)) or 'no process'}" for name, mask in outputs.items()
        )
        if len(set(outputs.values())) == 1 and len(outputs) == len(roster):
            trusts = f"every process trusts {', '.join(roster.members(self.start.trust[0])) or 'no process'}"
        return f"faulty: {crashing}; {trusts or 'every process trusts every other at first'}"

    def scene(self) -> Scene:
        """Return the execution with what is wrong in it."""
        result = self.run()
        text = self.sentence()
        finding = Finding("failure", text)
        if result.problem is not None and result.problem.property.endswith("order") and result.moves is not None:
            moves, problem = result.moves, result.problem
            messages = map(moves.space.message, (problem.message, problem.other))
            early, missing = (name_of(moves.roster.name(sender), count) for sender, count in messages)
            violation = Violation("run", moves.roster.name(problem.process), early, missing)
            finding = replace(violated(violation, _path(result, violation)), sentence=text)
        return scene_of(self.events(result), () if result.problem is None else (finding,))

    def diagram(self, width: int | None = None) -> str:
        """Draw it, a column for each process, time downwards; without columns where they exceed `width`."""
        return diagram(self.scene(), limit=60, width=width)

    def row(self) -> Row:
        """Return it as plain data."""
        roster = self.setting.roster()
        return {
            "format": FORMAT,
            "setting": self.setting.row(),
            "properties": list(self.properties),
            "faulty": list(roster.members(self.start.faulty)),
            "trust": [None if mask == UNTOLD else list(roster.members(mask)) for mask in self.start.trust],
            "steps": [_step_row(step, self.setting) for step in self.steps],
            "faults": self.faults(),
            "notation": self.notation(),
            "sentence": self.sentence(),
        }

    def dumps(self) -> str:
        """Write it as JSON that `loads` reads."""
        return json.dumps(self.row(), indent=1) + "\n"


def _stuck(result: Replay, problem: Problem, process: str, called: Callable[[int], str]) -> str:
    member = result.system.nodes[problem.process].member
    waits = []
    for pending in member.pending() if member is not None else []:
        causes = ", ".join(map(str, pending.waits_for)) or pending.reason or ", ".join(pending.processes)
        waits.append(f"a send waits: {causes}" if pending.what == "send" else f"{pending.message} waits for {causes}")
    why = f" ({'; '.join(waits)})" if waits else ""
    if problem.message < 0:
        return f"{process} never gets to send what it was asked to, with nothing in flight{why}"
    message = called(problem.message)
    reason = {
        "liveness": "although nothing is in flight any more",
        "validity": "although its sender never crashes",
        "uniform agreement": "although another process delivered it",
    }[problem.property]
    return f"{process} never delivers {message}, {reason}{why}"


def _step_row(step: Step, setting: Setting) -> StepRow:
    roster = setting.roster()
    row: StepRow = [step.kind, roster.name(step.process)]
    if step.kind in ("send", "trust", "link"):
        row.append(list(roster.members(step.target)))
    if step.copy is not None:
        copy = step.copy
        row += [name_of(roster.name(copy.sender), copy.number), roster.name(copy.source), copy.kind, copy.nth]
    return row


def loads(text: str, variants: Mapping[str, Variant] | None = None) -> Witness:
    """Read what `Witness.dumps` wrote; `variants` are the printed forms that it may speak of."""
    try:
        row = json.loads(text)
        if row.get("format") != FORMAT:
            raise TraceError(f"not an execution: format {row.get('format')!r}, expected {FORMAT!r}")
        setting = _read_setting(row["setting"], variants or {})
        roster = setting.roster()
        steps = tuple(_read_step(step, setting) for step in row["steps"])
        trust = tuple(UNTOLD if names is None else roster.mask(names) for names in row["trust"])
        return Witness(
            setting, tuple(sorted(properties_of(row["properties"]))), Start(roster.mask(row["faulty"]), trust), steps
        )
    except json.JSONDecodeError as error:
        raise TraceError(f"not JSON: {error.msg} at line {error.lineno}, position {error.colno}") from None
    except MisuseError as error:  # of the file, not of the caller
        raise TraceError(str(error)) from None
    except (KeyError, TypeError, ValueError, IndexError, AttributeError, RecursionError) as error:
        raise TraceError(f"cannot read the execution: {type(error).__name__} {error}") from None


def _read_setting(row: Fields, variants: Mapping[str, Variant]) -> Setting:
    stated = {key: value for key, value in row.items() if key != "printed"}
    usual = Setting("ks").row()
    for key, value in stated.items():
        if key in usual and type(value) is not type(usual[key]):
            raise TraceError(f"its {key} is {value!r}; the type {type(usual[key]).__name__} is expected")
    if row.get("printed", False) and row["protocol"] not in variants:
        raise TraceError(f"the execution is one of the printed form {row['protocol']!r}, which is not known here")
    setting = Setting(**stated, variant=variants[row["protocol"]] if row.get("printed", False) else None)
    setting.check_size()
    return setting


def _read_step(row: Json, setting: Setting) -> Step:
    roster = setting.roster()
    kind, process = row[0], roster.position(row[1])
    if kind in ("send", "trust", "link"):
        return Step(kind, process, roster.mask(row[2]))
    if kind in ("receive", "lose"):
        sender = row[2].rstrip("0123456789")
        count = int(row[2][len(sender) :])
        return Step(
            kind,
            process,
            copy=CopyName(roster.position(row[3]), roster.position(sender), count, row[4], row[5]),
        )
    if kind != "crash":
        raise MisuseError(f"no step {kind!r}; there are send, receive, lose, crash, trust, link")
    return Step(kind, process)
