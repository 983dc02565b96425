"""Runs TLC on a module of `specs/` with a small model, and reads what it says.

A model is a module that extends one of ours and defines its constants, and a configuration that says what is checked.
Both are written to a folder beside copies of the specifications; TLC runs there, with bounded memory and time.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path

from thence.errors import MisuseError, ThenceError
from thence.lab.formal import values
from thence.lab.formal.jar import tlc_jar
from thence.tables.engines.spark.java import find_java

MEMORY = "2g"
TLC_SECONDS = 600.0
"""seconds that a run may take by default"""
HOLDS, VIOLATED, STUCK, UNFAIR = 0, 12, 11, 13
"""exit codes of TLC: fine, an invariant or action property is violated, deadlock, a temporal property is violated"""


class TlcError(ThenceError):
    """TLC could not do its work: a mistake in a specification or model, or too little memory or time."""


@dataclass(frozen=True)
class Model:
    """A check for TLC: module, constants, specification and properties.

    `constants` are simple values, as a configuration takes them; `definitions` give constants any TLA+ text, which TLC
    evaluates again wherever it uses it.
    """

    module: str
    constants: Mapping[str, str]
    specification: str
    invariants: Sequence[str] = ()
    properties: Sequence[str] = ()
    view: str = ""
    symmetry: str = ""
    deadlock: bool = False
    """whether a state without a next one is a failure"""
    definitions: Mapping[str, str] = field(default_factory=dict)
    named: Sequence[str] = ()
    """names that stand for themselves: model values"""
    instead: Mapping[str, str] = field(default_factory=dict)
    """operators that are replaced, by those that stand in for them"""

    def text(self) -> str:
        """Return the text of the module `Model` that TLC reads."""
        given = "\n".join(f"the_{name} == {value}" for name, value in self.definitions.items())
        names = f"CONSTANTS {', '.join(self.named)}\n" if self.named else ""
        return f"---- MODULE Model ----\nEXTENDS {self.module}\n{names}{given}\n====\n"

    def configuration(self) -> str:
        """Return the text of TLC's configuration file."""
        lines = ["CONSTANTS", *(f"  {name} = {value}" for name, value in self.constants.items())]
        lines += [f"  {name} <- the_{name}" for name in self.definitions]
        lines += [f"  {name} <- {other}" for name, other in self.instead.items()]
        lines.append(f"SPECIFICATION {self.specification}")
        lines += [f"INVARIANT {name}" for name in self.invariants]
        lines += [f"PROPERTY {name}" for name in self.properties]
        lines += [f"VIEW {self.view}"] if self.view else []
        lines += [f"SYMMETRY {self.symmetry}"] if self.symmetry else []
        lines += [f"CONSTANTS {name} = {name}" for name in sorted(self.named)]
        return "\n".join([*lines, f"CHECK_DEADLOCK {'TRUE' if self.deadlock else 'FALSE'}", ""])


@dataclass(frozen=True)
class TlcResult:
    """The result of TLC: verdict and number of states."""

    holds: bool
    violated: str
    """the property or invariant that does not hold; empty if all hold"""
    generated: int
    distinct: int
    depth: int
    printed: list[values.TlaValue] = field(default_factory=list)
    """the tuples that the specification printed"""
    output: str = ""


def check(model: Model, *, workers: int = 1, patience: float = TLC_SECONDS, folder: Path | None = None) -> TlcResult:
    """Run TLC on a model; `folder` keeps what was written for it."""
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
        return _check_in(folder, model, workers, patience)
    with tempfile.TemporaryDirectory(prefix="thence-tlc-") as made:
        return _check_in(Path(made), model, workers, patience)


def _check_in(folder: Path, model: Model, workers: int, patience: float) -> TlcResult:
    for name, text in specifications():
        (folder / name).write_text(text, encoding="utf-8")
    (folder / "Model.tla").write_text(model.text(), encoding="utf-8")
    (folder / "Model.cfg").write_text(model.configuration(), encoding="utf-8")
    code, output = _run(folder, workers, patience)
    return read(code, output)


def specifications() -> Iterator[tuple[str, str]]:
    """Yield name and text of each specification of the package."""
    for each in (files("thence.lab.formal") / "specs").iterdir():
        if each.name.endswith(".tla"):
            yield each.name, each.read_text(encoding="utf-8")


def _java() -> str:
    try:
        return str(find_java().home / "bin" / "java")
    except MisuseError as error:
        found = re.search(r"\((.*)\)", str(error))
        raise MisuseError(
            f"TLC needs Java 17 or newer and none was found ({found[1] if found else error}). "
            "Install one and set JAVA_HOME"
        ) from None


def _run(folder: Path, workers: int, patience: float) -> tuple[int, str]:
    java, jar = _java(), tlc_jar()
    command = [java, f"-Xmx{MEMORY}", "-Xss64m", "-XX:+UseParallelGC", f"-XX:ParallelGCThreads={workers}"]
    # TLC ends by itself a while later, should this process be killed before it can end TLC.
    command += [
        f"-Dtlc2.TLC.stopAfter={int(patience) + 60}",
        f"-Djava.io.tmpdir={folder}",
        "-cp",
        str(jar),
        "tlc2.TLC",
        "-workers",
        str(workers),
        "-nowarning",
    ]
    command += ["-metadir", str(folder / "states"), "-config", "Model.cfg", "Model.tla"]
    with (folder / "output.txt").open("w+", encoding="utf-8") as out:
        process = subprocess.Popen(command, cwd=folder, stdout=out, stderr=subprocess.STDOUT)
        try:
            code = process.wait(patience)
        except subprocess.TimeoutExpired:
            raise TlcError(f"TLC was not done after {patience:.0f} seconds; take a smaller model") from None
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()
            shutil.rmtree(folder / "states", ignore_errors=True)
        out.seek(0)
        return code, out.read()


_COUNTS = re.compile(
    r"^([\d,]+) states generated, ([\d,]+) distinct states found, 0 states left on queue", re.MULTILINE
)
_DEPTH = re.compile(r"depth of the complete state graph search is ([\d,]+)")
_BROKEN = re.compile(r"(?:Invariant|Action property|Temporal properties?) ?(\S*) (?:is|were) violated")


def read(code: int, output: str) -> TlcResult:
    """Read the output of a run that ended with this exit code."""
    if code not in (HOLDS, VIOLATED, STUCK, UNFAIR):
        raise TlcError(f"TLC ended with code {code}: {_complaint(output)}")
    counts, depth = _COUNTS.search(output), _DEPTH.search(output)
    if code == HOLDS and counts is None:
        raise TlcError(f"TLC's output ends without a count of states: {_complaint(output)}")
    generated, distinct = (int(text.replace(",", "")) for text in counts.groups()) if counts else (0, 0)
    broken = _BROKEN.search(output)
    violated = "" if code == HOLDS else "deadlock" if code == STUCK else (broken[1] if broken else "") or "liveness"
    return TlcResult(
        code == HOLDS, violated, generated, distinct,
        int(depth[1].replace(",", "")) if depth else 0, list(values.printed(output)), output,
    )  # fmt: skip


def _complaint(output: str) -> str:
    lines = output.splitlines()
    first = next((place for place, line in enumerate(lines) if "rror" in line), max(len(lines) - 5, 0))
    return " ".join(" ".join(lines[first : first + 8]).split())[:600]
