"""The delivery rule with bounds checks on: an index beyond its array is an error, not a look at what lies there."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_no_index_of_the_delivery_rule_leaves_its_array(tmp_path: Path) -> None:
    """The tests of delivery, on a copy whose modules check every index."""
    copy = tmp_path / "thence"
    shutil.copytree(ROOT / "src/thence", copy)
    changed = 0
    for module in (copy / "tables/delivery").glob("*_cy.py"):
        text = module.read_text()
        module.write_text(text.replace("boundscheck=False", "boundscheck=True"))
        changed += "boundscheck=False" in text
        for compiled in module.parent.glob(f"{module.stem}.*.so"):
            compiled.unlink()
    assert changed > 5
    modules = sorted(str(each) for each in (copy / "tables/delivery").glob("*_cy.py"))
    cythonize = [sys.executable, "-m", "Cython.Build.Cythonize", "--inplace", "-3", *modules]
    subprocess.run(cythonize, cwd=tmp_path, check=True)
    env = os.environ | {"PYTHONPATH": str(tmp_path)}
    witness = "import thence.tables.delivery.delivery_rule_cy as rule; print(rule.__file__)"
    found = subprocess.run([sys.executable, "-c", witness], env=env, check=True, capture_output=True, text=True).stdout
    assert found.startswith(str(tmp_path))
    assert found.strip().endswith(".so")
    tests = ["tests/unit/delivery", "tests/properties/test_gate.py"]
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *tests]
    assert subprocess.run(command, cwd=ROOT, env=env, check=False).returncode == 0
