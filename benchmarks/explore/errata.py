"""Write docs/explanation/errata.md: the words stand in errata.toml, the diagrams are made by the explorer.

python benchmarks/explore/errata.py docs/explanation/errata.md
"""

from __future__ import annotations

import sys
import tomllib
from itertools import groupby
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "reproduce"))

from prose import figures, filled

from thence.core.model.events import parse
from thence.lab.explorer.coverage import Coverage
from thence.lab.explorer.directed_walk import hunt
from thence.lab.explorer.search import promised
from thence.lab.explorer.shrink import Smallest, find, shrunk
from thence.lab.explorer.witness import Witness, loads
from thence.lab.papers.variants import VARIANTS, setting_of
from thence.tables.explain.diagram import diagram
from thence.tables.explain.scene import scene_of

HERE = Path(__file__).parent
INTRO = """# Where the papers, as printed, are ambiguous or wrong

Each finding: what the text says, the smallest execution that shows what is wrong with it, our repair, and the
evidence. The diagrams are not drawn by hand: `thence explore` finds the execution in the printed form (kept
as a *variant*, never registered), shrinks it until no message, step or destination can be left out, and shows
that no execution with fewer messages fails. The line after `$` finds it again. The line above a drawing is the
execution in [our notation](../reference/glossary.md). A column is a process, time goes down, `*` marks the causal path
from the message that is missing to the one that came too early.

"Holds" means: no counterexample in all executions of the sizes named and in the random ones named. It is not
a proof. The page is made by `python benchmarks/explore/errata.py docs/explanation/errata.md`;
`tests/explorer/test_errata_found.py` finds each failure again.
"""


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


def page() -> str:
    findings = tomllib.loads((HERE / "errata.toml").read_text(encoding="utf-8"))["finding"]
    papers = groupby(findings, key=lambda finding: finding["paper"])
    return INTRO + "".join(f"\n## {paper}\n\n" + "\n".join(map(section, group)) for paper, group in papers)


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(page(), encoding="utf-8")
