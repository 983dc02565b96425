"""Files that only their owner may read: they hold payloads in the clear."""

from __future__ import annotations

import os
import stat
from pathlib import Path

MODE = 0o600


def make_private(path: Path | str) -> None:
    """Create a file that only its owner may read, or take the others' permissions from one that is there.

    A file that is there is not opened: closing it would end the locks that SQLite has on it in this process.
    """
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, MODE))
    except FileExistsError:
        mode = os.stat(path).st_mode
        if stat.S_ISREG(mode) and stat.S_IMODE(mode) & ~MODE:
            os.chmod(path, MODE)
