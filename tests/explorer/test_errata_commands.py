"""The commands that docs/explanation/errata.md shows: one for each execution, and the page was made from it."""

from __future__ import annotations

import re
import shlex
import tomllib
from pathlib import Path

import pytest

from thence import cli
from thence.cli import explore
from thence.lab.explorer.setting import Setting
from thence.lab.papers.variants import setting_of

ROOT = Path(__file__).parents[2]
INDEX = (ROOT / "docs/explanation/errata.md").read_text(encoding="utf-8")
PAGES = dict.fromkeys(re.findall(r"\(errata/([a-z0-9-]+\.md)", INDEX))
PAGE = "\n".join((ROOT / "docs/explanation/errata" / name).read_text(encoding="utf-8") for name in PAGES)
SHOWN = [(found[1], found[2]) for found in re.finditer(r"^```\n\$ (thence explore .*)\n\n(.*)$", PAGE, re.MULTILINE)]
"""Each command, and the execution below it."""
FINDINGS = tomllib.loads((ROOT / "benchmarks" / "explore" / "errata.toml").read_text(encoding="utf-8"))["finding"]


class Asked(Exception):
    """Raised in place of an exploration, with what it would explore."""


def asked(command: str, monkeypatch: pytest.MonkeyPatch) -> tuple[Setting, frozenset[str] | None]:
    def stop(setting: Setting, properties: frozenset[str] | None, limit: float | None) -> None:
        raise Asked(setting, properties)

    monkeypatch.setattr(explore, "_find", stop)
    caught: list[Asked] = []
    monkeypatch.setattr(cli, "_explain", lambda error: caught.append(error) or 0)
    cli.main(shlex.split(command)[1:])
    (found,) = caught
    setting, properties = found.args
    return setting, properties


def test_each_command_explores_what_the_page_was_made_from(monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = []
    for size in (size for finding in FINDINGS for size in finding.get("explored", ())):
        judged = size.pop("judge", None)
        wanted.append((setting_of(**size), frozenset({"causal order", judged}) if judged else None))
    exploring = [command for command, _ in SHOWN if "--replay" not in command]
    assert [asked(command, monkeypatch) for command in exploring] == wanted


@pytest.mark.parametrize(("command", "notation"), [each for each in SHOWN if "--replay" in each[0]])
def test_each_execution_is_replayed(
    command: str, notation: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(ROOT)
    assert cli.main(shlex.split(command)[1:]) == 1
    assert notation in capsys.readouterr().out


def test_every_execution_has_a_command() -> None:
    replayed = [name for finding in FINDINGS for name in finding.get("replayed", ())]
    assert [command.rpartition("/")[2] for command, _ in SHOWN if "--replay" in command] == replayed


def test_the_first_command_prints_what_the_page_shows(capsys: pytest.CaptureFixture[str]) -> None:
    command, notation = SHOWN[0]
    assert cli.main(shlex.split(command)[1:]) == 1
    assert notation in capsys.readouterr().out
