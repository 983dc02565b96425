"""Executions that once failed, kept as files; `python -m explorer.corpus` (from the folder tests) finds and adds more.

A file is never written anew: it shows what once went wrong, and whatever changes since must still not go wrong there.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from explorer.directed_walk import hunt
from explorer.test_errata_found import FOUND

from thence.lab.explorer.search import explore, promised
from thence.lab.explorer.setting import Setting
from thence.lab.explorer.shrink import find, shrunk
from thence.lab.explorer.stepping import Stepper, in_words, starts
from thence.lab.explorer.witness import Witness
from thence.lab.papers.variants import setting_of

FOLDER = Path(__file__).parents[1] / "data" / "executions"
SHOWN = Path(__file__).parents[2] / "benchmarks" / "explore" / "results"
OPENED = {"messages": 2, "destinations": "broadcast", "fifo": True, "links": 1, "options": {"overlay": "a:b;b:c"}}
EXPLORED = [
    *((name, size) for _, name, size, _, _ in FOUND),
    ("bounded-printed", {"processes": 2, "messages": 4, "options": {"bound": 1}}),
    ("channel-clocks", {"messages": 3, "options": {"bound": 1}}),
    ("a-causal-carry", {"messages": 2, "crashes": 1}),
    ("a-fifo-modulo-all", {"processes": 2, "messages": 2, "crashes": 1}),
    *((f"pc-broadcast-{name}", OPENED) for name in ("eager", "direct", "no-buffer", "late-buffer")),
]
"""found whole, and the smallest there is"""
HUNTED = [("epochs-wrap", 10), ("epochs-null", 7)]
"""found by directed walks of seed 1, with so many messages to any on FIFO channels"""
BY_HAND: dict[str, tuple[Setting, str, str]] = {
    "channel-clocks-acked": (
        setting_of("channel-clocks-acked", 3, 7, fifo=True),
        "",
        "a sends to b; b receives a1; b sends to a; a receives b1; a sends to c; c receives a2; a sends to b; "
        "b receives a3; b sends to a; a receives b2; a sends to b; b receives a4; c sends to b; b receives c1",
    ),
    "a-fifo-lazy": (
        setting_of("a-fifo-lazy", 3, 1, groups="a|bc", crashes=1, detector="any"),
        "faulty: a",
        "c now trusts a, c; a sends to b, c; c receives a1; a crashes; b loses a1; "
        "b receives the ok of a1 from c; b now trusts b, c; c now trusts b, c",
    ),
    "a-causal-carry-own": (
        setting_of("a-causal-carry-own", 4, 3, "any", crashes=2),
        "faulty: a, b",
        "a sends to c; a sends to b; a crashes; b receives a2; b sends to c, d; b crashes; c loses a1; "
        "c loses a1 from b; c receives b1; d receives b1; d receives the ok of b1 from c; "
        "c receives the ok of b1 from d",
    ),
}
"""made step by step from the reason why: setting, who crashes, steps in words"""


def files() -> list[Path]:
    """Return the corpus: what is kept here, and the executions that docs/explanation/errata.md replays."""
    return sorted([*FOLDER.glob("*.json"), *(path for path in SHOWN.glob("*.json") if path.stem != "speed")])


def by_hand(setting: Setting, faults: str, words: str) -> Witness:
    """Take the steps, judged by all that is promised but genuineness, which a rejected design may give up openly."""
    judged = promised(setting) - {"genuine"}
    start = next(each for each in starts(setting) if Witness(setting, (), each, ()).faults().startswith(faults))
    walk = Stepper(setting, judged, start)
    for text in words.split("; "):
        walk.take(next(step for step in walk.choices() if in_words(step, walk.moves.roster) == text))
    assert walk.broken() is not None
    return walk.witness()


def modulo() -> Witness:
    """Explore numbers modulo 3; fewer messages are not tried."""
    setting = setting_of("a-fifo-modulo", 3, 3, groups="a|bc", crashes=1)
    judged = promised(setting) | {"no duplicates", "fifo order"}
    return shrunk(explore(setting, properties=judged).failures[0], judged)


def missing() -> Iterator[tuple[str, Witness]]:
    """Find what has no file yet."""
    for name, size in EXPLORED:
        if not (FOLDER / f"{name}.json").exists():
            _, smallest = find(setting_of(name, **size))
            assert smallest is not None, name
            yield name, smallest.witness
    for name, messages in HUNTED:
        if not (FOLDER / f"{name}.json").exists():
            setting = setting_of(name, 3, messages, "any", fifo=True)
            caught = hunt(setting, seed=1, walks=4000)
            assert caught.failure is not None, name
            yield name, shrunk(caught.failure, promised(setting))
    for name, (setting, faults, words) in BY_HAND.items():
        if not (FOLDER / f"{name}.json").exists():
            yield name, by_hand(setting, faults, words)
    if not (FOLDER / "a-fifo-modulo.json").exists():
        yield "a-fifo-modulo", modulo()


if __name__ == "__main__":
    for name, witness in missing():
        target = FOLDER / f"{name}.json"
        target.write_text(witness.dumps(), encoding="utf-8")
        print(f"added {target.name}")
