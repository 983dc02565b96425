"""`thence explore --step`: the user chooses each step of one execution; lines are read from standard input."""

from __future__ import annotations

import sys
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING

from thence.cli._common import console, finish, write_json
from thence.cli._console import Console
from thence.errors import MisuseError

if TYPE_CHECKING:
    from thence.lab.explorer.setting import Setting, Start, Step
    from thence.lab.explorer.stepping import Stepper

KEY_HELP = "b goes back, d draws, s FILE saves, q ends"
HELP = f"a number takes that step; {KEY_HELP}"
SHOWN_STARTS = 40


def by_hand(setting: Setting, properties: frozenset[str] | None, save: Path | None, json_file: str | None) -> None:
    """Show the possible steps and take the chosen one, until the user ends it or a property breaks."""
    from thence.lab.explorer.stepping import Stepper

    out = console(json_file)
    start = _start(setting, out)
    if start is None:
        return
    walk = Stepper(setting, properties, start)
    out.print(f"{setting.protocol}, judged: {', '.join(sorted(walk.properties))}. {HELP}")
    choices = _offer(walk, out)
    for line in sys.stdin:
        word, _, rest = line.strip().partition(" ")
        if word == "q":
            break
        try:
            _obey(walk, choices, word, rest, out)
        except MisuseError as error:
            out.print(str(error))
        if (found := walk.broken()) is not None:
            unless = "" if walk.problem is not None else ", unless a process sends"
            out.print(f"breaks {found.property}{unless}: {walk.witness().sentence()}")
        choices = _offer(walk, out)
    if save is not None and walk.steps:
        _save(walk, str(save), out)
    elif save is not None:
        out.print(f"no step was taken: {save} is not written")
    found = walk.broken()
    write_json(json_file, {**walk.witness().row(), "breaks": None if found is None else found.property})
    if found is not None:
        finish(1)


def _start(setting: Setting, out: Console) -> Start | None:
    """Let the user choose the crashing processes and the detector's output; None if the user ends it."""
    from thence.lab.explorer.stepping import starts
    from thence.lab.explorer.witness import Witness

    known = starts(setting)
    if len(known) == 1:
        return known[0]
    out.print(f"first choose the crashing processes and the failure detector's output, from 1 to {len(known)}; q ends")
    for number, start in enumerate(known[:SHOWN_STARTS], 1):
        out.print(f"{number:>3}  {Witness(setting, (), start, ()).faults()}")
    if len(known) > SHOWN_STARTS:
        out.print(f"     ... and {len(known) - SHOWN_STARTS} more")
    for line in sys.stdin:
        word = line.strip()
        if word == "q":
            return None
        if word.isdecimal() and 1 <= int(word) <= len(known):
            return known[int(word) - 1]
        out.print(f"{word!r} is not a choice; a number from 1 to {len(known)}, or q to end")
    return None


def _offer(walk: Stepper, out: Console) -> list[Step]:
    from thence.lab.explorer.stepping import in_words

    for line in walk.waiting():
        out.print(line)
    choices = walk.choices()
    for number, step in enumerate(choices, 1):
        out.print(f"{number:>3}  {in_words(step, walk.moves.roster)}")
    if walk.problem is not None:
        out.print(f"no step is possible from here; {KEY_HELP}")
    elif not choices:
        out.print("nothing more can happen, and no property is broken")
    return choices


def _obey(walk: Stepper, choices: list[Step], word: str, rest: str, out: Console) -> None:
    if word == "b":
        walk.back()
    elif word == "d":
        out.print(walk.witness().diagram(out.width))
    elif word == "s" and rest:
        _save(walk, rest, out)
    elif word.isdecimal() and 1 <= int(word) <= len(choices):
        for line in (*walk.take(choices[int(word) - 1]), *(f"     {note}" for note in walk.notes)):
            out.print(line)
    else:
        raise MisuseError(f"{word!r} is not a choice; {HELP}" if word != "s" else f"s needs a file to write; {HELP}")


def _save(walk: Stepper, file: str, out: Console) -> None:
    try:
        Path(file).write_text(walk.witness().dumps(), encoding="utf-8")
    except OSError as error:
        raise MisuseError(f"{file} cannot be written: {error.strerror}") from None
    out.print(f"replay it with: thence explore --replay {quote(file)}")
