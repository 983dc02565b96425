"""Can the Python workers of a session run the operators? Asked before a job is started.

Invariant. Only what can be known without a job is checked: a local session whose workers run another interpreter than
this process. Spark would tell the same in fifty lines of Java. Clusters and Connect are left to `thence doctor`.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from functools import cache

from pyspark.sql import SparkSession

from thence.errors import MisuseError

NEEDED = ("pyarrow", "numpy", "pandas", "thence")
"""What the operators import in a worker."""


def check_workers(spark: SparkSession) -> None:
    """Raise `MisuseError` if the workers' Python lacks a package that the operators need."""
    context = getattr(spark, "sparkContext", None)  # Connect has none
    if context is None or not context.master.startswith("local"):
        return
    python = shutil.which(context.pythonExec)
    shipped = bool(context.getConf().get("spark.submit.pyFiles", ""))
    needed = tuple(name for name in NEEDED if not (shipped and name == "thence"))
    if python is None or python == sys.executable:
        return
    lacking = _lacking(python, needed)
    if lacking:
        raise MisuseError(
            f"the workers of this session run {python}, which has no {lacking}. Set PYSPARK_PYTHON={sys.executable} "
            "before the session starts, or activate the environment of this program first"
        )


@cache
def _lacking(python: str, needed: tuple[str, ...]) -> str:
    """Return the packages among those needed that an interpreter does not find."""
    program = "import sys, importlib.util as u; print(', '.join(n for n in sys.argv[1:] if u.find_spec(n) is None))"
    try:
        done = subprocess.run(
            [python, "-c", program, *needed], capture_output=True, text=True, timeout=60, check=False, cwd="/"
        )
    except (OSError, subprocess.TimeoutExpired):  # then Spark says what is wrong with it
        return ""
    return done.stdout.strip()
