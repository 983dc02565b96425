"""`thence explore --step`: somebody chooses each step of one execution; lines are read from standard input."""

from __future__ import annotations

import sys
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING

from thence.cli._common import finish
from thence.errors import MisuseError

if TYPE_CHECKING:
    from rich.console import Console

    from thence.check.setting import Setting, Step
    from thence.check.stepping import Stepper

HELP = "a number takes that step; b goes back, d draws, s FILE saves, q ends"


def by_hand(setting: Setting, properties: frozenset[str] | None, save: Path | None, out: Console) -> None:
    """Show what can happen, take what is chosen, until somebody ends it or a property breaks."""
    from thence.check.stepping import Stepper

    walk = Stepper(setting, properties)
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
        if walk.problem is not None:
            out.print(f"breaks {walk.problem.property}: {walk.witness().sentence()}")
        choices = _offer(walk, out)
    if save is not None and walk.steps:
        save.write_text(walk.witness().dumps(), encoding="utf-8")
    if walk.problem is not None:
        finish(1)


def _offer(walk: Stepper, out: Console) -> list[Step]:
    from thence.check.stepping import in_words

    for line in walk.waiting():
        out.print(line)
    choices = walk.choices()
    for number, step in enumerate(choices, 1):
        out.print(f"{number:>3}  {in_words(step, walk.moves.roster)}")
    return choices


def _obey(walk: Stepper, choices: list[Step], word: str, rest: str, out: Console) -> None:
    if word == "b":
        walk.back()
    elif word == "d":
        out.print(walk.witness().diagram())
    elif word == "s" and rest:
        try:
            Path(rest).write_text(walk.witness().dumps(), encoding="utf-8")
        except OSError as error:
            raise MisuseError(f"{rest} cannot be written: {error.strerror}") from None
        out.print(f"replay it with: thence explore --replay {quote(rest)}")
    elif word.isdigit() and 1 <= int(word) <= len(choices):
        walk.take(choices[int(word) - 1])
    else:
        raise MisuseError(f"{word!r} is no choice; {HELP}")
