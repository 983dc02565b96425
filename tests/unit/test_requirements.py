"""The pins: exact, without addresses, installed as written, and complete for what the code imports."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[2]
FILES = ["runtime.txt", "dev.txt"]
OURS = {"thence", "support", "conftest", "papers", "explorer"}
ELSEWHERE = {"polars", "ag_ui", "ag_ui_langgraph", "langchain_core", "langgraph"}
"""of programs that run in an environment of their own, as they say: yardsticks of benchmarks, recorders of samples"""


def pins(name: str) -> list[str]:
    return (ROOT / "requirements" / name).read_text().splitlines()


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


@pytest.mark.parametrize("name", [*FILES, "docs.txt", "release.txt"])
def test_every_line_is_an_exact_version(name: str) -> None:
    assert [line for line in pins(name) if not re.fullmatch(r"[\w.-]+==[\w.]+", line)] == []


def test_the_pins_are_made_from_every_extra() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    asked = re.search(r"^EXTRAS := .*--extra ,(.*)\)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert asked is not None
    pinned = {need for name in asked[1].split() for need in extras[name]}
    assert {need for name in extras.keys() - {"all"} for need in extras[name]} == pinned


@pytest.mark.parametrize("name", FILES)
def test_what_is_pinned_is_what_is_installed(name: str) -> None:
    wanted = dict(line.split("==") for line in pins(name))
    assert {package: metadata.version(package) for package in wanted} == wanted


@pytest.mark.parametrize("name", FILES)
def test_what_a_pinned_package_needs_is_pinned(name: str) -> None:
    """What `make pins` writes is complete, so that two installations are the same."""
    packages = {normal(line.split("==")[0]) for line in pins(name)}
    needed = {
        normal(need.name)
        for package in packages
        for need in map(Requirement, metadata.requires(package) or ())
        if need.marker is None or need.marker.evaluate({"extra": ""})
    }
    assert needed - packages == set()
    assert len(needed) > 20


def imported(folder: str) -> set[str]:
    """Return the top-level modules named by any import under `folder`."""
    names = set()
    for path in (ROOT / folder).rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                names |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.level == 0:
                names.add(node.module or "")
    return {name.partition(".")[0] for name in names}


@pytest.mark.parametrize(
    ("folder", "files"),
    [("src", FILES[:1]), ("tests", FILES), ("benchmarks", FILES), ("examples", FILES)],
)
def test_what_is_imported_is_pinned(folder: str, files: list[str]) -> None:
    pinned = {normal(line.split("==")[0]) for file in files for line in pins(file)}
    ours = [path for place in (folder, "benchmarks") for path in (ROOT / place).rglob("*")]  # tests run benchmarks too
    local = {path.stem for path in ours if path.is_dir() or path.suffix == ".py"} | OURS
    providers = metadata.packages_distributions()
    foreign = imported(folder) - set(sys.stdlib_module_names) - local - ELSEWHERE - {"cython"}  # only to build
    unpinned = {name for name in foreign if not {normal(p) for p in providers.get(name, [])} & pinned}
    assert unpinned == set()
