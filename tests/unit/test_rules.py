"""Rules that no linter knows: they are read off the source, and each is shown to notice its breach."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

SOURCE = Path(__file__).parents[2] / "src" / "thence"
FILES = sorted(SOURCE.rglob("*.py"))
TESTS = Path(__file__).parents[1]
OF_NAMED_TUPLES = {"_replace", "_asdict", "_fields", "_make"}
FOREIGN = ("kafka", "KafkaError", "os")
"""Owners that are not ours and publish names with an underscore: error codes of Kafka's client, `os._exit`."""
MOST_LINES, MOST_OF_A_FUNCTION = 450, 55
LONG = ("command", "build", "_read_by_numbers")
"""Functions that may be longer: options of a verb, the table of verbs, and a loop over bytes that makes no calls."""
VAGUE = {"told", "said", "mine"}
"""Names that do not say what a local holds."""
SOME_ROWS = {"slice", "slices", "piece", "pieces", "stretch", "stretches", "lane", "lanes"}
"""Words that the glossary replaces by batch, chunk, split, block, excerpt and others (docs/reference/glossary.md)."""
SEVERAL_VALUES = 3
"""A constant of a module may share its name with one of another; three values under one name are confused."""
CONTRACTS = {"__all__", "EXAMPLE", "PAPER", "CLAIMS", "VARIANTS", "measure", "T", "At"}
"""Names that each command, or each paper, must define, and type variables."""
SHARED = {"Row": "of the delivery rule, in C, and of every other table, a dict"}
"""Names with two meanings that were left, and what those are."""
Rule = Callable[[str], Iterator[str]]


@cache
def parsed(source: str) -> ast.Module:
    """Return the tree of a source; every rule looks at the same ones."""
    return ast.parse(source)


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
    tree = parsed(source)
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
    for node in ast.walk(parsed(source)):
        if isinstance(node, ast.ExceptHandler):
            caught = {each.id for each in ast.walk(node.type) if isinstance(each, ast.Name)} if node.type else {"all"}
            yield from caught & {"LookupError", "all"}


def settings_changed(source: str) -> Iterator[str]:
    """Yield the calls that change a setting of a Spark session that exists."""
    for node in ast.walk(parsed(source)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            owner = node.func.value
            if node.func.attr in ("set", "unset") and isinstance(owner, ast.Attribute) and owner.attr == "conf":
                yield ast.unparse(node.func)


def unused(source: str) -> Iterator[str]:
    """Yield the private functions, classes and constants of a module that it never mentions again."""
    tree = parsed(source)
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
    for node in ast.walk(parsed(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and ast.get_docstring(node) is not None:
            found.update(range(node.body[0].lineno, (node.body[0].end_lineno or 0) + 1))
    return found


def too_long(source: str) -> Iterator[str]:
    """Yield a module and functions that have too many lines; docstrings do not count, compiled loops are excused."""
    tree, texts = parsed(source), docstring_lines(source)
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
    for function in ast.walk(parsed(source)):
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            for node in ast.walk(function):
                name = node.arg if isinstance(node, ast.arg) else node.id if isinstance(node, ast.Name) else ""
                if name in VAGUE and not isinstance(getattr(node, "ctx", None), ast.Load):
                    yield f"{getattr(function, 'name', 'lambda')} has {name}"


class Definition(NamedTuple):
    """What a module defines under a name: a class, a function or a value, as text."""

    module: str
    kind: str
    value: str


def definitions(sources: Mapping[str, str]) -> dict[str, list[Definition]]:
    """Return what modules define at their top, by name."""
    found: dict[str, list[Definition]] = defaultdict(list)
    for module, source in sources.items():
        for node in parsed(source).body:
            if isinstance(node, ast.ClassDef):
                found[node.name].append(Definition(module, "class", node.name))
            elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                found[node.name].append(Definition(module, "function", node.name))
            elif isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                for target in targets:
                    if isinstance(target, ast.Name):
                        found[target.id].append(Definition(module, "value", ast.unparse(node.value)))
    return found


def imports(sources: Mapping[str, str]) -> set[tuple[str, str]]:
    """Return the names that modules take from each other, each with its module."""
    return {
        (node.module.removeprefix("cython.cimports."), each.name)
        for source in sources.values()
        for node in ast.walk(parsed(source))
        if isinstance(node, ast.ImportFrom) and node.module
        for each in node.names
    }


def counterparts(modules: set[str]) -> bool:
    """Return whether two modules offer one function each by intention: on both engines, or typed and as a loop in C."""
    loops = {module for module in modules if module.endswith("_cy")}
    on_spark = {module for module in modules if ".engines.spark." in module}
    return len(modules) == 2 and (len(loops) == 1 or len(on_spark) == 1)


def confused(sources: Mapping[str, str]) -> dict[str, set[str]]:
    """Return names that mean several things, with the modules that define them.

    A class has a name of its own. So has a function that another module imports. A constant has fewer than
    `SEVERAL_VALUES` values.
    """
    taken, found = imports(sources), {}
    for name, each in definitions(sources).items():
        modules = {one.module for one in each}
        if len(modules) < 2 or name in CONTRACTS | SHARED.keys() or private(name) or counterparts(modules):
            continue
        functions = [one for one in each if one.kind == "function" and (one.module, name) in taken]
        values = {one.value for one in each if one.kind == "value"}
        if any(one.kind == "class" for one in each) or len(functions) > 1 or len(values) >= SEVERAL_VALUES:
            found[name] = modules
    return found


def never_empty(iterable: ast.expr) -> bool:
    """Return whether a loop runs for sure: over a literal, a constant, a range, or what `support.some` lets through."""
    if isinstance(iterable, ast.Call) and isinstance(iterable.func, ast.Name):
        made = iterable.func.id in ("enumerate", "reversed", "sorted", "list", "product", "permutations", "zip")
        return iterable.func.id in ("some", "range") or (made and all(map(never_empty, iterable.args)))
    if isinstance(iterable, ast.Call) and isinstance(iterable.func, ast.Attribute):
        return iterable.func.attr in ("items", "values", "split") and never_empty(iterable.func.value)
    if isinstance(iterable, ast.BinOp):
        return never_empty(iterable.left) or never_empty(iterable.right)
    if isinstance(iterable, ast.Subscript):
        return never_empty(iterable.value)
    if isinstance(iterable, ast.Tuple | ast.List | ast.Set):
        return any(not isinstance(each, ast.Starred) or never_empty(each.value) for each in iterable.elts)
    name = iterable.id if isinstance(iterable, ast.Name) else getattr(iterable, "attr", "")
    return name.isupper() or (
        isinstance(iterable, ast.Constant | ast.Dict) and ast.unparse(iterable) not in ("''", "{}")
    )


def checks(statement: ast.stmt) -> bool:
    """Return whether a statement of a test always checks something; functions called `check` are trusted to."""
    if isinstance(statement, ast.With | ast.AsyncWith):
        return any("raises" in ast.unparse(each) for each in statement.items) or any(map(checks, statement.body))
    if isinstance(statement, ast.For | ast.AsyncFor):
        return never_empty(statement.iter) and any(map(checks, statement.body))
    if isinstance(statement, ast.If):
        return any(map(checks, statement.body)) and any(map(checks, statement.orelse))
    if isinstance(statement, ast.Try):
        return any(map(checks, [*statement.body, *statement.orelse, *statement.finalbody]))
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.While):
        return any(map(checks, statement.body))
    return isinstance(statement, ast.Assert) or (
        isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call)
    )


def vacuous(source: str) -> Iterator[str]:
    """Yield the tests that assert something only in loops that may be empty, or under a condition."""
    for node in ast.walk(parsed(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
            asserts = any(isinstance(each, ast.Assert) for each in ast.walk(node))
            if asserts and not any(map(checks, node.body)):
                yield node.name


def some_rows(source: str) -> Iterator[str]:
    """Yield the names that a module gives to some rows or bytes although the glossary has another word for them."""
    own = own_names(parsed(source)) | {node.arg for node in ast.walk(parsed(source)) if isinstance(node, ast.arg)}
    yield from (name for name in sorted(own) if SOME_ROWS & set(name.lower().split("_")))


@pytest.mark.parametrize("package", ["core", "lab", "live"])
def test_some_rows_are_called_as_the_glossary_says(package: str) -> None:
    files = [file for file in FILES if file.relative_to(SOURCE).parts[0] == package]
    assert {file.name: found for file in files if (found := list(some_rows(file.read_text())))} == {}
    assert list(some_rows("SLICE = 64\ndef read(piece): pass")) == ["SLICE", "piece"]


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


def test_a_name_means_one_thing() -> None:
    modules = {
        ".".join(("thence", *file.relative_to(SOURCE).with_suffix("").parts)): file.read_text() for file in FILES
    }
    assert confused({name.removesuffix(".__init__"): source for name, source in modules.items()}) == {}


@pytest.mark.parametrize(
    ("first", "second", "seen"),
    [
        ("class Step: pass", "class Step: pass", True),
        ("class Step: pass", "Step = tuple[int, int]", True),
        ("class _Step: pass", "class _Step: pass", False),
        ("def choose(): pass", "def choose(): pass", True),
        ("def choose(): pass", "def chosen(): pass", False),
        ("FEW = 1", "FEW = 2", False),
        ("FEW = 1", "FEW = 2\nFEW = 3", True),
    ],
)
def test_a_name_with_two_meanings_is_noticed(first: str, second: str, seen: bool) -> None:
    user = "from thence.a import choose\nfrom thence.b import choose as other"
    assert bool(confused({"thence.a": first, "thence.b": second, "thence.c": user})) is seen


def test_both_engines_offer_the_same_function() -> None:
    both = dict.fromkeys(
        ("thence.tables.engines.local.audit", "thence.tables.engines.spark.audit"), "def audit(): pass"
    )
    user = "\n".join(f"from {module} import audit" for module in both)
    assert confused({**both, "thence.c": user}) == {}
    assert confused({**both, "thence.other": "class audit: pass", "thence.c": user}) != {}


def codes(sources: Mapping[str, str]) -> dict[int, set[str]]:
    """Return the numbers that protocols write into their stamps, each with the classes that have it."""
    found: dict[int, set[str]] = defaultdict(set)
    for module, source in sources.items():
        for node in ast.walk(parsed(source)):
            for line in node.body if isinstance(node, ast.ClassDef) else ():
                named = isinstance(line, ast.Assign) and ast.unparse(line.targets[0]) == "code"
                if named and isinstance(line.value, ast.Constant) and isinstance(line.value.value, int):
                    found[line.value.value].add(f"{module}.{node.name}")
    return found


def test_no_two_protocols_write_the_same_number() -> None:
    """A stamp of a printed variant must not be read as one of another: both are used in one process."""
    sources = {str(file): file.read_text() for file in [*FILES, *TESTS.rglob("*.py")]}
    assert {code: names for code, names in codes(sources).items() if len(names) > 1} == {}
    assert len(codes(sources)) > 50
    twice = "class A(Member):\n    code = 7\n\n\nclass B(Member):\n    code = 7\n"
    assert codes({"m": twice}) == {7: {"m.A", "m.B"}}


def users(programs: Mapping[str, str]) -> dict[str, set[str]]:
    """Return, for each module of `support`, the programs that import it, by themselves or through another one."""
    imported: dict[str, set[str]] = defaultdict(set)
    for program, source in programs.items():
        for node in ast.walk(parsed(source)):
            if isinstance(node, ast.ImportFrom) and node.module == "support":
                imported[program].update(f"support.{each.name}" for each in node.names)
            elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("support."):
                imported[program].add(str(node.module))
    found: dict[str, set[str]] = {name: set() for name in programs if name.startswith("support.")}
    for program in programs.keys() - found.keys():
        new = set(imported[program])
        while new:
            for name in new:
                found[name].add(program)
            new = {name for each in new for name in imported[each] if program not in found[name]}
    return found


def test_what_stands_in_support_is_shared() -> None:
    programs = {
        ".".join(file.relative_to(TESTS).with_suffix("").parts): file.read_text() for file in TESTS.rglob("*.py")
    }
    shared = users({name: source for name, source in programs.items() if name != "support.__init__"})
    assert {name: by for name, by in shared.items() if len(by) < 2} == {}


def test_a_module_of_support_with_one_user_is_noticed() -> None:
    programs = {
        "support.walk": "",
        "support.graph": "from support.walk import walk",
        "unit.test_a": "from support import graph",
        "unit.test_b": "def test_it():\n    from support.walk import walk",
    }
    assert users(programs) == {"support.walk": {"unit.test_a", "unit.test_b"}, "support.graph": {"unit.test_a"}}


def test_no_test_passes_on_an_empty_loop() -> None:
    found = {
        f"{file.parent.name}/{file.name}": names
        for file in sorted(TESTS.rglob("test_*.py"))
        if (names := list(vacuous(file.read_text())))
    }
    assert found == {}


@pytest.mark.parametrize(
    ("body", "seen"),
    [
        ("for row in found(): assert row", True),
        ("for row in some(found()): assert row", False),
        ("for row in ROWS:\n        for each in row: assert each", True),
        ("for row in (1, 2): assert row", False),
        ("if found(): assert 1", True),
        ("rows = [row for row in found()]\n    for row in rows: assert row", True),
        ("with pytest.raises(ValueError): found()", False),
    ],
)
def test_a_test_that_may_check_nothing_is_noticed(body: str, seen: bool) -> None:
    assert bool(list(vacuous(f"def test_it():\n    {body}\n"))) is seen
