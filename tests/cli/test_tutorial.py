"""docs/tutorials/shop.md says that the extra `cli` suffices."""

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


def test_the_shop_needs_the_command_line_alone(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "tutorials/shop.md").read_text(encoding="utf-8")
    (tmp_path / "page.md").write_text(page, encoding="utf-8")
    command = [sys.executable, "-c", WITHOUT, str(ROOT / "tests")]
    ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
    assert int(ended.stdout) == 8
