"""What runs the pages notices when one of them is wrong."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.pages import run_page, same, steps

from thence import __version__

PAGE = f"""
```python
n = 2
print(n)
```

```text
2
```

```console
$ thence --version
thence {__version__}
```
"""


def test_a_page_is_run(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(PAGE)
    assert run_page(page) == 2


@pytest.mark.parametrize("wrong", [("2\n```", "3\n```"), ("print(n)", "print(m)"), ("--version", "--versions")])
def test_a_wrong_page_is_noticed(tmp_path: Path, wrong: tuple[str, str]) -> None:
    page = tmp_path / "page.md"
    page.write_text(PAGE.replace(*wrong))
    with pytest.raises((AssertionError, NameError)):
        run_page(page)


def test_steps_say_their_line() -> None:
    assert [(step.language, step.line) for step in steps(PAGE)] == [("python", 2), ("console", 11)]


def test_three_dots_stand_for_lines() -> None:
    assert same("a\n...\nz", "a\nb\nc  \nz\n")
    assert not same("a\n...\nz", "a\nb")
    assert not same("a", "a\nb")
    assert same("took ...\nz", "took 7 s\nz")
    assert not same("took ...\nz", "took\n7 s\nz")
