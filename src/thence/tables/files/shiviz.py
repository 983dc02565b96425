"""Logs with vector clocks, as ShiViz reads and GoVector prints them: an event has a host, a clock and a text.

Invariant: a regular expression with the groups `host`, `clock` and `event` is searched for in the text, as the
viewer does; a delimiter with the group `trace` separates executions. Every line that is not blank comes out:
inside an event, as a delimiter, or as a quarantine record with its number and a reason.

Both may stand in the first two lines of the file, where the viewer looks for them. Otherwise the usual
layouts are tried, and the one that leaves the fewest lines over is taken; executions are separated by lines
`=== name ===` if the first line is one. Where no event is found, `\\"` is read as `"`, as the viewer does.

TLC's report of an error trace is a log if its states have `Host` and `Clock`, as the module ShiViz of TLA+ gives them;
the lines around those states are the report's and are not events. A trace that TLA+ is to validate has one JSON object
a line, with `node` and `vc`; an object before the first of them says what was run.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

from thence.tables.contract.row_validity import shown
from thence.tables.files.patterns import Finder, Hit, finder, own
from thence.tables.files.source import BROKEN, Quarantined, excerpt, open_bytes

_CLOCK_LINE = r"(?:\d+[ \t]+)?(?P<host>[^\s{]+)[ \t]+(?P<clock>\{.*\})[ \t]*$"
_TEXT_LINE = r"(?P<event>(?!(?:\d+[ \t]+)?[^\s{]+[ \t]+\{.*\}[ \t]*$).*)"

LAYOUTS: dict[str, str] = {
    "host and clock, then the text": rf"^{_CLOCK_LINE}\n{_TEXT_LINE}$",
    "the text, then host and clock": rf"^{_TEXT_LINE.replace('.*)', '.+)')}\n{_CLOCK_LINE}",
    "host, clock and text on a line": (
        r"^(?:.*?[ \t/\[(])??(?P<host>[^\s\[\](){}/]{1,200})[\])]?[ \t]+"
        r"(?P<clock>\{[ \t]*\"[^{}\n]*\})[ \t]+(?P<event>\S.*)$"
    ),
    "host, quoted text and clock on a line": (
        r"^(?P<host>\S+)[ \t]+\"(?P<event>.*)\"[ \t]+(?P<clock>\{[ \t]*\"[^{}\n]*\})[ \t]*$"
    ),
}
_OBJECT = "an object of JSON a line, with node and vc"
_STATES = "states as TLC prints them, with Host and Clock"
LAYOUTS |= {
    _STATES: (
        r"^(?:State )?\d+: <(?P<event>\w+).*>\n(?:(?!/\\ Host = |(?:State )?\d+: <)\S.*\n)*/\\ Host = (?P<host>.*)\n"
        r"/\\ Clock = \"(?P<clock>\{.*\})\"(?:\n(?!(?:State )?\d+: <|=== )\S.*)*"
    ),
    _OBJECT: (
        r'^\{(?=.*"(?:node|host)"[ \t]*:[ \t]*"?(?P<host>[^",{}\n]+)"?)(?=.*"event"[ \t]*:[ \t]*"(?P<event>[^"\n]*)")?'
        r'.*"(?:vc|clock)"[ \t]*:[ \t]*(?P<clock>\{[^{}\n]*\}).*\}[ \t]*$'
    ),
}
_STATE = re.compile(r"^(?:State )?\d+: <\w+", re.MULTILINE)
QUOTED = '\\"'
"""A quotation mark in a log that was written as part of something quoted."""
DELIMITER = r"^=== (?P<trace>.*) ===[ \t]*$"


@dataclass(frozen=True, slots=True)
class ClockEvent:
    """One event of a log; `line` is where its clock stands, `run` what the delimiter before it says."""

    file: str
    line: int
    run: str | None
    host: str
    clock: dict[str, int]
    text: str
    layout: str = field(default="", compare=False)
    """How its log is laid out: the name of a known layout, or where the pattern comes from."""

    @property
    def own(self) -> int:
        """The component of the clock that counts the host's own events."""
        return self.clock[self.host]


class _Found(NamedTuple):
    """A match of the pattern: the lines it covers, the line of its clock, and what it holds."""

    run: str | None
    lines: range
    line: int
    host: str
    clock: str
    event: str
    text: str


class _Log:
    """A text with its lines, its header and its executions."""

    def __init__(self, text: str, file: str, delimiter: str | None) -> None:
        head = text.split("\n", 2)
        self.pattern: str | None = None
        self.header = 0
        if re.search(r"\(\?P?<clock>", head[0]) and re.search(r"\(\?P?<host>", head[0]):
            self.pattern = head[0].strip()
            self.header = min(2, len(head))
            if len(head) > 1 and head[1].strip():
                delimiter = delimiter or head[1].strip()
        self.text = text
        self.starts = [0] + [found.end() for found in re.finditer("\n", text)]
        self.sections = list(self._sections(delimiter, Path(file).name))

    def _sections(self, delimiter: str | None, name: str) -> Iterator[tuple[str | None, int, int]]:
        """Yield (run, start, end) of each execution; delimiter lines are outside all of them."""
        begin = self.starts[self.header] if self.header < len(self.starts) else len(self.text)
        first = self.text[begin:].lstrip().split("\n", 1)[0]
        if delimiter is None and not re.match(DELIMITER, first):
            yield None, begin, len(self.text)
            return
        find = own(DELIMITER) if delimiter is None else finder(delimiter)
        run: str | None = None
        names: dict[str, int] = {}
        after = begin
        for number, found in enumerate(find(self.text[begin:]), 1):
            yield run, after, begin + found.start
            execution = found.groups.get("trace")
            execution = f"{name} #{number}" if execution is None else execution
            names[execution] = times = names.get(execution, 0) + 1
            run = execution if times == 1 else f"{execution} ({times})"
            after = begin + found.end
        yield run, after, len(self.text)

    def line(self, position: int) -> int:
        return bisect_right(self.starts, position)

    def matches(self, find: Finder) -> list[_Found]:
        return [
            self._found(run, start, hit)
            for run, start, end in self.sections
            for hit in find(self.text[start:end])
            if hit.groups["host"] is not None and hit.groups["clock"] is not None
        ]

    def _found(self, run: str | None, start: int, hit: Hit) -> _Found:
        lines = range(self.line(start + hit.start), self.line(start + hit.end - 1) + 1)
        line = self.line(start + hit.places["clock"])
        host, clock, event = (hit.groups[name] or "" for name in ("host", "clock", "event"))
        return _Found(run, lines, line, host, clock, event.strip(), self.text[start + hit.start : start + hit.end])

    def left_over(self, matches: list[_Found]) -> list[tuple[int, str]]:
        """Return (number, text) of each line that belongs to no match, no delimiter and no header."""
        covered = {number for found in matches for number in found.lines}
        over: list[tuple[int, str]] = []
        for _, start, end in self.sections:
            number = self.line(start)
            for text in self.text[start:end].split("\n"):
                if text.strip() and number not in covered:
                    over.append((number, text))
                number += 1
        return over


def parse_log(
    text: str, file: str, *, pattern: str | None = None, delimiter: str | None = None
) -> Iterator[ClockEvent | Quarantined]:
    """Yield the events of a log and what cannot be used, in the order of lines."""
    text = text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
    found = _parsed(text, file, pattern, delimiter)
    if QUOTED in text and not _events(found):
        again = _parsed(text.replace(QUOTED, '"'), file, pattern, delimiter)
        found = [_unquoted(each) for each in again] if _events(again) else found
    yield from found


def _unquoted(found: ClockEvent | Quarantined) -> ClockEvent | Quarantined:
    if isinstance(found, Quarantined):
        return found
    return replace(found, layout=f"{found.layout}, with escaped quotes")


def _events(found: list[ClockEvent | Quarantined]) -> bool:
    return any(isinstance(each, ClockEvent) for each in found)


def _parsed(text: str, file: str, pattern: str | None, delimiter: str | None) -> list[ClockEvent | Quarantined]:
    log = _Log(text, file, delimiter)
    layout = "the pattern that was given" if pattern else "the pattern in its first line"
    if pattern := pattern or log.pattern:
        matches = log.matches(finder(pattern, ("host", "clock", "event")))
        over = log.left_over(matches)
    else:
        layout, matches, over = _best(log)
    if layout == _STATES or (matches and "\n/\\ Host = " in text and _STATE.search(text)):
        over = []
    elif layout == _OBJECT and matches:
        over = [each for each in over if each[0] > matches[0].line or not each[1].lstrip().startswith("{")]
    if over and not matches:
        reason = "no line fits the pattern" if pattern else "no line has a host and a clock in a known layout"
        return [Quarantined(file, None, f"{reason}; a pattern with the groups host, clock and event is accepted")]
    found = [_event(file, each, layout) for each in matches]
    found += [Quarantined(file, n, "the line belongs to no event with a clock", excerpt(t)) for n, t in over]
    return sorted(found, key=lambda each: each.line or 0)


def _best(log: _Log) -> tuple[str, list[_Found], list[tuple[int, str]]]:
    tried = []
    for name, layout in LAYOUTS.items():
        matches = log.matches(own(layout))
        tried.append((name, matches, log.left_over(matches)))
    return min(tried, key=lambda each: (len(each[2]), -len(each[1])))


def _event(file: str, found: _Found, layout: str) -> ClockEvent | Quarantined:
    clock = parse_clock(found.clock, found.host)
    if isinstance(clock, str):
        return Quarantined(file, found.line, clock, excerpt(found.text))
    return ClockEvent(file, found.line, found.run, found.host, clock, found.event, layout)


def parse_clock(text: str, host: str) -> dict[str, int] | str:
    """Return the clock that a log prints for an event of a host, or the reason why it is unusable."""
    try:
        clock = json.loads(text, object_pairs_hook=_pairs)
    except (ValueError, RecursionError) as error:
        return f"the clock is not JSON: {error}"
    if not isinstance(clock, dict):
        return f"the clock is {shown(clock)}; a JSON object is accepted"
    for name, count in clock.items():
        if type(count) is not int or count < 0:
            return f"the clock says {shown(count)} for {shown(name)}; a count is accepted"
    if clock.get(host, 0) < 1:
        return f"the clock has no count for its own host {shown(host)}"
    if "\ufffd" in host or any("\ufffd" in name for name in clock):
        return "a host in the clock is not UTF-8"
    return clock


def _pairs(pairs: list[tuple[str, object]]) -> dict[str, object]:
    clock = dict(pairs)
    if len(clock) != len(pairs):
        raise ValueError("a host stands twice")
    return clock


def read_shiviz(
    path: Path | str,
    quarantine: list[Quarantined],
    *,
    pattern: str | None = None,
    delimiter: str | None = None,
) -> Iterator[ClockEvent]:
    """Yield the events of one log; what cannot be used is appended to `quarantine` on the way."""
    path = Path(path)
    try:
        with open_bytes(path) as stream:
            text = stream.read().decode("utf-8", "replace")
    except BROKEN as error:
        quarantine.append(Quarantined(str(path), None, f"the file breaks off: {error}"))
        return
    for found in parse_log(text, str(path), pattern=pattern, delimiter=delimiter):
        if isinstance(found, Quarantined):
            quarantine.append(found)
        else:
            yield found
