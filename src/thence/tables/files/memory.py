"""Memory limit for work in this process."""

from __future__ import annotations

import os
from pathlib import Path

SHARE = 0.5
"""Of the free memory, what work in this process may take."""


def free_memory() -> int:
    """Return the bytes of memory that the system reports as available."""
    try:
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2
