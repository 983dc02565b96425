"""Checks, before a command begins, that its output files and folders can be written.

Invariant: an option whose metavar is FILE or DIR names a target, and `check_targets` rejects one that cannot be written
before the verb is called, so that no work is lost. The check creates and changes nothing.
`-` and names of other machines (`s3://...`) are left to the verb.
"""

from __future__ import annotations

import inspect
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from typer.models import OptionInfo

from thence.errors import MisuseError

if TYPE_CHECKING:
    from thence.tables.files.formats import Format

FILE, DIR = "FILE", "DIR"
READ = "the input"


def check_targets(parameters: Mapping[str, inspect.Parameter], given: Mapping[str, object]) -> None:
    """Reject output options that name a place that cannot be written, and two that name the same file."""
    taken = _files_read(parameters, given)
    for name, parameter in parameters.items():
        option = declared(parameter)
        value = given.get(name, parameter.default)
        if option is not None and option.metavar in (FILE, DIR) and isinstance(value, str | Path):
            check_target(spelled(name, option), value, folder=option.metavar == DIR)
            if option.metavar == FILE:
                _check_alone(spelled(name, option), value, taken)


def _files_read(parameters: Mapping[str, inspect.Parameter], given: Mapping[str, object]) -> dict[Path, str]:
    """Return the files that a command reads: its arguments, and those found earlier."""
    values = [given.get(name, each.default) for name, each in parameters.items() if _is_input(name, declared(each))]
    names = [name for value in values for name in (value if isinstance(value, list | tuple) else (value,))]
    return {Path(name).resolve(): READ for name in names if isinstance(name, str | Path) and os.path.isfile(name)}


def _is_input(name: str, option: OptionInfo | None) -> bool:
    return option is None or name == "known"


def _check_alone(option: str, given: str | Path, taken: dict[Path, str]) -> None:
    path = Path(given).resolve()
    if str(given) == "-" or (path.exists() and not path.is_file()):
        return
    if taken.get(path) == READ:
        raise MisuseError(f"{option} {given} is read and cannot be written at once; name another file")
    if (other := taken.setdefault(path, option)) != option:
        raise MisuseError(f"{other} and {option} both name {given}; a file for each is accepted")


def declared(parameter: inspect.Parameter) -> OptionInfo | None:
    """Return the declaration of an option for typer; None if the parameter is an argument."""
    declarations = getattr(parameter.annotation, "__metadata__", ())
    return next((each for each in declarations if isinstance(each, OptionInfo)), None)


def spelled(name: str, option: OptionInfo) -> str:
    """Return an option as users type it."""
    spellings = (
        option.default,
        *(option.param_decls or ()),
    )  # typer tells names from a default when it builds the command
    named = [each for each in spellings if isinstance(each, str) and each.startswith("--")]
    return named[0] if named else f"--{name.replace('_', '-')}"


def check_target(option: str, given: str | Path, *, folder: bool) -> None:
    """Refuse a file, or a folder, that cannot be written, in the name of an option."""
    if str(given) == "-" or "://" in str(given):
        return
    path = Path(given)
    if path.is_dir() and not folder:
        raise MisuseError(f"{option} {given} is a folder; the name of a file is accepted")
    if path.exists() and not path.is_dir() and folder:
        raise MisuseError(f"{option} {given} is a file; the name of a folder is accepted")
    if not folder and not path.parent.is_dir():
        what = "is not a folder" if path.parent.exists() else "does not exist"
        raise MisuseError(f"{option} {given}: {path.parent} {what}; make it first, or name another place")
    near = _nearest(path)
    if near != path and not near.is_dir():
        raise MisuseError(f"{option} {given}: {near} is not a folder; name another place")
    if not os.access(near, os.W_OK | (os.X_OK if near.is_dir() else 0)):
        raise MisuseError(f"{option} {given}: you may not write to {near}; name another place")


def _nearest(path: Path) -> Path:
    """Return the path, or the innermost existing folder above it."""
    return next(each for each in (path, *path.absolute().parents) if each.exists())


# -- rows of a delivery ------------------------------------------------------------------------------------------------


def check_out(out: Path, *, stream: bool, overwrite: bool) -> Format | None:
    """Reject a path that cannot be written, create its folder, and return the file's format, None for a folder."""
    from thence.tables.files.write_table import output_format

    kind = None if out.is_dir() else output_format(out)
    check_target("--out", out, folder=kind is None)
    if stream and (kind is not None or overwrite):
        what = f"--out {out} names a file" if kind is not None else "--overwrite is for batches"
        raise MisuseError(f"{what}; a stream writes a folder of Parquet")
    if kind is not None and str(out) != "-" and out.exists() and not overwrite:
        raise MisuseError(f"{out} exists; name another file, or say --overwrite")
    if stream or kind is not None or not out.exists():
        return kind
    held = sorted(out.iterdir())
    if held and not overwrite:
        raise MisuseError(f"{out} is not empty; name a new folder, or say --overwrite")
    strange = [each.name for each in held if each.is_dir() or not _WRITTEN.fullmatch(each.name)]
    if strange:  # --overwrite on a mistyped folder must not delete other files
        raise MisuseError(f"{out} holds {strange[0]}, which no delivery has written; --overwrite replaces deliveries")
    return None


_WRITTEN = re.compile(r"(\.?part-.*\.parquet(\.crc)?|\.?_SUCCESS(\.crc)?)")
"""The files of a delivery in a folder."""


def refuse_own_input(files: list[Path], out: Path) -> None:
    """Reject an output that is also an input."""
    target = out.resolve()
    for file in files:
        if target in (file.resolve(), *file.resolve().parents) and out.exists():
            raise MisuseError(f"--out {out} holds {file}, which is read; name another place")
