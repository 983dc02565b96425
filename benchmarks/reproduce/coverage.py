"""Write docs/coverage.md: a row for each algorithm, variant, theorem, table and figure of the papers.

    python benchmarks/reproduce/coverage.py            write the page
    python benchmarks/reproduce/coverage.py --check    say whether it is current (exit code 1 if not)

Law. The rows stand in coverage.txt. A file or a test that a row names must be there; the verdict of a claim is that of
results/default. What is missing says so.
"""

from __future__ import annotations

import sys
from pathlib import Path

from prose import claims

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "coverage.md"
TITLES = {
    "ks98": "KS98: the least information for causal order",
    "ci-dc": "An efficient causal order algorithm (ci-dc)",
    "separators": "Causal separators and topological time-stamping",
    "genuine": "Genuine fifo and causal multicast",
    "bounded": "Causal ordering with bounded time-stamps",
}
INTRO = """# What of the five papers runs here

One row for each algorithm, variant, theorem, table and figure: where it lives, and what shows it. Claims are those of
[`thence reproduce`](reproduce.md), with their verdicts at the default scale; tests name the file, and the test where
one stands for it. Refuted parts have an execution in [errata.md](errata.md). The page is made by
`python benchmarks/reproduce/coverage.py`; `tests/unit/papers/test_coverage.py` fails when it is not current, or when a
row names what is not there.
"""


def rows() -> list[tuple[str, str, str, str]]:
    """Return paper, part, place and evidence of each row."""
    lines = (Path(__file__).parent / "coverage.txt").read_text(encoding="utf-8").splitlines()
    found = [tuple(part.strip() for part in line.split(" | ")) for line in lines if line and not line.startswith("#")]
    return [(paper, part, where, evidence) for paper, part, where, evidence in found]


def missing(where: str, evidence: str) -> list[str]:
    """Return what a row names that is not there."""
    wrong = [where] if where != "-" and not (ROOT / where).exists() else []
    for each in [] if evidence.startswith("not done") else evidence.split(", "):
        file, _, name = each.partition("::")
        if each.startswith("claim:"):
            paper, _, claim = each.removeprefix("claim:").partition("/")
            wrong += [] if claim in claims().get(paper, {}) else [each]
        elif not (ROOT / file).exists() or f"def {name}" not in (ROOT / file).read_text(encoding="utf-8"):
            wrong.append(each)
    return wrong


def _shown(evidence: str) -> str:
    if evidence.startswith("not done"):
        return f"**{evidence}**"
    parts = []
    for each in evidence.split(", "):
        if each.startswith("claim:"):
            paper, _, claim = each.removeprefix("claim:").partition("/")
            parts.append(f"{claim}: {claims()[paper][claim]['verdict']}")
        else:
            parts.append(f"`{each.removeprefix('tests/')}`")
    return "; ".join(parts)


def page() -> str:
    """Return the page."""
    text, given = INTRO, rows()
    for paper, title in TITLES.items():
        lines = [
            f"| {part} | {'' if where == '-' else f'`{where}`'} | {_shown(evidence)} |"
            for of, part, where, evidence in given
            if of == paper
        ]
        text += f"\n## {title}\n\n| part | where | evidence |\n|---|---|---|\n" + "\n".join(lines) + "\n"
    return text


if __name__ == "__main__":
    if "--check" in sys.argv:
        sys.exit("docs/coverage.md is not current" if PAGE.read_text(encoding="utf-8") != page() else 0)
    PAGE.write_text(page(), encoding="utf-8")
