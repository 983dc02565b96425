"""Keep the docstrings of the package useful to a reader who has only them (CONTRIBUTING.md).

    python tools/docstrings.py

Three rules. A public module, class, function or method has a docstring of more than four words; a method may leave it
to the one that it overrides, where `help` and editors find it. A public function or
method that users can import explains each of its parameters, under `Args:`; a constructor may do so in the docstring of
its class. A dataclass or named tuple that users can import explains each field: in a text below it, or by name (in
backticks) in the docstring of the class. Exits with 1 if a rule is broken.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src"
PUBLIC = ("", ".spark", ".spark.session", ".spark.sources", ".sources", ".sources.kafka", ".sources.postgres")
PUBLIC += (".sinks", ".testing", ".runtime", ".protocols", ".integrations", ".errors")
"""the modules that users import, below `thence`; one that does not exist yet is skipped"""
FEWEST = 5
"""words of a docstring"""

Function = ast.FunctionDef | ast.AsyncFunctionDef
Definition = Function | ast.ClassDef
DEFINED = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


def place(module: str) -> Path | None:
    """Return the file of a module, or None for a module outside the package."""
    path = SOURCE.joinpath(*module.split("."))
    for each in (path / "__init__.py", path.with_suffix(".py")):
        if each.exists():
            return each
    return None


@cache
def parsed(path: Path) -> ast.Module:
    """Return the syntax tree of a file."""
    return ast.parse(path.read_text(encoding="utf-8"))


@cache
def imports(path: Path) -> list[tuple[str, str, str]]:
    """Return what a file imports from other modules: the name here, the module, the name there."""
    nodes = [node for node in ast.walk(parsed(path)) if isinstance(node, ast.ImportFrom)]
    return [(alias.asname or alias.name, node.module or "", alias.name) for node in nodes for alias in node.names]


def exported(module: str) -> set[str]:
    """Return the names that a module offers: `__all__`, or else what it imports and defines."""
    path = place(module)
    if path is None:
        return set()
    listed = {name for _, there, original in imports(path) if original == "*" for name in exported(there)}
    for node in parsed(path).body:
        if (
            isinstance(node, ast.Assign)
            and isinstance(node.value, ast.List)
            and ast.unparse(node.targets[0]) == "__all__"
        ):
            listed |= {str(each.value) for each in node.value.elts if isinstance(each, ast.Constant)}
    names = {name for name, _, _ in imports(path)}
    names |= {node.name for node in parsed(path).body if isinstance(node, DEFINED)}
    return {name for name in listed or names if not name.startswith("_")}


def found(module: str, name: str) -> tuple[Path, Definition] | None:
    """Return where a name of a module is defined, through any number of imports."""
    path = place(module)
    if path is None:
        return None
    own = [node for node in parsed(path).body if isinstance(node, DEFINED) and node.name == name]
    if own:
        return path, own[-1]  # after the overloads
    for here, there, original in imports(path):
        if here in (name, "*") and (definition := found(there, name if original == "*" else original)):
            return definition
    return None


def family(module: str, name: str) -> Iterator[tuple[Path, Definition]]:
    """Yield the definition of a name and, of a class, those of its bases."""
    there = found(module, name)
    if there is None:
        return
    yield there
    path, node = there
    if isinstance(node, ast.ClassDef):
        inside = ".".join(path.relative_to(SOURCE).with_suffix("").parts).removesuffix(".__init__")
        for base in node.bases:
            base = base.value if isinstance(base, ast.Subscript) else base
            if isinstance(base, ast.Name):
                yield from family(inside, base.id)


def public(definitions: Iterable[ast.stmt]) -> Iterator[Definition]:
    """Yield what is meant for others: no name with a leading underscore, no overload, no setter."""
    for node in definitions:
        if isinstance(node, DEFINED) and not node.name.startswith("_"):
            decorators = {ast.unparse(each).rpartition(".")[2] for each in node.decorator_list}
            if not decorators & {"overload", "setter"}:
                yield node


def short(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the line and the fault of each docstring that is missing or too short."""

    def look(node: ast.Module | Definition, name: str) -> Iterator[tuple[int, str]]:
        text = ast.get_docstring(node)
        if text is None and name in inherited:
            return
        if text is None or len(text.split()) < FEWEST:
            line = 1 if isinstance(node, ast.Module) else node.lineno
            yield line, f"{name} needs a docstring of at least {FEWEST} words; found: {text!r}"
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            for each in public(node.body):
                yield from look(each, each.name if isinstance(node, ast.Module) else f"{name}.{each.name}")

    module = ".".join(path.relative_to(SOURCE).with_suffix("").parts).removesuffix(".__init__")
    inherited = {
        f"{node.name}.{each.name}"
        for node in parsed(path).body if isinstance(node, ast.ClassDef)
        for _, base in list(family(module, node.name))[1:] if isinstance(base, ast.ClassDef)
        for each in public(base.body) if ast.get_docstring(each)
    }  # fmt: skip
    return look(parsed(path), "the module")


def parameters(function: Function) -> list[str]:
    """Return the names of the parameters that a caller gives."""
    args = function.args
    every = [*args.posonlyargs, *args.args, args.vararg, *args.kwonlyargs, args.kwarg]
    names = [each.arg for each in every if each is not None]
    return [name for name in names if name not in ("self", "cls") and not name.startswith("_")]


def explained(text: str) -> set[str]:
    """Return the names that a docstring explains under `Args:`."""
    _, _, section = text.partition("Args:\n")
    return set(re.findall(r"^ +\*{0,2}(\w+)(?: \([^)]*\))?: \S", section, re.MULTILINE))


def unexplained(module: str, name: str) -> Iterator[tuple[Path, int, str]]:
    """Yield each function or method of an importable name that leaves a parameter unexplained."""
    for path, node in family(module, name):
        if isinstance(node, ast.ClassDef):
            beside = ast.get_docstring(node) or ""
            methods = [(each, "") for each in public(node.body) if not isinstance(each, ast.ClassDef)]
            methods += [(each, beside) for each in node.body if isinstance(each, Function) and each.name == "__init__"]
        else:
            methods, beside = [(node, "")], ""
        for method, other in methods:
            assert isinstance(method, ast.FunctionDef | ast.AsyncFunctionDef)
            known = explained(ast.get_docstring(method) or "") | explained(other)
            lacking = [each for each in parameters(method) if each not in known]
            if lacking:
                shown = method.name if method is node else f"{node.name}.{method.name}"
                yield path, method.lineno, f"{shown} does not explain {', '.join(lacking)} under `Args:`"


def holds_fields(node: ast.ClassDef) -> bool:
    """Return whether the annotated names of a class are fields of its instances."""
    made = [ast.unparse(each) for each in (*node.decorator_list, *node.bases)]
    return any(re.match(r"(dataclasses\.)?dataclass\b|(typing\.)?NamedTuple$", each) for each in made)


def bare_fields(module: str, name: str) -> Iterator[tuple[Path, int, str]]:
    """Yield each class behind an importable name that leaves a field unexplained."""
    for path, node in family(module, name):
        if not isinstance(node, ast.ClassDef) or not holds_fields(node):
            continue
        said = ast.get_docstring(node) or ""
        known = explained(said) | set(re.findall(r"`(\w+)`", said))
        lacking = []
        for each, below in zip(node.body, [*node.body[1:], None], strict=True):
            if isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name):
                text = isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant)
                if not text and each.target.id not in known and not each.target.id.startswith("_"):
                    lacking.append(each.target.id)
        if lacking:
            yield path, node.lineno, f"{node.name} does not explain its fields {', '.join(lacking)}"


def faults() -> list[str]:
    """Return every fault with its place."""
    found_there = {(path, line, fault) for path in (SOURCE / "thence").rglob("*.py") for line, fault in short(path)}
    for below in PUBLIC:
        for name in exported(f"thence{below}"):
            found_there.update(unexplained(f"thence{below}", name))
            found_there.update(bare_fields(f"thence{below}", name))
    return [f"{path.relative_to(SOURCE.parent)}:{line}: {fault}" for path, line, fault in sorted(found_there)]


def main() -> int:
    """Print the faults; return the exit code."""
    listed = faults()
    print(*listed, sep="\n", end="\n" if listed else "")
    return 1 if listed else 0


if __name__ == "__main__":
    sys.exit(main())
