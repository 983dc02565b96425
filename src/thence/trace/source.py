"""Where rows come from: files by name, folder or glob, plain or gzipped; and a record of what is unusable.

Law. Nothing vanishes: what a reader cannot use becomes a `Quarantined` record that says where it was and why.
"""

from __future__ import annotations

import glob
import gzip
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Any, cast

from thence.errors import MisuseError

TEXT_LIMIT = 200
LINE_LIMIT = 1 << 26
"""Bytes of one line that are held at once; a longer line is refused, whatever it says."""

BROKEN = (OSError, EOFError, zlib.error)
"""What reading a damaged file can raise."""


@dataclass(frozen=True, slots=True)
class Quarantined:
    """What could not be used. `line` counts from 1 (the row, in Parquet); null means the file as a whole."""

    file: str
    line: int | None
    reason: str
    text: str | None = None

    def row(self) -> dict[str, Any]:
        """Return it as `audit --json` writes it."""
        return asdict(self)

    def __str__(self) -> str:
        place = self.file if self.line is None else f"{self.file}:{self.line}"
        return f"{place}: {self.reason}"


def excerpt(raw: bytes | str) -> str:
    """Return the beginning of what was found, printable and short."""
    text = raw if isinstance(raw, str) else raw[: 4 * TEXT_LIMIT].decode("utf-8", "backslashreplace")
    text = text.rstrip("\r\n")
    return text if len(text) <= TEXT_LIMIT else text[: TEXT_LIMIT - 3] + "..."


def expand(paths: str | Path | Iterable[str | Path]) -> list[Path]:
    """Return the files behind names, folders and globs, in order.

    A folder stands for every file below it, names that begin with `.` or `_` left out.
    """
    found: dict[Path, None] = {}
    for given in [paths] if isinstance(paths, str | Path) else paths:
        path = Path(given)
        if path.exists():
            here = [path]
        else:
            here = [Path(name) for name in sorted(glob.glob(str(given), recursive=True))]
        files = [file for each in here for file in (_below(each) if each.is_dir() else [each])]
        if not files:
            what = "holds no files" if path.is_dir() else "is no file, folder or glob that matches one"
            raise MisuseError(f"{given} {what}")
        found.update(dict.fromkeys(files))
    return list(found)


def _below(folder: Path) -> Iterator[Path]:
    for path in sorted(folder.rglob("*")):
        inside = path.relative_to(folder).parts
        if path.is_file() and not any(part.startswith((".", "_")) for part in inside):
            yield path


def open_bytes(path: Path) -> IO[bytes]:
    """Open a file for reading bytes; a name that ends in .gz is unpacked."""
    return cast(IO[bytes], gzip.open(path, "rb")) if path.suffix == ".gz" else path.open("rb")


def create(path: Path) -> IO[bytes]:
    """Open a file for writing bytes; .gz is packed without name and time, so equal content is equal bytes."""
    if path.suffix != ".gz":
        return path.open("wb")
    return cast(IO[bytes], _PackedFile(path))


class _PackedFile(gzip.GzipFile):
    """A gzip file that also closes what it writes to."""

    def __init__(self, path: Path) -> None:
        self._under = path.open("wb")
        super().__init__(filename="", mode="wb", fileobj=self._under, mtime=0)

    def close(self) -> None:
        """Finish the stream, then the file below it."""
        try:
            super().close()
        finally:
            self._under.close()


def lines(stream: IO[bytes]) -> Iterator[tuple[int, bytes, bool]]:
    """Yield (line number, bytes, whole) of each line; `whole` is false where a line is longer than the limit.

    A byte-order mark before the first line is passed over. Errors of a damaged stream are for the caller.
    """
    number = 0
    while raw := stream.readline(LINE_LIMIT):
        number += 1
        whole = raw.endswith(b"\n") or len(raw) < LINE_LIMIT
        if number == 1:
            raw = raw.removeprefix(b"\xef\xbb\xbf")
        if not whole:
            while (rest := stream.readline(LINE_LIMIT)) and not rest.endswith(b"\n"):
                pass
        yield number, raw, whole
