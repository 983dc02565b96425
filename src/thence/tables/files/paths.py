"""The one way from names to files: a name, a folder, a glob or a `file://` URI stands for some files.

Invariant: a name that exists is that file or folder, whatever characters it has; only a name that does not exist is
read as a glob. A folder stands for every file below it, through symbolic links too; names that begin with `.` or `_`
are left out, as Spark does. A folder of Delta or Iceberg is one table and stands for itself. A link that leads back to
a folder it stands in is refused by name. Each file comes once, and the files are sorted by their names, whatever order
they were asked for in. Relative names mean the folder that the caller is in.
"""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

from thence.errors import MisuseError, TraceError
from thence.tables.files.lakehouse import TABLE_KINDS, lakehouse_format

Paths = str | Path | Iterable[str | Path]
"""What a caller may name files by."""
_URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/")


class File(NamedTuple):
    """A file, and whether it was named itself; else a folder or a glob stands for it."""

    path: Path
    named: bool


def find_files(paths: Paths) -> list[File]:
    """Return the files behind names, folders, globs and `file://` URIs, sorted by name."""
    found: dict[Path, bool] = {}
    for given in [paths] if isinstance(paths, str | Path) else paths:
        for file in _behind(given):
            found[file.path] = found.get(file.path, False) or file.named
    if not found:
        raise MisuseError("no file was named; files, folders or globs are accepted")
    return [File(path, found[path]) for path in sorted(found)]


def _behind(given: str | Path) -> list[File]:
    path = _local(given)
    if path.is_dir() and lakehouse_format(path):
        return [File(path, True)]
    if path.is_dir():
        files = [File(each, False) for each in _below(path, [path.resolve()])]
        if not files:
            raise MisuseError(f"{given} holds no files")
        return files
    if path.is_file():
        return [File(path, True)]
    if path.exists():
        raise MisuseError(
            f"{given} is neither a file nor a folder, and can be read only once; write it to a file first"
        )
    if path.is_symlink():
        raise TraceError(f"{given} is a link to {os.readlink(path)}, which does not exist")
    files = [
        File(each, False) for name in sorted(glob.glob(str(path), recursive=True)) for each in _matched(Path(name))
    ]
    if not files and str(given) == "-":
        raise MisuseError("- would be standard input, which can be read only once; write it to a file first")
    if not files:
        raise MisuseError(f"{given} does not exist: a file, a folder or a glob that matches one is accepted")
    return files


def _matched(path: Path) -> Iterator[Path]:
    """Yield the files of one match of a glob."""
    if path.is_dir() and lakehouse_format(path):
        yield path
    elif path.is_dir():
        yield from _below(path, [path.resolve()])
    elif path.is_file():
        yield path


def _local(given: str | Path) -> Path:
    """Return a name or a `file://` URI as a path; other URIs are for Spark's own readers."""
    if isinstance(given, Path) or not _URI.match(given) or Path(given).exists():
        return Path(given)
    uri = urlsplit(given)
    if uri.scheme.lower() != "file" or uri.netloc not in ("", "localhost"):
        raise MisuseError(
            f"{given} is not on this machine; read it with Spark, spark.read.parquet({given!r}) or spark.read.json, "
            "and hand the DataFrame to thence.spark"
        )
    return Path(unquote(given.partition(":")[2].removeprefix("//localhost").removeprefix("//")))


def _below(folder: Path, above: list[Path]) -> Iterator[Path]:
    """Yield the files below a folder; `above` are the real folders that lead to it."""
    for path in sorted(folder.iterdir()):
        if path.name.startswith((".", "_")):
            continue
        if path.is_dir():
            real = path.resolve()
            if real in above:
                raise TraceError(f"{path} is a link back to {real}, a folder it stands in; name what is to be read")
            if kind := lakehouse_format(path):
                raise MisuseError(f"{path} is {TABLE_KINDS[kind]}, one of several things in {folder}; name it itself")
            yield from _below(path, [*above, real])
        elif path.is_file():
            yield path
        elif path.is_symlink():
            raise TraceError(f"{path} is a link to {os.readlink(path)}, which does not exist")
