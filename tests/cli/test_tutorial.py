"""docs/tutorials/shop.md says that up to the stream the extra `cli` will do; the whole page is run in tests/spark."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
WITHOUT = """
import sys
sys.modules |= dict.fromkeys(("pyspark", "matplotlib", "cryptography"))
sys.path.insert(0, sys.argv[1])
from pathlib import Path
from support.pages import run_page
print(run_page(Path("page.md")))
"""


def test_the_first_half_needs_the_command_line_alone(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "tutorials/shop.md").read_text(encoding="utf-8")
    first, sign, _ = page.partition("\n### In a stream\n")
    assert sign
    (tmp_path / "page.md").write_text(first, encoding="utf-8")
    command = [sys.executable, "-c", WITHOUT, str(ROOT / "tests")]
    ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
    assert int(ended.stdout) == 8
