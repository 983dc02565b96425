"""The run of an agent as events that name their causes: openai-agents, LangGraph, AG-UI.

These frameworks give a tool call an id and a step the ids of the steps around it; few of their records have an id of
their own. Here each record gets one, and the ids of the records that it must follow: a tool's result follows its call,
a chunk the chunk before, the end of a step its start, a step the start of the step around it. A record of which nothing
of this can be read has no id, and is set aside.

`source` is the tool call, message or step that a record belongs to: its records follow each other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from thence.core.model.plain import Field
from thence.errors import MisuseError

AgentRecord = Mapping[str, Field]
Shaped = dict[str, Field]


class AgentPreset(NamedTuple):
    """How a run is read, and the documentation of its records."""

    read: Callable[[list[AgentRecord]], list[Shaped]]
    documented: str


def openai_items(records: list[AgentRecord]) -> list[Shaped]:
    """Read the items of a run, as `RunResult.to_input_list()` gives them."""
    return [_item(record) for record in records]


def _item(record: AgentRecord) -> Shaped:
    kind, call = str(record.get("type") or ""), record.get("call_id")
    if call and kind.endswith("_output"):
        return _shaped(record, f"{call}/output", [str(call)], "run", str(call))
    if call:
        return _shaped(record, str(call), [], "run", str(call))
    own = record.get("id")
    return _shaped(record, None if own is None else str(own), [], "run", str(own))


def langgraph_events(records: list[AgentRecord]) -> list[Shaped]:
    """Read the events of a run, as `astream_events(..., version="v2")` gives them."""
    calls: dict[str, str] = {}
    for record in records:
        if record.get("event") == "on_chat_model_end":
            for call in _inside(record, "data", "output").get("tool_calls") or ():
                if isinstance(call, Mapping) and call.get("id"):
                    calls[str(call["id"])] = f"{record.get('run_id')}/end"
    chunks: dict[str, int] = {}
    return [_step(record, calls, chunks) for record in records]


def _step(record: AgentRecord, calls: dict[str, str], chunks: dict[str, int]) -> Shaped:
    run, parents = record.get("run_id"), list(record.get("parent_ids") or ())
    phase = str(record.get("event") or "").rpartition("_")[2]
    if not run or phase not in ("start", "stream", "end", "error"):
        return _shaped(record, None, [], "", "")
    root, source = str(parents[0] if parents else run), f"{record.get('name')} {run}"
    if phase == "start":
        return _shaped(record, f"{run}/start", [f"{parents[-1]}/start"] if parents else [], root, source)
    if phase == "stream":
        return _shaped(record, *_chunk(str(run), chunks), root, source)
    causes = [_last(str(run), chunks)]
    call = _inside(record, "data", "output").get("tool_call_id")
    if call in calls:
        causes.append(calls[str(call)])
    return _shaped(record, f"{run}/end", causes, root, source)


def ag_ui_events(records: list[AgentRecord]) -> list[Shaped]:
    """Read the events of one run of the AG-UI protocol, in its JSON form."""
    runs = {str(record["runId"]) for record in records if record.get("runId")}
    if len(runs) > 1:
        raise MisuseError(f"events of {len(runs)} runs: {', '.join(sorted(runs)[:5])}; pass the events of one run")
    run = next(iter(runs), "run")
    chunks: dict[str, int] = {}
    return [_event(record, run, bool(runs), chunks) for record in records]


def _event(record: AgentRecord, run: str, begun: bool, chunks: dict[str, int]) -> Shaped:
    kind = str(record.get("type") or "")
    first = [f"{run}/start"] if begun else []
    if kind in ("RUN_STARTED", "RUN_FINISHED", "RUN_ERROR"):
        started = kind == "RUN_STARTED"
        return _shaped(record, f"{run}/{'start' if started else 'end'}", [] if started else first, run, run)
    step = record.get("stepName")
    if kind in ("STEP_STARTED", "STEP_FINISHED") and step:
        return _agent_step(record, kind == "STEP_STARTED", str(step), run, first, chunks)
    call, message = record.get("toolCallId"), record.get("messageId")
    if kind == "TOOL_CALL_RESULT" and call:
        return _shaped(record, f"{call}/result", [f"{call}/end"], run, str(call))
    own, phase = str(call or message), kind.rpartition("_")[2]
    if not (call or message):
        return _shaped(record, None, [], run, "")
    if phase == "START":
        around = record.get("parentMessageId")
        return _shaped(record, f"{own}/start", [f"{around}/start"] if around else first, run, own)
    if phase in ("CONTENT", "ARGS"):
        return _shaped(record, *_chunk(own, chunks), run, own)
    if phase == "END":
        return _shaped(record, f"{own}/end", [_last(own, chunks)], run, own)
    return _shaped(record, None, [], run, own)


def _agent_step(
    record: AgentRecord, started: bool, name: str, run: str, first: list[str], counts: dict[str, int]
) -> Shaped:
    """Name a step by how often it has started: events have no id of it."""
    source = f"{run}/step/{name}"
    counts[source] = counts.get(source, 0) + started
    own = f"{source}/{counts[source]}"
    if started:
        return _shaped(record, f"{own}/start", first, run, source)
    return _shaped(record, f"{own}/end", [f"{own}/start"], run, source)


AGENT_PRESETS = {
    "openai-agents": AgentPreset(openai_items, "OpenAI Agents SDK, 'Results': to_input_list; call_id of tool calls"),
    "langgraph": AgentPreset(langgraph_events, "LangChain reference, astream_events v2: run_id, parent_ids"),
    "ag-ui": AgentPreset(ag_ui_events, "AG-UI documentation, 'Events': toolCallId, parentMessageId, messageId, runId"),
}


def _chunk(own: str, chunks: dict[str, int]) -> tuple[str, list[str]]:
    """Return the id of the next chunk, and the record before it."""
    before = _last(own, chunks)
    chunks[own] = chunks.get(own, 0) + 1
    return f"{own}/{chunks[own]}", [before]


def _last(own: str, chunks: dict[str, int]) -> str:
    return f"{own}/{chunks[own]}" if own in chunks else f"{own}/start"


def _inside(record: AgentRecord, *names: str) -> AgentRecord:
    found: Field = record
    for name in names:
        found = found.get(name) if isinstance(found, Mapping) else None
    return found if isinstance(found, Mapping) else {}


def _shaped(record: AgentRecord, own: str | None, causes: Iterable[str], run: str, source: str) -> Shaped:
    ours: Shaped = {"id": own, "causation_id": list(causes), "correlation_id": run, "source": source}
    return ours | {"time": record.get("timestamp"), "record": record}
