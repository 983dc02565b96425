"""Logs with vector clocks, as ShiViz reads and GoVector prints them: an event has a host, a clock and a text.

Law. A regular expression with the groups `host`, `clock` and `event` is searched for in the text, as the
viewer does; a delimiter with the group `trace` parts executions. Every line that is not blank comes out:
inside an event, as a delimiter, or as a quarantine record with its number and a reason.

Both may stand in the first two lines of the file, where the viewer looks for them. Otherwise the usual
layouts are tried, and the one that leaves the fewest lines over is taken; executions are parted by lines
`=== name ===` if the first line is one.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from thence.errors import MisuseError
from thence.trace.schema import shown
from thence.trace.source import BROKEN, Quarantined, excerpt, open_bytes

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

    @property
    def own(self) -> int:
        """The host's own component."""
        return self.clock[self.host]


def compile_pattern(pattern: str, groups: Sequence[str]) -> re.Pattern[str]:
    """Compile a regular expression with named groups as JavaScript or Python writes them."""
    python = re.sub(r"\(\?<(?![=!])", "(?P<", pattern)
    try:
        compiled = re.compile(python, re.MULTILINE)
    except re.error as error:
        raise MisuseError(f"{pattern!r} is no regular expression: {error}") from error
    for group in groups:
        if group not in compiled.groupindex:
            raise MisuseError(f"{pattern!r} has no group (?<{group}>...); {', '.join(groups)} are needed")
    return compiled


class _Log:
    """A text with its lines, its header and its executions."""

    def __init__(self, text: str, file: str, delimiter: str | None) -> None:
        text = text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
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
        compiled = compile_pattern(delimiter or DELIMITER, ())
        run: str | None = None
        names: dict[str, int] = {}
        for number, found in enumerate(compiled.finditer(self.text, begin), 1):
            if found.end() == found.start():
                continue
            yield run, begin, found.start()
            said = found["trace"] if "trace" in compiled.groupindex else None
            said = f"{name} #{number}" if said is None else said
            names[said] = times = names.get(said, 0) + 1
            run = said if times == 1 else f"{said} ({times})"
            begin = found.end()
        yield run, begin, len(self.text)

    def line(self, position: int) -> int:
        return bisect_right(self.starts, position)

    def matches(self, compiled: re.Pattern[str]) -> list[tuple[str | None, re.Match[str]]]:
        return [
            (run, found)
            for run, start, end in self.sections
            for found in compiled.finditer(self.text, start, end)
            if found.end() > found.start() and found["host"] is not None and found["clock"] is not None
        ]

    def left_over(self, matches: list[tuple[str | None, re.Match[str]]]) -> list[tuple[int, str]]:
        """Return (number, text) of each line that belongs to no match, no delimiter and no header."""
        covered: set[int] = set()
        for _, found in matches:
            last = max(found.end() - 1, found.start())
            covered.update(range(self.line(found.start()), self.line(last) + 1))
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
    log = _Log(text, file, delimiter)
    if pattern := pattern or log.pattern:
        matches = log.matches(compile_pattern(pattern, ("host", "clock", "event")))
        over = log.left_over(matches)
    else:
        matches, over = _best(log)
    if over and not matches:
        reason = "no line fits the pattern" if pattern else "no line has a host and a clock in a known layout"
        yield Quarantined(file, None, f"{reason}; a pattern with the groups host, clock and event is accepted")
        return
    found = [_event(log, file, run, match) for run, match in matches]
    found += [Quarantined(file, n, "the line belongs to no event with a clock", excerpt(t)) for n, t in over]
    yield from sorted(found, key=lambda each: each.line or 0)


def _best(log: _Log) -> tuple[list[tuple[str | None, re.Match[str]]], list[tuple[int, str]]]:
    tried = []
    for layout in LAYOUTS.values():
        matches = log.matches(compile_pattern(layout, ()))
        tried.append((matches, log.left_over(matches)))
    return min(tried, key=lambda each: (len(each[1]), -len(each[0])))


def _event(log: _Log, file: str, run: str | None, match: re.Match[str]) -> ClockEvent | Quarantined:
    line = log.line(match.start("clock"))
    host = match["host"]
    clock = parse_clock(match["clock"], host)
    if isinstance(clock, str):
        return Quarantined(file, line, clock, excerpt(match[0]))
    return ClockEvent(file, line, run, host, clock, (match["event"] or "").strip())


def parse_clock(text: str, host: str) -> dict[str, int] | str:
    """Return the clock a log prints for an event of a host, or the reason why it is none."""
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


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
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
