"""Files as bytes, plain or gzipped; and a record of what in them is unusable.

Law. Nothing vanishes: what a reader cannot use becomes a `Quarantined` record that says where it was and why.
Whether a file is gzipped is said by its first two bytes, not by its name.
"""

from __future__ import annotations

import gzip
import io
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, cast

from thence.core.model.escape import visible
from thence.tables.contract.columns import JUDGED_COLUMNS, names_of

TEXT_LIMIT = 200
"""Characters of an unusable line that its record shows."""
GZIP = b"\x1f\x8b"
BROKEN = (OSError, EOFError, zlib.error)
"""What reading a damaged file can raise."""


_SHOWN = [name for name in names_of(JUDGED_COLUMNS) if name != "destinations"]


@dataclass(frozen=True, slots=True)
class Quarantined:
    """What could not be used, and why.

    `line` counts from 1 (in Parquet it is the row); null means the file as a whole. `left` holds the columns that can
    be read all the same. Where `run` is not among them, it may be a row of any run of its file.
    """

    file: str
    line: int | None
    reason: str
    text: str | None = None
    left: Mapping[str, object] = field(default_factory=dict)

    @property
    def run(self) -> str | None:
        """The run that the row names, if that can be read."""
        found = self.left.get("run")
        return found if isinstance(found, str) else None

    def row(self) -> dict[str, object]:
        """Return it as `audit --json` writes it."""
        place = {"file": self.file, "line": self.line, "reason": self.reason, "text": self.text}
        return {name: self.left.get(name) for name in _SHOWN} | place

    def __str__(self) -> str:
        place = self.file if self.line is None else f"{self.file}:{self.line}"
        return f"{place}: {self.reason}"


def excerpt(raw: bytes | str) -> str:
    """Return the beginning of what was found, printable and short."""
    text = raw if isinstance(raw, str) else raw[: 4 * TEXT_LIMIT].decode("utf-8", "backslashreplace")
    text = visible(text.rstrip("\r\n")[: TEXT_LIMIT + 1])
    return text if len(text) <= TEXT_LIMIT else text[: TEXT_LIMIT - 3] + "..."


def first_line(error: BaseException) -> str:
    """Return the first line of what an error says."""
    return (str(error).splitlines() or [type(error).__name__])[0]


def is_packed(path: Path) -> bool:
    """Tell whether a file is gzipped."""
    with path.open("rb") as stream:
        return stream.read(len(GZIP)) == GZIP


def open_bytes(path: Path, content: bytes | None = None) -> io.BufferedIOBase:
    """Open a file for reading bytes, or its content if that is known; what is gzipped is unpacked."""
    plain = path.open("rb") if content is None else io.BytesIO(content)
    packed = plain.read(len(GZIP)) == GZIP
    plain.seek(0)
    return _Unpacked(plain) if packed else plain


class _Unpacked(gzip.GzipFile):
    """A gzipped file that closes what it reads from."""

    def __init__(self, under: io.BufferedIOBase) -> None:
        self._under = under
        super().__init__(fileobj=under, mode="rb")

    def close(self) -> None:
        """Close both."""
        super().close()
        self._under.close()


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
