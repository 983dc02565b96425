"""What all tests share: a folder is a marker, and Hypothesis prints what it takes to see a failure again."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

HERE = Path(__file__).parent
MARKED_FOLDERS = ("spark", "soak")

# No deadline, and nothing is too slow: the machines that run this are shared and noisy.
settings.register_profile("thence", deadline=None, print_blob=True, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("thence")


os.environ["THENCE_ARCHIVE"] = "use"  # no test leaves a process behind that makes one


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        folder = item.path.relative_to(HERE).parts[0]
        if folder in MARKED_FOLDERS:
            item.add_marker(folder)
