"""The page put together: the frame, the style sheet, the modules and the data, in one file.

*Invariant.* Nothing is fetched: the policy in the page allows this one script and this one style sheet, by their
hashes, and nothing else. The modules stand in the page as they stand in the package, one after the other in an order
in which each comes after those it imports; only the words `import` and `export` fall away, since they are one module
then. Whatever is put into the frame is escaped, and no data can end its element.
"""

from __future__ import annotations

import json
import re
from base64 import b64encode
from collections.abc import Sequence
from functools import cache
from hashlib import sha256
from html import escape
from importlib.resources import files
from typing import cast

from thence import __version__
from thence.show.spacetime.encode import LONG_TEXT, JsonObject, encoded, legible
from thence.tables.explain.scene import Scene

MODULES = (
    "data.js", "causes.js", "log.js", "spans.js", "axis.js", "lanes.js", "search.js", "view.js", "paint.js",
    "minimap.js", "play.js", "lists.js", "main.js",
)  # fmt: skip
FIRST_LISTED = 500
"""Findings that stand in the page as HTML from the start; the rest are added when asked for."""

VERDICT_TITLES = {"violated": "Not causal", "fails": "Fails", "unknown": "Unknown", "causal": "Causal"}
"""Verdicts as a heading says them, the worst first."""

_IMPORT = re.compile(r'^import \{[^}]*\} from "\./\w+\.js";\n', re.MULTILINE)
_EXPORT = re.compile(r"^export (?=(?:async )?(?:function|class|const|let)\b)", re.MULTILINE)


def source(name: str) -> str:
    """Return the text of a file in this folder."""
    return (files("thence.show.spacetime") / name).read_text(encoding="utf-8")


@cache
def script() -> str:
    """Return all modules as one."""
    return "\n".join(_EXPORT.sub("", _IMPORT.sub("", source(name))) for name in MODULES)


def spacetime_page(
    scenes: Sequence[Scene],
    *,
    title: str = "thence",
    lead: str = "",
    notes: Sequence[str] = (),
    start: str = "",
    violations: int | None = None,
) -> str:
    """Return the page of some scenes.

    `lead` is a sentence under the title, `notes` list what the page leaves out, and `start` is what it shows at
    first, written like the fragment of its address: `finding=1`. `violations`: how many the whole trace has, if the
    scenes do not hold all of them.
    """
    data = encoded(scenes) | {"start": start}
    runs = cast(list[JsonObject], data["runs"])
    found = [(run, each) for run in runs for each in cast(list[JsonObject], run["findings"])]
    found.sort(key=lambda pair: pair[1]["what"] != "violation")  # numbered as an audit numbers them
    remarks = [*notes, *(str(note) for run in runs for note in cast(list[str], run["notes"]))]
    style, program = source("style.css"), script()
    parts = {
        "policy": _policy(program, style),
        "title": escape(legible(title)),
        "lead": escape(legible(lead, LONG_TEXT)),
        "verdict": escape(_verdict(runs, [each for _, each in found], violations)),
        "runs": _runs(runs),
        "notes": "".join(f'<p class="note">{escape(legible(note, LONG_TEXT))}</p>' for note in remarks),
        "findings": "\n".join(
            _item(number, run, each, len(runs)) for number, (run, each) in enumerate(found[:FIRST_LISTED])
        ),
        "more": f'<button type="button" id="more">Show more of {len(found)}</button>'
        if len(found) > FIRST_LISTED
        else "",
        "foot": escape(f"thence {__version__}. One file, no network: it can be kept, sent and opened from disk."),
        "style": style,
        "script": program,
        "data": json.dumps(data, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c"),
    }
    return re.sub(r"\{\{(\w+)\}\}", lambda met: parts[met[1]], source("page.html"))


def _policy(program: str, style: str) -> str:
    allowed = {"script-src": program, "style-src": style}
    hashes = (f"{name} 'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'" for name, text in allowed.items())
    return "; ".join(["default-src 'none'", *hashes, "base-uri 'none'", "form-action 'none'"])


def _verdict(runs: Sequence[JsonObject], found: Sequence[JsonObject], total: int | None) -> str:
    verdicts = {str(run["verdict"]) for run in runs if run["verdict"]}
    worst = next((each for each in VERDICT_TITLES if each in verdicts), None)
    here = sum(each["what"] == "violation" for each in found)
    violations, other = max(here, total or 0), len(found) - here
    counts = [_counted(violations, "violation")] if violations else []
    counts += [_counted(other, "other finding" if violations else "finding")] if other else []
    count = ", ".join(counts) or "no findings"
    return count if worst is None else f"{VERDICT_TITLES[worst]}: {count}"


def _counted(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def _runs(runs: Sequence[JsonObject]) -> str:
    if len(runs) < 2:
        return ""
    boxes = "".join(
        f'<li><label><input type="checkbox" value="{number}"> {escape(str(run["name"]))}'
        f"{escape(': ' + str(run['verdict'])) if run['verdict'] else ''}</label></li>"
        for number, run in enumerate(runs)
    )
    return f'<ul id="runs" class="plain" aria-label="Runs">{boxes}</ul>'


def _item(number: int, run: JsonObject, found: JsonObject, runs: int) -> str:
    shown = found["number"] or number + 1
    where = f"<i>{escape(str(run['name']))}</i> " if runs > 1 else ""
    names = [f"<b>{escape(name)}</b>" for name in cast(list[str], found.get("short", []))]
    text = "{} before {} at {}".format(*names) if names else escape(str(found["text"]))
    return (
        f'<li class="{found["what"]}"><button type="button" data-finding="{number}">'
        f'<span class="number">{shown}</span> {where}{text}</button></li>'
    )
