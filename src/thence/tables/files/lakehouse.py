"""Folders of Delta Lake and Apache Iceberg: recognised by their metadata, read by deltalake and pyiceberg.

*Invariant.* The files of such a folder are never read as bare Parquet: which of them belong to the table, only its
metadata says. The version that is read is the newest that the folder names. A catalog may know of another.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from thence.errors import MisuseError, TraceError
from thence.tables.files.source import first_line

if TYPE_CHECKING:
    import pyarrow as pa

Lakehouse = Literal["delta", "iceberg"]
TABLE_KINDS: dict[Lakehouse, str] = {"delta": "a Delta table", "iceberg": "an Iceberg table"}
_PACKAGES: dict[Lakehouse, str] = {"delta": "deltalake", "iceberg": "pyiceberg"}
_VERSION = re.compile(r"v?(\d+)")


def lakehouse_format(folder: Path) -> Lakehouse | None:
    """Return which table a folder is, if it is one."""
    if (folder / "_delta_log").is_dir():
        return "delta"
    if (folder / "metadata").is_dir() and next((folder / "metadata").glob("*.metadata.json"), None):
        return "iceberg"
    return None


def read_lakehouse(folder: Path, kind: Lakehouse) -> pa.Table:
    """Return the rows of a table, as its newest version has them."""
    try:
        return _delta(folder) if kind == "delta" else _iceberg(folder)
    except ImportError:
        raise MisuseError(
            f"{folder} is {TABLE_KINDS[kind]}, which {_PACKAGES[kind]} reads: pip install 'thence[{kind}]'"
        ) from None
    except Exception as error:  # each library raises many types of its own
        raise TraceError(f"{folder} cannot be read as {TABLE_KINDS[kind]}: {first_line(error)}") from error


def _delta(folder: Path) -> pa.Table:
    from deltalake import DeltaTable

    return DeltaTable(folder).to_pyarrow_table()


def _iceberg(folder: Path) -> pa.Table:
    from pyiceberg.table import StaticTable

    return StaticTable.from_metadata(str(_newest(folder / "metadata").absolute())).scan().to_arrow()


def _newest(metadata: Path) -> Path:
    """Return the file that describes the newest version: the one that is hinted at, else the highest number."""
    hint = metadata / "version-hint.text"
    if hint.is_file():
        name = hint.read_text().strip()
        for found in (metadata / f"v{name}.metadata.json", metadata / f"{name}.metadata.json", metadata / name):
            if found.is_file():
                return found
    return max(metadata.glob("*.metadata.json"), key=_numbered)


def _numbered(file: Path) -> tuple[int, str]:
    found = _VERSION.match(file.name)
    return int(found[1]) if found else -1, file.name
