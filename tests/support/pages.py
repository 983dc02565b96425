"""Runs the blocks of a page as a reader would, and compares what they print with what the page shows.

A block in `python` is run, all in one namespace; a block in `text` right after it is what it prints. In a block in
`console`, a line after `$ ` is a command, and the lines below are what it prints; `...` stands for any number of lines,
and at the end of a line for the rest of it. Trailing blanks do not count.
"""

from __future__ import annotations

import contextlib
import io
import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from thence import cli

BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True, slots=True)
class Step:
    """Something that is run, and what it should print."""

    language: str
    source: str
    printed: str
    line: int


def steps(text: str) -> Iterator[Step]:
    """Yield what a page asks its reader to run, in order."""
    blocks = [(found[1], found[2], text.count("\n", 0, found.start()) + 1) for found in BLOCK.finditer(text)]
    for (language, body, line), following in zip(blocks, [*blocks[1:], ("", "", 0)], strict=True):
        if language == "python":
            yield Step("python", body, following[1] if following[0] == "text" else "", line)
        elif language == "console":
            for command in re.split(r"^\$ ", body, flags=re.MULTILINE)[1:]:
                source, _, printed = command.partition("\n")
                yield Step("console", source, printed, line)


def run(step: Step, names: dict[str, object]) -> str:
    """Run one step in this process, and return what it prints."""
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        if step.language == "python":
            exec(compile("\n" * step.line + step.source, "page", "exec"), names)
        else:
            program, *arguments = shlex.split(step.source)
            assert program == "thence", f"line {step.line}: only commands of ours can be run"
            code = cli.main(arguments)
            assert code in (0, 1), f"line {step.line}: exit code {code}"
    return said.getvalue()


def same(wanted: str, said: str) -> bool:
    """Return whether a step printed what the page shows."""
    lines = [".*" if line == "..." else pattern(line) for line in stripped(wanted)]
    return re.fullmatch("\n".join(lines), "\n".join(stripped(said)), re.DOTALL) is not None


def pattern(line: str) -> str:
    """Return what a line must be, as a regular expression."""
    known = line.removesuffix(" ...")
    return re.escape(known) + (" [^\n]*" if known != line else "")


def stripped(text: str) -> list[str]:
    """Return the lines without trailing blanks, and without empty ones at the end."""
    return "\n".join(line.rstrip() for line in text.splitlines()).strip("\n").split("\n")


def run_page(page: Path) -> int:
    """Run a page from top to bottom, and return how many steps there were."""
    names: dict[str, object] = {"__name__": "page"}
    count = 0
    for step in steps(page.read_text()):
        said = run(step, names)
        assert same(step.printed, said), f"{page.name}:{step.line} shows\n{step.printed}\nand prints\n{said}"
        count += 1
    return count
