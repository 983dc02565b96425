"""The tools notice what they are there to notice."""

from __future__ import annotations

import importlib
from pathlib import Path
from types import ModuleType

import pytest

TOOLS = Path(__file__).parents[2] / "tools"


def tool(name: str, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(TOOLS))
    return importlib.import_module(name)


def test_the_lines_of_a_package_are_written_again_once_they_are_off_by_a_tenth(monkeypatch: pytest.MonkeyPatch) -> None:
    about = tool("architecture", monkeypatch).about
    assert [about(count, None) for count in (7, 24, 165, 4_592, 12_345)] == ["7", "24", "160", "4,600", "12,000"]
    assert [about(count, "4,600") for count in (4_182, 5_111)] == ["4,600", "4,600"]
    assert [about(count, "4,600") for count in (4_181, 5_112)] == ["4,200", "5,100"]


def test_a_module_that_a_page_names_and_is_not_there_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    architecture = tool("architecture", monkeypatch)
    assert architecture.missing() == []
    (tmp_path / "architecture.md").write_text("`tables/files/read.py` and `trace/nowhere.py`")
    monkeypatch.setattr(architecture, "PAGE", tmp_path / "architecture.md")
    assert architecture.missing() == ["architecture.md names trace/nowhere.py, which does not exist"]


def test_a_page_outside_the_site_is_no_target_for_its_pages(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    links = tool("links", monkeypatch)
    monkeypatch.setattr(links, "ROOT", tmp_path)
    monkeypatch.setattr(links, "SITE", tmp_path / "docs")
    (tmp_path / "docs").mkdir()
    (tmp_path / "README.md").write_text("# Here\n[there](docs/page.md#a-title)\n")
    (tmp_path / "docs/page.md").write_text(
        "# A title\n[up](../README.md) [on](other.md) [down](#nowhere) [code](../x.py)\n"
    )
    (tmp_path / "x.py").touch()
    assert links.broken(tmp_path / "README.md") == []
    assert links.broken(tmp_path / "docs/page.md") == [
        "docs/page.md: ../README.md is no page of the site",
        "docs/page.md: other.md leads to no file",
        "docs/page.md: #nowhere leads to no heading",
    ]


def test_a_python_that_is_declared_and_missing_ends_a_release(monkeypatch: pytest.MonkeyPatch) -> None:
    release = tool("release", monkeypatch)
    assert set(release.DECLARED.findall("Programming Language :: Python :: 3.11")) == {"3.11"}
    monkeypatch.setattr(release, "interpreter", lambda version: None)
    with pytest.raises(SystemExit, match=r"no Python 3\.11"):
        release.pythons()


def test_no_interpreter_is_made_up(monkeypatch: pytest.MonkeyPatch) -> None:
    assert tool("release", monkeypatch).interpreter("3.999") is None


def test_the_readme_for_pypi_has_absolute_links(monkeypatch: pytest.MonkeyPatch) -> None:
    release = tool("release", monkeypatch)
    text = "![a](docs/a.svg) [b](docs/b.md#c) [d](#e) [f](https://g.h/i)"
    assert release.absolute(text, "https://x.y/z") == (
        "![a](https://x.y/z/raw/main/docs/a.svg) [b](https://x.y/z/blob/main/docs/b.md#c) [d](#e) [f](https://g.h/i)"
    )


def test_short_docstrings_and_unexplained_parameters_are_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    docstrings = tool("docstrings", monkeypatch)
    monkeypatch.setattr(docstrings, "SOURCE", tmp_path / "src")
    inner = tmp_path / "src/thence/inner"
    inner.mkdir(parents=True)
    (inner.parent / "__init__.py").write_text(
        '"""What users import from this package."""\nfrom thence.inner import *\n'
        'from thence.inner.open import opened\n__all__ = ["opened"]\n'
    )
    (inner / "__init__.py").write_text(
        '"""The classes that users import."""\nfrom thence.inner.open import Door, Lock\n__all__ = ["Door", "Lock"]\n'
    )
    (inner / "open.py").write_text(
        "def opened(name: str, wide: bool) -> None:\n"
        '    """Open the door of that name.\n\n    Args:\n        name: of the door.\n    """\n'
        "def hidden(name: str) -> None:\n    'Open a door that is not exported.'\n"
        "class Hinge:\n    'What a door turns around on.'\n    def turn(self, angle: int) -> None:\n        'Turn.'\n"
        "class Door(Hinge):\n    'A door that can be opened.'\n"
        "    def __init__(self, width: int) -> None:\n        'Make it.'\n"
        "@dataclass(frozen=True)\nclass Lock(NamedTuple):\n    'A lock with the `key` that opens it.'\n"
        "    key: int\n    turns: int\n    'how often'\n    brand: str\n    _worn: int\n"
    )
    assert docstrings.faults() == [
        "src/thence/inner/open.py:1: opened does not explain wide under `Args:`",
        "src/thence/inner/open.py:1: the module needs a docstring of at least 5 words; found: None",
        "src/thence/inner/open.py:11: Hinge.turn does not explain angle under `Args:`",
        "src/thence/inner/open.py:11: Hinge.turn needs a docstring of at least 5 words; found: 'Turn.'",
        "src/thence/inner/open.py:15: Door.__init__ does not explain width under `Args:`",
        "src/thence/inner/open.py:18: Lock does not explain its fields brand",
    ]
