"""Step coverage: which lines of a protocol that cite the paper an exploration has run.

Invariant: a step is a line of the protocol's own modules that ends in a comment which begins with a capital letter or
cites a line of the paper (`SND(1)`, `Increment T.t`, `line 12`), or a function whose documentation begins with such a
citation (`R9: ...`, `Lines 6-8.`); remarks begin with a small letter. What the protocol overrides is not a step of it.
A step is covered if it was run while the exploration went on; equal moves of equal members are run once. What was never
run was not checked, even if the verdict is good.
"""

from __future__ import annotations

import ast
import io
import re
import sys
import tokenize
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, FrameType

from thence.core.model.plain import Row
from thence.core.protocols.base import Member

Tracer = Callable[[FrameType, str, object], "Tracer | None"]
"""Python's trace function: called at each line of a frame, returns the function for the next."""
Functions = dict[int, ast.FunctionDef]
"""The functions of a file by their first lines."""

CITED = re.compile(r"lines? \d|(SND|RCV)\(\d|[RS]\d|PC\d", re.IGNORECASE)
"""how a paper's step is named"""


@dataclass
class ProtocolStep:
    """A marked line or function of the source, its citation, and how often it was run."""

    file: str
    line: int
    text: str
    times: int = 0

    def row(self) -> Row:
        """Return it as plain data."""
        return {"step": self.text, "file": self.file, "line": self.line, "times": self.times}


def steps_of(protocol: type[Member]) -> list[ProtocolStep]:
    """Return the steps of a protocol and of what it is built from, in the order of the source."""
    halves = [_ours(protocol), _ours(getattr(protocol, "receives", object))]
    over_lines = {place for classes in halves for place in _overridden(classes)}
    found: list[ProtocolStep] = []
    for module in dict.fromkeys(cls.__module__ for classes in halves for cls in classes):
        file = sys.modules[module].__file__
        assert file is not None
        source = Path(file).read_text(encoding="utf-8")
        functions = {_first(node): node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.FunctionDef)}
        over = [functions[line] for of, line in over_lines if of == file]
        marks = sorted([*_comments(source), *_documented(functions)])
        found += [
            ProtocolStep(file, line, text)
            for line, text in marks
            if not any(_first(node) <= line <= (node.end_lineno or line) for node in over)
        ]
    return found


def _ours(made: type) -> list[type]:
    """Return the classes that a member, or its receiver, is made of, the most special first."""
    return [cls for cls in made.__mro__ if cls.__module__.startswith("thence.")]


def _overridden(classes: list[type]) -> set[tuple[str, int]]:
    """Return file and first line of the functions in whose place others are run, which do not call them."""
    replaced: set[str] = set()
    found = set()
    for cls in classes:
        codes = {name: code for name, each in vars(cls).items() if (code := _code(each)) is not None}
        found |= {(code.co_filename, code.co_firstlineno) for name, code in codes.items() if name in replaced}
        replaced |= {name for name, code in codes.items() if "super" not in code.co_names}
    return found


def _code(attribute: object) -> CodeType | None:
    code = getattr(getattr(attribute, "__func__", attribute), "__code__", None)
    return code if isinstance(code, CodeType) else None


def _first(node: ast.FunctionDef) -> int:
    """Return the first line of a function, decorators included, as its code has it."""
    return min([node.lineno, *(each.lineno for each in node.decorator_list)])


def _comments(source: str) -> Iterator[tuple[int, str]]:
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        text = token.string.lstrip("# ")
        beside = token.type == tokenize.COMMENT and token.line.strip() != token.string
        if beside and (text[:1].isupper() or CITED.match(text)):
            yield token.start[0], text


def _documented(functions: Functions) -> Iterator[tuple[int, str]]:
    for line, node in functions.items():
        text = ast.get_docstring(node) or ""
        if CITED.match(text):
            yield line, text.splitlines()[0].rstrip(".")


@contextmanager
def count_steps(protocol: type[Member]) -> Iterator[list[ProtocolStep]]:
    """Count how often each step of a protocol is run inside the block; everything else runs as before, but slower."""
    steps = steps_of(protocol)
    by_place = {(step.file, step.line): step for step in steps}
    files = {step.file for step in steps}

    def count(file: str, line: int) -> None:
        step = by_place.get((file, line))
        if step is not None:
            step.times += 1

    def on_line(frame: FrameType, event: str, _: object) -> Tracer:
        if event == "line":
            count(frame.f_code.co_filename, frame.f_lineno)
        return on_line

    def on_call(frame: FrameType, event: str, _: object) -> Tracer | None:
        if frame.f_code.co_filename not in files:
            return None
        count(frame.f_code.co_filename, frame.f_code.co_firstlineno)
        return on_line

    before = sys.gettrace()
    sys.settrace(on_call)
    try:
        yield steps
    finally:
        sys.settrace(before)
