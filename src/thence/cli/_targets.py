"""Where a verb is to write, looked at before its work begins.

Invariant: an option whose metavar is FILE or DIR names a target, and `check_targets` refuses one that cannot be written
before the verb is called: no work is done for a result that has no place. Nothing is made or changed by looking.
`-` and names of other machines (`s3://...`) are left to the verb.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Mapping
from pathlib import Path

from typer.models import OptionInfo

from thence.errors import MisuseError

FILE, DIR = "FILE", "DIR"


def check_targets(parameters: Mapping[str, inspect.Parameter], given: Mapping[str, object]) -> None:
    """Refuse what cannot be written of the options that a verb was given, and two that name one file."""
    taken: dict[Path, str] = {}
    for name, parameter in parameters.items():
        option = declared(parameter)
        value = given.get(name, parameter.default)
        if option is not None and option.metavar in (FILE, DIR) and isinstance(value, str | Path):
            check_target(spelled(name, option), value, folder=option.metavar == DIR)
            if option.metavar == FILE:
                _check_alone(spelled(name, option), value, taken)


def _check_alone(option: str, given: str | Path, taken: dict[Path, str]) -> None:
    path = Path(given).resolve()
    if str(given) == "-" or (path.exists() and not path.is_file()):
        return
    if (other := taken.setdefault(path, option)) != option:
        raise MisuseError(f"{other} and {option} both name {given}; a file for each is accepted")


def declared(parameter: inspect.Parameter) -> OptionInfo | None:
    """Return the declaration of an option for typer; None if the parameter is an argument."""
    declarations = getattr(parameter.annotation, "__metadata__", ())
    return next((each for each in declarations if isinstance(each, OptionInfo)), None)


def spelled(name: str, option: OptionInfo) -> str:
    """Return an option as people type it."""
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
    """Return the path itself, or what is there of it: the innermost folder above it that exists."""
    return next(each for each in (path, *path.absolute().parents) if each.exists())
