"""What setup.py builds: compiled where there is a C compiler, plain Python elsewhere, and both from one sdist."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
MODULE = '''"""A sum."""

from __future__ import annotations

try:
    import cython
except ModuleNotFoundError:
    from thence import _cython as cython


def total(upto: cython.int) -> cython.long:
    """Add up the numbers below a bound."""
    found: cython.long = 0
    for number in range(upto):
        found += number
    return found
'''


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Make a project with one module to compile, built by our own setup.py."""
    package = tmp_path / "src" / "thence"
    package.mkdir(parents=True)
    for name in ("setup.py", "pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, tmp_path)
    for name in ("__init__.py", "_cython.py", "py.typed"):
        shutil.copy(ROOT / "src/thence" / name, package)
    (package / "sum_cy.py").write_text(MODULE)
    return tmp_path


def build(project: Path, *command: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "setup.py", "--quiet", *command],
        cwd=project,
        env=os.environ | env,
        capture_output=True,
        text=True,
        check=False,
    )


def wheel(project: Path) -> tuple[str, list[str]]:
    """Return the name of the one wheel that was built, and its compiled modules."""
    (found,) = (project / "dist").glob("*.whl")
    return found.name, [name for name in zipfile.ZipFile(found).namelist() if name.endswith((".so", ".pyd", ".c"))]


def sdist(project: Path) -> set[str]:
    """Return what the one sdist that was built holds."""
    (found,) = (project / "dist").glob("*.tar.gz")
    with tarfile.open(found) as archive:
        return {name.split("/", 1)[1] for name in archive.getnames() if "/" in name}


def test_with_a_compiler_the_wheel_is_for_this_platform(project: Path) -> None:
    ran = build(project, "bdist_wheel", THENCE_COMPILE="1")
    assert ran.returncode == 0, ran.stderr
    name, compiled = wheel(project)
    assert "none-any" not in name
    assert len(compiled) == 1
    assert compiled[0].startswith("thence/sum_cy.")
    assert compiled[0].endswith(".so")


def test_against_the_limited_api_the_wheel_is_for_newer_pythons_too(project: Path) -> None:
    ran = build(project, "bdist_wheel", THENCE_COMPILE="1", THENCE_ABI3="1")
    assert ran.returncode == 0, ran.stderr
    name, compiled = wheel(project)
    assert "-cp311-abi3-" in name
    assert compiled == ["thence/sum_cy.abi3.so"]


def test_the_pure_wheel_is_for_every_platform(project: Path) -> None:
    ran = build(project, "bdist_wheel", THENCE_COMPILE="0")
    assert ran.returncode == 0, ran.stderr
    name, compiled = wheel(project)
    assert name.endswith("-py3-none-any.whl")
    assert compiled == []


@pytest.mark.parametrize("compiler", ["/bin/false", "/no/such/compiler"])
def test_without_a_compiler_the_build_ends_well_and_says_so_in_one_sentence(project: Path, compiler: str) -> None:
    ran = build(project, "bdist_wheel", CC=compiler)
    assert ran.returncode == 0, ran.stderr
    said = [line for line in ran.stderr.splitlines() if line.startswith("thence:")]
    assert len(said) == 1
    assert said[0].startswith(f"thence: the C compiler {compiler} does not")
    assert said[0].endswith("1 modules stay plain Python, with the same answers but slower")
    assert "Traceback" not in ran.stderr
    assert wheel(project)[0].endswith("-py3-none-any.whl")


def test_make_install_without_a_compiler_prints_one_line(project: Path) -> None:
    ran = build(project, "build_ext", "--inplace", "--force", CC="/bin/false")
    assert (ran.returncode, ran.stdout, len(ran.stderr.splitlines())) == (0, "", 1)


def test_without_a_compiler_a_build_that_asks_for_one_fails_in_one_sentence(project: Path) -> None:
    ran = build(project, "bdist_wheel", CC="/bin/false", THENCE_COMPILE="1")
    assert ran.returncode == 1
    assert len(ran.stderr.splitlines()) == 1


def test_the_sdist_holds_what_a_build_needs_and_nothing_generated(project: Path) -> None:
    assert build(project, "build_ext", "--inplace").returncode == 0
    ran = build(project, "sdist")
    assert ran.returncode == 0, ran.stderr
    names = sdist(project)
    assert {"setup.py", "pyproject.toml", "README.md", "LICENSE", "src/thence/sum_cy.py"} <= names
    assert {"src/thence/_cython.py", "src/thence/py.typed"} <= names
    assert not [name for name in names if name.endswith((".c", ".so"))]


def test_the_sdist_of_this_project_holds_every_source(tmp_path: Path) -> None:
    for name in ("setup.py", "pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, tmp_path)
    left = shutil.ignore_patterns("*.so", "__pycache__", "*.egg-info")
    shutil.copytree(ROOT / "src", tmp_path / "src", ignore=left)
    wanted = {str(path.relative_to(tmp_path)) for path in (tmp_path / "src").rglob("*") if path.is_file()}
    ran = build(tmp_path, "sdist")
    assert ran.returncode == 0, ran.stderr
    assert wanted <= sdist(tmp_path)


DIRECTIVES = re.compile(r"^# cython: (.*)$", re.MULTILINE)


def unexplained(source: str) -> list[str]:
    """Return the directives of a module, but for the compiler's own language level, whose reason no comment gives."""
    head = source.split('"""', 1)[0]
    named = [each.split("=")[0].strip() for line in DIRECTIVES.findall(source) for each in line.split(",")]
    named += re.findall(r"@cython\.(boundscheck|wraparound|cdivision|initializedcheck|nonecheck)", source)
    return [name for name in named if not re.search(rf"^# {name}: .{{20}}", head, re.MULTILINE)]


def test_a_directive_without_its_reason_is_noticed() -> None:
    assert unexplained("# cython: boundscheck=False\n# distutils: x\n'a'") == ["boundscheck"]
    assert unexplained("# cython: wraparound=False\n# wraparound: no index is ever negative.\n") == []
    assert unexplained("@cython.cdivision(True)\ndef f(): ...\n") == ["cdivision"]


def test_every_directive_of_a_compiled_module_has_its_reason() -> None:
    """A check that is switched off is a promise about the numbers that go in; the module says why it holds."""
    modules = sorted((ROOT / "src").rglob("*_cy.py"))
    assert sum("# cython:" in module.read_text() for module in modules) >= 10
    found = {module.name: missing for module in modules if (missing := unexplained(module.read_text()))}
    assert found == {}
