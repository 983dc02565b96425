"""The headings under which the help of a command lists its options."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping

from thence.cli._targets import declared

OUTPUT = (
    "out", "overwrite", "page", "paths", "trace", "arrivals", "stamps", "save", "graph", "cover", "cpu", "warmup",
    "run", "json_file",
)  # fmt: skip
TABLES = {
    "Input": ("format", "form", "pattern", "delimiter", "columns", "kinds"),
    "Ordering": ("id", "causes", "separator", "key", "by", "roster", "known"),
    "Waiting": (
        "policy", "after_rows", "after_seconds", "held_limit", "when_full", "max_jump", "remember", "filter_limit",
    ),
    "Stream": (
        "stream", "checkpoint", "once", "files_per_batch", "wait_seconds", "idle_seconds", "ttl_seconds", "shards",
    ),
    "Output": ("out", "overwrite", "page", "paths", "json_file"),
}  # fmt: skip
SYSTEM = {
    "Protocol": ("protocol", "option", "bound", "groups", "variants", "properties", "detector", "changes"),
    "Traffic": (
        "processes", "messages", "fanout", "destinations", "to_self", "workload", "rate", "labels", "seed",
    ),
    "Network and faults": ("delay", "fifo", "loss", "duplicates", "partition", "crashes", "links"),
    "Output": OUTPUT,
}  # fmt: skip
ENDPOINT = {
    "Run one process": ("manual", "linger", "log"),
    "Write a set of configurations": (
        "init", "processes", "protocol", "option", "plain", "nats", "add", "keep_authority",
    ),
    "Join and leave": ("through",),
    "Output": OUTPUT,
}  # fmt: skip
PANELS = {
    **dict.fromkeys(("audit", "convert", "cost", "deliver", "explain", "show"), TABLES),
    **dict.fromkeys(("simulate", "explore"), SYSTEM),
    "endpoint": ENDPOINT,
}
"""The headings of each command, in the order of the help; a command with few options has none of its own."""


def grouped(parameters: Mapping[str, inspect.Parameter], verb: str) -> Callable[[inspect.Parameter], tuple[int, int]]:
    """Put the options of a command under its headings, and return the key that sorts its parameters for the help.

    Arguments and options without a heading come first, in the order of their declaration.
    """
    panels = PANELS.get(verb, {"Output": OUTPUT})
    places = {name: (row, place) for row, names in enumerate(panels.values()) for place, name in enumerate(names)}
    headings = list(panels)
    if verb in PANELS:
        for name, (row, _) in places.items():
            option = declared(parameters[name]) if name in parameters else None
            if option is not None:
                option.rich_help_panel = headings[row]

    def place(parameter: inspect.Parameter) -> tuple[int, int]:
        option = declared(parameter)
        if option is None or option.rich_help_panel not in headings:
            return -1, 0
        return places.get(parameter.name, (headings.index(option.rich_help_panel), len(places)))

    return place
