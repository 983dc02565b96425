"""Which steps of a protocol an exploration went through: the lines beside which its source cites the paper.

Law. A step is a line of the protocol's own modules that ends in a comment. It is covered if that line was run while the
exploration went on. What was never run was not checked, whatever the verdict says.
"""

from __future__ import annotations

import io
import sys
import tokenize
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, FrameType

from thence.model.plain import Row
from thence.protocols.base import Member

Tracer = Callable[[FrameType, str, object], "Tracer | None"]
"""What Python calls at each line of a frame; it returns what is called at the next."""

NOT_STEPS = ("type:", "noqa", "fmt:", "pragma")


@dataclass
class ProtocolStep:
    """A line that the source marks, what it says of it, and how often it was run."""

    file: str
    line: int
    text: str
    times: int = 0

    def row(self) -> Row:
        """Return it as plain data."""
        return {"step": self.text, "file": self.file, "line": self.line, "times": self.times}


def steps_of(protocol: type[Member]) -> list[ProtocolStep]:
    """Return the marked lines of a protocol and of what it is built from, in the order of the source."""
    found: list[ProtocolStep] = []
    for file in _files(protocol):
        source = Path(file).read_text(encoding="utf-8")
        code_lines = _code_lines(compile(source, file, "exec"))
        for token in tokenize.generate_tokens(io.StringIO(source).readline):
            text = token.string.lstrip("# ")
            beside = token.type == tokenize.COMMENT and token.line.strip() != token.string
            if beside and not text.startswith(NOT_STEPS) and token.start[0] in code_lines:
                found.append(ProtocolStep(file, token.start[0], text))
    return found


def _files(protocol: type[Member]) -> list[str]:
    modules = dict.fromkeys(cls.__module__ for cls in protocol.__mro__ if cls.__module__.startswith("thence."))
    shared = ("thence.protocols.base", "thence.protocols.receiver")
    files = [sys.modules[module].__file__ for module in modules if module not in shared]
    return [file for file in files if file is not None]


def _code_lines(code: CodeType) -> set[int]:
    lines = {line for _, _, line in code.co_lines() if line is not None}
    for each in code.co_consts:
        if isinstance(each, CodeType):
            lines |= _code_lines(each)
    return lines


@contextmanager
def watched(protocol: type[Member]) -> Iterator[list[ProtocolStep]]:
    """Count how often each step of a protocol is run inside the block; everything else runs as before, but slower."""
    steps = steps_of(protocol)
    by_place = {(step.file, step.line): step for step in steps}
    files = {step.file for step in steps}

    def on_line(frame: FrameType, event: str, _: object) -> Tracer:
        if event == "line":
            step = by_place.get((frame.f_code.co_filename, frame.f_lineno))
            if step is not None:
                step.times += 1
        return on_line

    def on_call(frame: FrameType, event: str, _: object) -> Tracer | None:
        return on_line if frame.f_code.co_filename in files else None

    before = sys.gettrace()
    sys.settrace(on_call)
    try:
        yield steps
    finally:
        sys.settrace(before)
