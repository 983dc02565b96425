"""No public function shares its name with a module of its room: `thence.spark.cost` is one thing."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src" / "thence"
ROOMS = [SOURCE, *sorted(path.parent for path in SOURCE.rglob("*/__init__.py"))]


def modules(room: Path) -> set[str]:
    return {path.stem for path in room.glob("*.py")} | {path.parent.name for path in room.glob("*/__init__.py")}


def functions(file: Path) -> set[str]:
    body = ast.parse(file.read_text()).body
    return {node.name for node in body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}


@pytest.mark.parametrize("room", ROOMS, ids=lambda room: str(room.relative_to(SOURCE.parent)))
def test_no_function_is_called_like_a_module_of_its_room(room: Path) -> None:
    known = modules(room)
    twice = {f"{file.name}: {name}" for file in room.glob("*.py") for name in functions(file) & known}
    assert not {each for each in twice if not each.partition(": ")[2].startswith("_")}
