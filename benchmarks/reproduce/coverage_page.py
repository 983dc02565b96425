"""Write docs/reference/coverage.md: a row for each algorithm, variant, theorem, table and figure of the papers.

    python benchmarks/reproduce/coverage_page.py            write the page
    python benchmarks/reproduce/coverage_page.py --check    say whether it is current (exit code 1 if not)

*Invariant.*
The rows stand in coverage.txt. A file or a test that a row names must be there; the verdict of a claim is that of
results/default. What is missing says so.
"""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

from prose import claims

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "reference/coverage.md"
TITLES = {
    "ks98": "KS98: the least information for causal order",
    "ci-dc": "An efficient causal order algorithm (ci-dc)",
    "separators": "Causal separators and topological timestamping",
    "genuine": "Genuine fifo and causal multicast",
    "bounded": "Causal ordering with bounded timestamps",
}
NUMBERED: dict[str, dict[str, str]] = {
    "ks98": {"definition": "1 to 7", "theorem": "1 to 8", "lemma": "1 to 8", "corollary": "1, 2", "figure": "1, 2",
             "table": "1"},
    "ci-dc": {"definition": "1, 2", "theorem": "1, 2", "figure": "1 to 3"},
    "separators": {"definition": "1 to 4", "assumption": "1", "theorem": "1 to 4, 8", "lemma": "1 to 12",
                   "figure": "3.1, 4.1, 5.1, 5.2, 7.1 to 7.7", "table": "7.1"},
    "genuine": {"definition": "A.1, A.2", "lemma": "A.1 to A.6", "proposition": "6.1, A.1 to A.8", "figure": "1, 2",
                "table": "1"},
    "bounded": {"definition": "1.1 to 1.4", "theorem": "2.1, 3.1, 3.2, 3.6, 3.8", "proposition": "2.2",
                "lemma": "3.3 to 3.5, 3.7, 4.1", "protocol": "1 to 4", "figure": "1, 2"},
}  # fmt: skip
"""everything that the texts of the papers number"""
SAID = ("not done", "nothing to run")
"""how evidence begins that is no test and no claim"""
PLURALS = {"corollaries": "corollary"}
LISTED = r"(?:[A-Z]\.)?\d+(?:\.\d+)?"
INTRO = """# What of the five papers runs here

A row, or a part of one, for each algorithm, variant, definition, theorem, lemma, table and figure of the papers: where
it lives, and what shows it. Claims are those of
[`thence reproduce`](../laboratory/reproduce.md), with their verdicts at the default scale;
tests name the file, and the test where one stands for it. Modules are those of `src/thence`, tests those of `tests`.
Refuted parts have an execution in [errata.md](../explanation/errata.md). The page is made by `python
benchmarks/reproduce/coverage_page.py`; `tests/unit/papers/test_coverage.py` fails when it is not current, when a row
names what is not there, and when something that a paper numbers, or a claim, has no row.
"""


def rows() -> list[tuple[str, str, str, str]]:
    """Return paper, part, place and evidence of each row."""
    lines = (Path(__file__).parent / "coverage.txt").read_text(encoding="utf-8").splitlines()
    found = [tuple(part.strip() for part in line.split(" | ")) for line in lines if line and not line.startswith("#")]
    return [(paper, part, where, evidence) for paper, part, where, evidence in found]


def numbers(listed: str) -> list[str]:
    """Return what a list such as `1 to 4, 8` or `A.1, A.2` names."""
    found: list[str] = []
    for first, last in re.findall(rf"({LISTED})(?: to ({LISTED}))?", listed):
        head, end = first.rpartition(".")[0], int((last or first).rpartition(".")[2])
        found += [f"{head}{'.' * bool(head)}{n}" for n in range(int(first.rpartition(".")[2]), end + 1)]
    return found


def named(part: str) -> set[tuple[str, str]]:
    """Return the numbered parts that a row speaks of, by kind and number."""
    kinds = "|".join({kind for of in NUMBERED.values() for kind in of} | set(PLURALS))
    pattern = rf"\b({kinds})s? ({LISTED}(?:(?:, (?:and )?| and | to ){LISTED})*)"
    return {
        (PLURALS.get(kind.lower(), kind.lower()), number)
        for kind, listed in re.findall(pattern, part, re.IGNORECASE)
        for number in numbers(listed)
    }


def numbered(paper: str) -> set[tuple[str, str]]:
    """Return everything that a paper numbers."""
    return {(kind, number) for kind, listed in NUMBERED[paper].items() for number in numbers(listed)}


def missing(where: str, evidence: str) -> list[str]:
    """Return what a row names that is not there."""
    wrong = [where] if where != "-" and not (ROOT / where).exists() else []
    for each in [] if evidence.startswith(SAID) else evidence.split(", "):
        file, _, name = each.partition("::")
        if each.startswith("claim:"):
            paper, _, claim = each.removeprefix("claim:").partition("/")
            wrong += [] if claim in claims().get(paper, {}) else [each]
        elif not (ROOT / file).exists() or f"def {name}{'(' * bool(name)}" not in (ROOT / file).read_text("utf-8"):
            wrong.append(each)
    return wrong


def _shown(evidence: str) -> str:
    if evidence.startswith(SAID):
        return f"**{evidence}**" if evidence.startswith("not done") else evidence
    parts = []
    for each in evidence.split(", "):
        if each.startswith("claim:"):
            paper, _, claim = each.removeprefix("claim:").partition("/")
            parts.append(f"{claim}: {claims()[paper][claim]['verdict']}")
        else:
            parts.append(_link(each))
    return "; ".join(parts)


def _link(place: str) -> str:
    """Return a link to a file of the repository; a test in it is named, too. What all have in common is left out."""
    text = place.removeprefix("src/thence/").removeprefix("tests/").removeprefix("docs/")
    target = place.partition("::")[0]
    return f"[`{text}`]({os.path.relpath(ROOT / target, PAGE.parent)})"


def page() -> str:
    """Return the page."""
    text, given = INTRO, rows()
    for paper, title in TITLES.items():
        lines = [
            f"| {part} | {'' if where == '-' else _link(where)} | {_shown(evidence)} |"
            for of, part, where, evidence in given
            if of == paper
        ]
        text += f"\n## {title}\n\n| part | where | evidence |\n|---|---|---|\n" + "\n".join(lines) + "\n"
    return text


if __name__ == "__main__":
    if "--check" in sys.argv:
        sys.exit("docs/reference/coverage.md is not current" if PAGE.read_text(encoding="utf-8") != page() else 0)
    PAGE.write_text(page(), encoding="utf-8")
