"""A grid of scenarios, written in TOML: every combination of the values given.

    [grid]                              # or several [[grid]] blocks
    protocol = ["ks", "rst"]            # a list: each of its values
    processes = [5, 10]
    fanout = "uniform"                  # one value
    seed = { from = 1, to = 5 }         # 1, 2, 3, 4, 5

    [measure]                           # may be left out
    warmup = 0.2
    batches = 20

Invariant: the keys are the fields of a scenario. Every scenario is checked before any is run; what cannot be run is
refused with the line of the grid that is to blame: the value without which the scenario could run, else the block. A
scenario that stands in two blocks is run once. Its id depends on what it says and on nothing else.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields
from hashlib import blake2b
from itertools import product
from pathlib import Path

from thence.core.model.plain import Fields, Json, Row
from thence.errors import MisuseError
from thence.lab.simulator.scenario import Scenario, scenario_of

FIELDS = tuple(field.name for field in fields(Scenario))
SHOWN_MISTAKES = 10
MOST_SCENARIOS = 1_000_000


@dataclass(frozen=True, slots=True)
class Planned:
    """A scenario of a grid: its id, the line of its block, and about how much work it is."""

    id: str
    scenario: Scenario
    line: int
    work: float


@dataclass(frozen=True, slots=True)
class Grid:
    """The scenarios, the most expensive first, and how they are measured."""

    scenarios: tuple[Planned, ...]
    warmup: float = 0.2
    batches: int = 20


def read_grid(path: Path | str) -> Grid:
    """Read a grid from a file."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise MisuseError(f"{path} is not UTF-8: {error.reason} at byte {error.start}") from None
    return parse_grid(text, name=str(path))


def parse_grid(text: str, *, name: str = "grid") -> Grid:
    """Read a grid; every mistake names its line."""
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise MisuseError(f"{name} is not TOML: {error}") from None
    places = list(_places(text))
    for key in data:
        if key not in ("grid", "measure"):
            raise MisuseError(f"{name}:{_line(text, key)}: no {key!r} here; [grid] and [measure] are accepted")
    blocks = data.get("grid", [])
    blocks = [blocks] if isinstance(blocks, dict) else blocks
    if not blocks or not isinstance(blocks, list) or not all(isinstance(block, dict) for block in blocks):
        raise MisuseError(f"{name} holds no scenarios; it needs a [grid] block with lines such as protocol = ['ks']")
    made: dict[str, Planned] = {}
    wrong: dict[str, int] = {}
    for number, block in enumerate(blocks):
        place = places[number] if number < len(places) else _Block(1, {})
        for planned in _block(block, place, name, wrong):
            made.setdefault(planned.id, planned)
    if wrong:
        raise MisuseError(_told(wrong))
    scenarios = tuple(sorted(made.values(), key=lambda each: (-each.work, each.id)))
    return Grid(scenarios, **_measure(data.get("measure", {}), name, text))


def grid_of(scenarios: Iterable[Scenario], *, warmup: float = 0.2, batches: int = 20) -> Grid:
    """Return a grid of scenarios made by a program; each is checked, and one that stands twice is run once."""
    made: dict[str, Planned] = {}
    for scenario in scenarios:
        scenario.check()
        planned = _planned(scenario, 0)
        made.setdefault(planned.id, planned)
    return Grid(tuple(sorted(made.values(), key=lambda each: (-each.work, each.id))), warmup, batches)


def _told(wrong: Mapping[str, int]) -> str:
    lines = [text + (f" (and {count - 1} more like it)" if count > 1 else "") for text, count in wrong.items()]
    rest = f"; and {len(lines) - SHOWN_MISTAKES} more mistakes" if len(lines) > SHOWN_MISTAKES else ""
    return "; ".join(lines[:SHOWN_MISTAKES]) + rest


def _measure(found: Json, name: str, text: str) -> Row:
    known = {"warmup": (float, int), "batches": (int,)}
    if not isinstance(found, dict):
        raise MisuseError(f"{name}:{_line(text, 'measure')}: measure is a table of warmup and batches")
    for key, value in found.items():
        where = f"{name}:{_line(text, key)}"
        if key not in known or isinstance(value, bool) or not isinstance(value, known[key]):
            raise MisuseError(f"{where}: {key} = {value!r}; warmup (a share below 1) and batches (from 1) are accepted")
        if not (0 <= value < 1 if key == "warmup" else value >= 1):
            raise MisuseError(f"{where}: {key} = {value}; a share below 1, or at least 1 batch, is accepted")
    return dict(found)


# -- blocks ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Block:
    line: int
    keys: dict[str, tuple[int, list[int]]]
    """line of each key, and of each value in its list"""

    def of(self, key: str, place: int) -> int:
        line, values = self.keys.get(key, (self.line, []))
        return values[place] if place < len(values) else line


def _block(block: Fields, place: _Block, name: str, wrong: dict[str, int]) -> Iterator[Planned]:
    axes: dict[str, list[Json]] = {}
    for key, value in block.items():
        if key not in FIELDS:
            raise MisuseError(f"{name}:{place.of(key, 0)}: a scenario has no {key!r}; it has {', '.join(FIELDS)}")
        axes[key] = _values(key, value)
        if not axes[key]:
            raise MisuseError(f"{name}:{place.of(key, 0)}: {key} has no values; give at least one")
    count = 1
    for values in axes.values():
        count *= len(values)
    if count > MOST_SCENARIOS:
        raise MisuseError(f"{name}:{place.line}: {count} scenarios in one block; up to {MOST_SCENARIOS} are accepted")
    seeds = axes.pop("seed", [1])
    for choice in product(*(list(enumerate(values)) for values in axes.values())):
        row = {key: value for key, (_, value) in zip(axes, choice, strict=True)}
        picks = {key: at for key, (at, _) in zip(axes, choice, strict=True)}
        base: Scenario | None = None
        for at, seed in enumerate(seeds):
            problem = None
            if base is not None and type(seed) is int:
                base = base.with_(seed=seed)  # nothing that is checked depends on the seed
            else:
                problem, scenario = _checked(row | {"seed": seed})
                base = scenario or base
            if problem is None and base is not None:
                yield _planned(base, place.line)
                continue
            mistake = f"{name}:{_blame(row | {'seed': seed}, picks | {'seed': at}, place)}: {problem}"
            wrong[mistake] = wrong.get(mistake, 0) + 1
            if base is None:
                break  # the other seeds fail alike


def _values(key: str, value: Json) -> list[Json]:
    if isinstance(value, dict) and set(value) == {"from", "to"} and all(type(v) is int for v in value.values()):
        return list(range(value["from"], value["to"] + 1))
    if key == "partitions":
        return value if isinstance(value, list) and value and isinstance(value[0], list) else [value]
    return value if isinstance(value, list) else [value]


def _checked(row: Fields) -> tuple[str | None, Scenario | None]:
    try:
        return None, scenario_of(row)
    except MisuseError as error:
        return str(error), None


def _blame(row: Row, picks: Mapping[str, int], place: _Block) -> str:
    """Return the line and the value without which the scenario could run; the line of the block if there is none."""
    for key in row:
        without = {other: value for other, value in row.items() if other != key}
        if _checked(without)[0] is None:
            return f"{place.of(key, picks[key])}: {key} = {row[key]!r}"
    return str(place.line)


def _planned(scenario: Scenario, line: int) -> Planned:
    row = scenario.row() | {"run": ""}
    text = json.dumps(row, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    digest = blake2b(text.encode(), digest_size=6).hexdigest()
    name = f"{scenario.protocol}-n{scenario.processes}-seed{scenario.seed}-{digest}"
    return Planned(name, scenario if scenario.run else scenario.with_(run=name), line, work(scenario))


def work(scenario: Scenario) -> float:
    """Estimate the microseconds of a scenario, so that the longest can start first."""
    n, fanout = scenario.processes, scenario.fanout or "uniform"
    copies = {"unicast": 1.0, "broadcast": n - 1.0, "uniform": n / 2}.get(fanout)
    if copies is None:
        copies = float(fanout)
    if scenario.workload.partition(":")[0] in ("groups", "request-reply", "replicated"):
        copies = max(1.0, n / 8)
    squared = {"rst": 0.05, "ses": 0.2, "prs": 0.1, "gossip": 0.4, "epochs": 0.5, "bounded": 0.5, "history": 0.5}
    each = 40 + 2 * n + squared.get(scenario.protocol, 0.02) * n * n
    return scenario.messages * copies * each


# -- lines -----------------------------------------------------------------------------------------------------------

_HEADER = re.compile(r"\s*\[\[?\s*([^\]]+?)\s*\]\]?\s*(?:#.*)?$")
_KEY = re.compile(r"""\s*(?:([A-Za-z0-9_-]+)|"([^"]*)"|'([^']*)')\s*=""")


def _line(text: str, key: str) -> int:
    for number, line in enumerate(text.splitlines(), 1):
        header, found = _HEADER.match(line), _KEY.match(line)
        if (header and header[1] == key) or (found and key in found.groups()):
            return number
    return 1


def _places(text: str) -> Iterator[_Block]:
    """Yield where each [grid] block and its keys and values stand; only for what is known to be TOML."""
    lines = text.splitlines()
    block: _Block | None = None
    number = 0
    while number < len(lines):
        line = lines[number]
        number += 1
        header, key = _HEADER.match(line), _KEY.match(line)
        if header is not None:
            if block is not None:
                yield block
            block = _Block(number, {}) if header[1] == "grid" else None
        elif key is not None:
            values, number_after = _elements(lines, number - 1, key.end())
            if block is not None:
                block.keys[next(group for group in key.groups() if group is not None)] = (number, values)
            number = number_after
    if block is not None:
        yield block


def _elements(lines: list[str], row: int, column: int) -> tuple[list[int], int]:
    """Return the line of each element of an array that begins there, and the line after the value."""
    depth, quote, fresh = 0, "", True
    found: list[int] = []
    while row < len(lines):
        line = lines[row]
        while column < len(line):
            char = line[column]
            if quote:
                if char == "\\" and quote == '"':
                    column += 1
                elif char == quote:
                    quote = ""
            elif char == "#":
                break
            elif not char.isspace():
                if char == "]" or char == "}":
                    depth -= 1
                elif char == "," and depth == 1:
                    fresh = True
                elif depth == 1 and fresh:
                    found.append(row + 1)
                    fresh = False
                if char == "[" or char == "{":
                    depth += 1
                elif char in "\"'":
                    quote = char
            column += 1
        row, column = row + 1, 0
        if depth <= 0:
            return found, row
    return found, row
