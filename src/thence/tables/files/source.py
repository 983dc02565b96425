"""Files as bytes, plain or packed by gzip or zstandard; and a record of what in them is unusable.

Invariant: nothing vanishes: what a reader cannot use becomes a `Quarantined` record that says where it was and why.
Whether a file is packed is said by its first bytes, not by its name.
"""

from __future__ import annotations

import gzip
import io
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, cast

from thence.core.model.escape import visible
from thence.errors import MisuseError
from thence.tables.contract.columns import JUDGED_COLUMNS, names_of

TEXT_LIMIT = 200
"""Characters of an unusable line that its record shows."""
GZIP = b"\x1f\x8b"
ZSTD = b"\x28\xb5\x2f\xfd"
PACKED = (".gz", ".zst")
"""How the names of packed files end."""
BROKEN = (OSError, EOFError, zlib.error)
"""What reading a damaged file can raise."""


_SHOWN = [name for name in names_of(JUDGED_COLUMNS) if name != "destinations"]


@dataclass(frozen=True, slots=True)
class Quarantined:
    """An unusable row or file, and the reason.

    `line` counts from 1 (in Parquet it is the row); null means the file as a whole. `left` holds the columns that can
    still be read. Where `run` is not among them, it may be a row of any run of its file.
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
    """Return the first line of an error's text, without its full stop."""
    return (str(error).splitlines() or [type(error).__name__])[0].removesuffix(".")


def is_packed(path: Path) -> bool:
    """Return whether a file is packed by gzip or zstandard."""
    return packed_by(path) is not None


def packed_by(path: Path) -> str | None:
    """Return the file name suffix for a file's compression; None if it is not packed."""
    with path.open("rb") as stream:
        begins = stream.read(len(ZSTD))
    return ".gz" if begins.startswith(GZIP) else ".zst" if begins == ZSTD else None


def open_bytes(path: Path, content: bytes | None = None) -> io.BufferedIOBase:
    """Open a file for reading bytes, or its content if that is known; what is packed is unpacked."""
    plain = path.open("rb") if content is None else io.BytesIO(content)
    begins = plain.read(len(ZSTD))
    plain.seek(0)
    if begins == ZSTD:
        plain.close()
        return io.BufferedReader(_Zstandard(path, content))
    return _Unpacked(plain) if begins.startswith(GZIP) else plain


class _Zstandard(io.RawIOBase):
    """A file packed by zstandard, unpacked by pyarrow: Python has that itself only since 3.14."""

    def __init__(self, path: Path, content: bytes | None) -> None:
        try:
            import pyarrow as pa
        except ModuleNotFoundError:
            raise MisuseError(
                f"{path} is packed by zstandard, which needs pyarrow: pip install 'thence[cli]'"
            ) from None
        under = pa.OSFile(str(path)) if content is None else pa.BufferReader(content)
        self._stream = pa.CompressedInputStream(under, "zstd")

    def readable(self) -> bool:
        """Return that it can be read."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Read some bytes."""
        view = memoryview(buffer)
        data = self._stream.read(len(view))
        view[: len(data)] = data
        return len(data)

    def close(self) -> None:
        """Close the file below it too."""
        self._stream.close()
        super().close()


class _Unpacked(gzip.GzipFile):
    """A gzipped file that closes what it reads from."""

    def __init__(self, under: io.BufferedIOBase) -> None:
        self._under = under
        super().__init__(fileobj=under, mode="rb")

    def close(self) -> None:
        """Close both."""
        super().close()
        self._under.close()


def open_to_write(path: Path) -> IO[bytes]:
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
