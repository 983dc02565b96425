"""`thence doctor` without starting Spark; tests/spark/test_doctor.py starts it."""

from __future__ import annotations

import json
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

import pytest

from thence.cli import doctor, main
from thence.errors import MisuseError


def findings(capsys: pytest.CaptureFixture[str]) -> tuple[bool, dict[str, dict[str, str]]]:
    said = json.loads(capsys.readouterr().out)
    return said["ok"], {finding["what"]: finding for finding in said["findings"]}


def test_all_is_fine_here(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--no-start", "--json", "-"]) == 0
    fine, found = findings(capsys)
    assert fine
    assert {"thence", "python", "thence[spark]", "java", "class archive"} <= set(found)
    assert found["java"]["status"] == "ok"


def test_the_table_is_for_people(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--no-start"]) == 0
    assert "what to do" in capsys.readouterr().out


def test_without_java_it_says_what_to_do(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def nothing() -> None:
        raise MisuseError("none was found")

    monkeypatch.setattr(doctor, "find_java", nothing)
    assert main(["doctor", "--json", "-"]) == 1
    fine, found = findings(capsys)
    assert not fine
    assert found["java"]["status"] == "missing"
    assert "pip install" in found["java"]["advice"]
    assert found["spark session"]["status"] == "missing"


def test_an_extra_that_is_not_installed_is_no_fault(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    installed = doctor._installed
    monkeypatch.setattr(doctor, "_installed", lambda name: None if name == "networkx" else installed(name))
    assert main(["doctor", "--no-start", "--json", "-"]) == 0
    fine, found = findings(capsys)
    assert fine
    assert found["thence[topology]"]["status"] == "absent"
    assert found["thence[topology]"]["found"] == "networkx"
    assert found["thence[topology]"]["advice"] == 'pip install "thence[topology]"'


def test_without_pyspark_java_is_not_asked_for(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def nothing() -> None:
        raise MisuseError("none was found")

    installed = doctor._installed
    monkeypatch.setattr(doctor, "_installed", lambda name: None if name == "pyspark" else installed(name))
    monkeypatch.setattr(doctor, "find_java", nothing)
    assert main(["doctor"]) == 0
    said = capsys.readouterr().out
    assert "What else there is" in said
    assert said.endswith("What is installed works.\n")


@pytest.mark.parametrize(
    ("workers", "status"),
    [
        ([{"python": doctor.platform.python_version(), "thence": doctor.__version__}], "ok"),
        ([{"python": "3.10.1", "thence": doctor.__version__}], "broken"),
        ([], "broken"),
    ],
)
def test_workers_must_be_of_our_kind(workers: list[dict[str, str]], status: str) -> None:
    assert doctor._workers(workers, 1.0).status == status


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """Make a package with two modules to compile."""
    package = tmp_path / "src" / "thence"
    package.mkdir(parents=True)
    for name in ("log_cy.py", "rule_cy.py"):
        (package / name).touch()
    return package


def test_compiled_modules_are_counted(package: Path) -> None:
    for name in ("log_cy", "rule_cy"):
        (package / f"{name}{EXTENSION_SUFFIXES[0]}").touch()
    assert doctor.compiled_modules(package) == doctor.Check("compiled modules", "ok", "all 2")


def test_modules_that_are_not_compiled_are_named(package: Path) -> None:
    (package / f"log_cy{EXTENSION_SUFFIXES[0]}").touch()
    found = doctor.compiled_modules(package)
    assert (found.status, found.found) == ("note", "1 of 2; plain Python: thence.rule_cy")
    assert found.fine


@pytest.mark.parametrize(("clone", "command"), [(True, "make install"), (False, "pip install --force-reinstall")])
def test_what_to_do_about_plain_modules(package: Path, clone: bool, command: str) -> None:
    if clone:
        (package.parents[1] / "setup.py").touch()
    found = doctor.compiled_modules(package)
    assert found.found == "none of 2"
    assert found.advice is not None
    assert f"then run: {command}" in found.advice
    assert "compiled wheels are for Linux on x86-64" in found.advice, "other platforms get the pure one"
