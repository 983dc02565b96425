"""Write docs/explanation/errata.md and its pages: words from errata.toml, diagrams made by the explorer.

python benchmarks/explore/errata.py
"""

from __future__ import annotations

import re
import sys
import tomllib
from itertools import groupby
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "reproduce"))
sys.path.insert(0, str(Path(__file__).parents[2] / "tests"))

from explorer.directed_walk import hunt
from prose import figures, filled

from thence.core.model.events import parse
from thence.lab.explorer.coverage import Coverage
from thence.lab.explorer.search import promised
from thence.lab.explorer.shrink import Smallest, find, shrunk
from thence.lab.explorer.witness import Witness, loads
from thence.lab.papers.variants import VARIANTS, setting_of
from thence.tables.explain.diagram import diagram
from thence.tables.explain.scene import scene_of

HERE = Path(__file__).parent
INTRO = """# Errata: where the papers, as printed, are ambiguous or wrong

| severity | meaning |
|---|---|
| unsafe | followed to the letter, the text breaks causal order or another promise of the paper |
| claim | a theorem, bound or table does not hold as stated |
| excess | correct, but keeps or sends more than claimed |
| unclear | the text leaves something open that an implementation must decide |
| confirmed | tried because it looked doubtful; it holds |

"""
READING = """
## How to read the pages

Each finding has what the text says, the smallest execution that shows the fault, our repair, and the evidence. The
diagrams are not drawn by hand: `thence explore` finds the execution in the printed form (kept as a *variant*, never
registered), shrinks it until no message, step or destination can be left out, and shows that no execution with fewer
messages fails. The line after `$` finds it again. The line above a drawing is the execution in
[our notation](../reference/glossary.md). A column is a process, time goes down, `*` marks the causal path from the
missing message to the one that came too early.

"Holds" means: no counterexample in all executions of the sizes named and in the random ones named. It is not a proof.
`python benchmarks/explore/errata.py` writes these pages; `tests/explorer/test_errata_found.py` finds each failure
again.
"""
DOCS = HERE.parents[1] / "docs" / "explanation"
FILES = {
    "Kshemkalyani and Singhal 1998 (`ks`)": "ks98",
    "Optimal causal order with CI and DC (`ci-dc`)": "ci-dc",
    "Baselines: RST, SES, BSS, PRS": "baselines",
    "Causal separators, topological timestamping (`ech`)": "separators",
    "Schiper and Pedone 2009 (`a-fifo`, `a-causal`)": "genuine-multicast",
    "Krishnamurthy and Mukund (`epochs`, `bounded`)": "bounded",
}


OPTIONS = {"fifo": "--fifo", "to_self": "--self"}


def command(protocol: str, **size: Any) -> str:
    """Return what a reader types to explore this."""
    words = ["thence explore", *(["--variants"] if protocol in VARIANTS else []), f"--protocol {protocol}"]
    for name, value in size.items():
        if name == "options":
            words += [f"--option {key}={each}" for key, each in value.items()]
        elif name == "judge":
            words += ['--property "causal order"', f'--property "{value}"']
        else:
            words.append(OPTIONS[name] if value is True else f"--{name} {value}")
    return " ".join(words)


def explored(**typed: Any) -> tuple[Witness, str, str]:
    judged = typed.get("judge")
    options = {"properties": frozenset({"causal order", judged})} if judged else {}
    coverage, smallest = find(setting_of(**{key: value for key, value in typed.items() if key != "judge"}), **options)
    assert smallest is not None, typed
    return described(coverage, smallest, typed)


def described(coverage: Coverage, smallest: Smallest, typed: dict[str, Any]) -> tuple[Witness, str, str]:
    """Return an execution with the words and the command that belong to it."""
    fewer = "; all executions with fewer messages hold" if smallest.fewest and smallest.witness.messages() > 1 else ""
    return smallest.witness, f"`{typed['protocol']}`, found after {coverage.states} states{fewer}", command(**typed)


def hunted(protocol: str, **size: Any) -> tuple[Witness, str, None]:
    setting = setting_of(protocol, **size)
    caught = hunt(setting, seed=1, walks=20_000)
    assert caught.failure is not None, protocol
    return shrunk(caught.failure, promised(setting)), f"`{protocol}`, found in walk {caught.walks} of seed 1", None


def replayed(name: str) -> tuple[Witness, str, str]:
    where = f"benchmarks/explore/results/{name}"
    witness = loads((HERE / "results" / name).read_text(encoding="utf-8"), VARIANTS)
    return witness, f"`{witness.setting.protocol}`, replayed from {where}", f"thence explore --replay {where}"


def block(witness: Witness, how: str, typed: str | None) -> str:
    faults = f"\n{witness.faults()}" if witness.faults() else ""
    drawn = f"{witness.notation()}{faults}\n\n{witness.diagram().rstrip()}"
    again = f"$ {typed}\n\n" if typed else ""
    return f"{how}: {witness.sentence()}.\n\n```\n{again}{drawn}\n```\n"


def whole(text: str) -> str:
    """Draw every event of an execution in our notation."""
    events = parse(text)
    return diagram(scene_of(events), limit=len(events)).rstrip()


def words(text: str) -> str:
    """Return a text of errata.toml with the figures that it quotes from the results of `thence reproduce`."""
    return filled(text, figures()) if "{" in text else text


def section(finding: dict[str, Any]) -> str:
    parts = [f"### {finding['number']}. {finding['title']}\n", words(finding["text"]) + "\n"]
    parts += [block(*explored(**size)) for size in finding.get("explored", ())]
    parts += [block(*hunted(**size)) for size in finding.get("hunted", ())]
    parts += [block(*replayed(name)) for name in finding.get("replayed", ())]
    parts += [f"```\n{text}\n\n{whole(text)}\n```\n" for text in finding.get("drawn", ())]
    parts += [f"**Repair.** {words(finding['repair'])}\n"] if "repair" in finding else []
    parts += [f"**Evidence.** {words(finding['evidence'])}\n"] if "evidence" in finding else []
    return "\n".join(parts)


def findings() -> list[dict[str, Any]]:
    """Return the findings as errata.toml has them."""
    return list(tomllib.loads((HERE / "errata.toml").read_text(encoding="utf-8"))["finding"])


def index() -> str:
    """Return the table of all findings."""
    lines = ["| | paper | claim | severity | repaired |", "|---|---|---|---|---|"]
    for finding in findings():
        title = f"{finding['number']}. {finding['title']}"
        # builders of the site disagree on the anchors of other letters
        link = f"errata/{FILES[finding['paper']]}.md" + (f"#{anchor(title)}" if title.isascii() else "")
        repaired = "yes" if "repair" in finding and not finding["repair"].strip().startswith("None") else "no"
        repaired = "not needed" if finding["severity"] == "confirmed" else repaired
        lines.append(
            f"| {finding['number']} | {finding['paper'].replace('|', ' ')} | [{finding['title']}]({link}) "
            f"| {finding['severity']} | {repaired} |"
        )
    return INTRO + "\n".join(lines) + "\n" + READING


def anchor(title: str) -> str:
    """Return the anchor that the site and tools/links.py give a heading."""
    return re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")


def pages() -> dict[Path, str]:
    """Return every page and its text; the explorer searches anew."""
    papers = groupby(findings(), key=lambda finding: finding["paper"])
    made = {
        DOCS / "errata" / f"{FILES[paper]}.md": f"# Errata: {paper}\n\n" + "\n".join(map(section, group))
        for paper, group in papers
    }
    return {DOCS / "errata.md": index()} | made


if __name__ == "__main__":
    for path, text in pages().items():
        path.write_text(text, encoding="utf-8")
