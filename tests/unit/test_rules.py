"""Rules that no linter knows: they are read off the source, and each is shown to notice its breach."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src" / "thence"
FILES = sorted(SOURCE.rglob("*.py"))
OF_NAMED_TUPLES = {"_replace", "_asdict", "_fields", "_make"}
FOREIGN = ("kafka", "KafkaError", "os")
"""Owners that are not ours and publish names with an underscore: error codes of Kafka's client, `os._exit`."""
MOST_LINES, MOST_OF_A_FUNCTION = 450, 55
LONG = ("command", "build", "_read_by_numbers")
"""Functions that may be longer: options of a verb, the table of verbs, and a loop over bytes that makes no calls."""
VAGUE = {"told", "said", "mine"}
"""Names that do not say what a local holds."""
Rule = Callable[[str], Iterator[str]]


def private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__") and name not in OF_NAMED_TUPLES


def own_names(tree: ast.Module) -> set[str]:
    """Return what a module defines or assigns, at any depth."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Store):
            found.add(node.id if isinstance(node, ast.Name) else node.attr)
    return found


def of_another(source: str) -> Iterator[str]:
    """Yield the private names that a module takes from our other modules; what it inherits is its own."""
    tree = ast.parse(source)
    own = own_names(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("thence."):
            yield from (f"{node.module}.{each.name}" for each in node.names if private(each.name))
        if isinstance(node, ast.Attribute) and private(node.attr) and node.attr not in own:
            owner = ast.unparse(node.value)
            if owner not in ("self", "cls", "super()") and owner.rpartition(".")[2] not in FOREIGN:
                yield f"{owner}.{node.attr}"


def excused(source: str) -> Iterator[str]:
    """Yield the exceptions that are caught although a mistake of ours raises them too."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ExceptHandler):
            caught = {each.id for each in ast.walk(node.type) if isinstance(each, ast.Name)} if node.type else {"all"}
            yield from caught & {"LookupError", "all"}


def settings_changed(source: str) -> Iterator[str]:
    """Yield the calls that change a setting of a Spark session that exists."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            owner = node.func.value
            if node.func.attr in ("set", "unset") and isinstance(owner, ast.Attribute) and owner.attr == "conf":
                yield ast.unparse(node.func)


def unused(source: str) -> Iterator[str]:
    """Yield the private functions, classes and constants of a module that it never mentions again."""
    tree = ast.parse(source)
    mentioned = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)}
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names = [node.name]
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names = [target.id for target in targets if isinstance(target, ast.Name)]
        else:
            names = []
        yield from (name for name in names if private(name) and name not in mentioned)


def docstring_lines(source: str) -> set[int]:
    """Return the numbers of the lines that are docstrings of functions: to explain a parameter must cost nothing."""
    found = set[int]()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and ast.get_docstring(node) is not None:
            found.update(range(node.body[0].lineno, (node.body[0].end_lineno or 0) + 1))
    return found


def too_long(source: str) -> Iterator[str]:
    """Yield a module and functions that have too many lines; docstrings do not count, compiled loops are excused."""
    tree, texts = ast.parse(source), docstring_lines(source)
    compiled = "import cython" in source  # a loop that makes no calls, each of whose variables is declared
    count = source.count("\n") - len(texts)
    if count > MOST_LINES:
        yield f"the module has {count} lines"
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name not in LONG:
            lines = len(set(range(node.lineno, (node.end_lineno or 0) + 1)) - texts)
            if lines > MOST_OF_A_FUNCTION and not compiled:
                yield f"{node.name} has {lines} lines"


def vague(source: str) -> Iterator[str]:
    """Yield the locals and parameters of functions whose names do not say what they hold."""
    for function in ast.walk(ast.parse(source)):
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            for node in ast.walk(function):
                name = node.arg if isinstance(node, ast.arg) else node.id if isinstance(node, ast.Name) else ""
                if name in VAGUE and not isinstance(getattr(node, "ctx", None), ast.Load):
                    yield f"{getattr(function, 'name', 'lambda')} has {name}"


BREACHES: dict[Rule, str] = {
    of_another: "from thence.core.model.order import _closure\nengine._enforce()\n",
    excused: "try:\n    pass\nexcept (KeyError, LookupError):\n    pass\n",
    settings_changed: "spark.conf.set('a', 'b')\n",
    unused: "def _alone() -> None:\n    pass\n",
    too_long: "def long() -> None:\n" + 60 * "    pass\n",
    vague: "def last(counts: list[int]) -> int:\n    told = counts[-1]\n    return told\n",
}


@pytest.mark.parametrize("rule", BREACHES, ids=lambda rule: rule.__name__)
def test_a_breach_is_noticed(rule: Rule) -> None:
    assert list(rule(BREACHES[rule]))


@pytest.mark.parametrize("rule", BREACHES, ids=lambda rule: rule.__name__)
@pytest.mark.parametrize("package", sorted({file.relative_to(SOURCE).parts[0] for file in FILES}))
def test_no_module_breaks_a_rule(rule: Rule, package: str) -> None:
    files = [file for file in FILES if file.relative_to(SOURCE).parts[0] == package]
    assert {file.name: found for file in files if (found := list(rule(file.read_text())))} == {}
