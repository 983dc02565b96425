"""Writes docs/reference/commands and docs/reference/tables.md from the code.

python tools/reference_pages.py            write the pages
python tools/reference_pages.py --check    exit code 1 if a page is not what the code says
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Iterable
from dataclasses import fields
from pathlib import Path

import click
from typer.main import get_command

from thence import cli, errors
from thence.live.config import Limits
from thence.tables.contract.columns import ARRIVAL_COLUMNS, CAUSE_COLUMNS, EVENT_COLUMNS
from thence.tables.delivery.outcome import KINDS, OUTPUT_COLUMNS, PLACED

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs" / "reference"
CODES = (
    (cli.OK, "success"),
    (cli.FAILED, "the data violates causal order, or a check failed"),
    (cli.MISUSE, "wrong usage or unreadable input"),
    (cli.BUG, "a bug in thence"),
    (cli.INTERRUPTED, "interrupted"),
    (cli.UNREAD, "the reader of the output has gone"),
)


PAGES = ("start", "events", "live", "laboratory")
"""The page of each group of commands, in the order of `cli.GROUPS`."""


def table(heads: tuple[str, ...], rows: Iterable[tuple[object, ...]]) -> str:
    """Return a Markdown table."""
    lines = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    lines += [f"| {' | '.join(barred(str(cell)) for cell in row)} |" for row in rows]
    return "\n".join(lines) + "\n"


def barred(cell: str) -> str:
    """Return the text of a cell with its bars escaped; Python's Markdown shows a backslash in code, so code is HTML."""
    code = re.sub(r"`([^`]*[|][^`]*)`", lambda found: f"<code>{found[1].replace('|', '&#124;')}</code>", cell)
    return code.replace("|", "\\|")


def commands() -> dict[str, str]:
    """Return the pages of commands by file name: an index, and one for each group of `thence --help`."""
    known = get_command(cli.build()).commands  # type: ignore[attr-defined]
    listed: list[tuple[str, str]] = []
    made = {}
    for (group, verbs), name in zip(cli.GROUPS.items(), PAGES, strict=True):
        parts = [f"# {group}\n\n[Exit codes and common options](index.md).\n"]
        for verb in verbs:
            command = known[verb]
            text = " ".join(inspect.cleandoc(command.help or "").split("\n\n")[0].split())
            parts.append(f"## `thence {verb}`\n\n{text}\n")
            parts.append(table(("option", "meaning"), map(option, shown(command))))
            listed.append((f"[`thence {verb}`]({name}.md#thence-{verb})", text))
        made[f"{name}.md"] = "\n".join(parts)
    index = ["# Commands\n\nEvery command takes `--json FILE`, `--quiet` and `--verbose`.\n"]
    index += [table(("command", "does"), listed), "## Exit codes\n", table(("code", "meaning"), CODES)]
    return {"index.md": "\n".join(index)} | made


def shown(command: click.Command) -> list[click.Parameter]:
    """Return the parameters that a command has of its own."""
    common = {"json_file", "quiet", "verbose", "help"}
    return [each for each in command.params if each.name not in common and not getattr(each, "hidden", False)]


def option(each: click.Parameter) -> tuple[str, str]:
    """Return the row of one parameter."""
    metavar = each.metavar or ("" if getattr(each, "is_flag", False) else (each.name or "").upper())
    if isinstance(each, click.Argument) or each.param_type_name == "argument":
        return f"`{metavar}`", getattr(each, "help", None) or ""
    names = ", ".join(f"`{name}{' ' + metavar if metavar else ''}`" for name in each.opts)
    plain = isinstance(each.default, str | int | float) and not isinstance(each.default, bool) and each.default != ""
    default = "all" if each.name == "cores" else f"`{each.default}`" if plain else ""
    meaning = (getattr(each, "help", None) or "").replace("[/]", "")
    return names, meaning + f" Default: {default}." * bool(default and "efault:" not in meaning)


def tables() -> str:
    """Return the page of columns, outcomes, limits and errors."""

    def typed(columns: Iterable[object]) -> Iterable[tuple[object, ...]]:
        for column in columns:
            name, kind, required, meaning = (getattr(column, of) for of in ("name", "type", "required", "meaning"))
            broken = (
                kind.replace(",", ",` `") if len(kind) > 30 else kind
            )  # a browser breaks no line within code in a table
            yield f"`{name}`", f"`{broken}`", "yes" if required else "", meaning

    heads = ("column", "type", "required", "meaning")
    arrivals = [*ARRIVAL_COLUMNS, *CAUSE_COLUMNS.values()]
    raised = [each for each in vars(errors).values() if inspect.isclass(each) and issubclass(each, Exception)]
    limits = [(f"`{each.name}`", f"{each.default:,}" if isinstance(each.default, int) else each.default)
              for each in fields(Limits)]  # fmt: skip
    return "\n".join(
        [
            "# Columns, outcomes, limits, errors\n\nWritten from the code by `tools/reference_pages.py`.\n",
            "## Columns of a trace\n\n[The trace](trace.md) explains them.\n",
            table(heads, typed(EVENT_COLUMNS)),
            "## Columns of arrivals\n\n[Delivery](delivery.md) explains them.\n",
            table(heads, typed(arrivals)),
            "## Columns that delivery adds\n",
            table(("column", "type"), ((f"`{name}`", f"`{kind}`") for name, kind in OUTPUT_COLUMNS.items())),
            "## Outcomes\n",
            table(("outcome", "has a position"), ((f"`{kind}`", "yes" if kind in PLACED else "") for kind in KINDS)),
            "## Limits of a live endpoint\n\n[Keys and limits](live-configuration.md) says what happens at each.\n",
            table(("limit", "default"), limits),
            "## Metrics\n\nFor Prometheus.\n",
            table(("metric", "from", "meaning"), metrics()),
            "## Errors\n\nAll are in `thence.errors`.\n",
            table(("error", "meaning"), ((f"`{each.__name__}`", first_line(each)) for each in raised)),
        ]
    )


def metrics() -> list[tuple[str, str, str]]:
    """Return the names of all metrics, as the code writes them."""
    places = {
        "live endpoints": "live/metrics.py",
        "`DeliveryListener`": "tables/engines/spark/metrics.py",
    }
    found = []
    for where, file in places.items():
        text = (ROOT / "src" / "thence" / file).read_text(encoding="utf-8")
        (prefix,) = re.findall(r'^PREFIX = "(\w+)"', text, re.MULTILINE)
        named = re.findall(r'(Counter|Gauge|Histogram)\w*\(\s*f"\{PREFIX\}(\w+)", (?:"([^"]*)")?', text)
        for kind, name, meaning in named:
            found.append((f"`{prefix}{name}{'_total' * (kind == 'Counter')}`", where, meaning))
    return found


def first_line(kind: type) -> str:
    """Return the first sentence of a docstring."""
    return (inspect.getdoc(kind) or "").partition("\n")[0]


def pages() -> dict[Path, str]:
    """Return every page with its text."""
    return {DOCS / "commands" / name: text for name, text in commands().items()} | {DOCS / "tables.md": tables()}


def main() -> int:
    """Write or check the pages."""
    stale = [path for path, text in pages().items() if not path.exists() or path.read_text(encoding="utf-8") != text]
    if "--check" in sys.argv:
        for path in stale:
            print(f"{path.relative_to(ROOT)} is not what the code says; run python tools/reference_pages.py")
        return 1 if stale else 0
    for path, text in pages().items():
        path.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
