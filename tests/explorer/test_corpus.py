"""The corpus: executions that once failed. Each still breaks the form it was found in, and breaks nothing in ours."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from explorer.corpus import files

from thence.errors import MisuseError
from thence.lab.explorer.witness import Impossible, Witness, loads
from thence.lab.papers.variants import VARIANTS

NO_SUCH_EXECUTION = {
    "line20": "an OK that is sent at once there is sent later, or not at all",
    "overlap": "a2 is held back",
    "a-causal-printed": "a2 is held back",
    "a-causal-carry": "a2 is held back",
    "a-causal-carry-own": "a2 is held back",
    "a-fifo-modulo": "senders that are not addressed get no OKs",
    "a-fifo-theta": "the detector is accurate in each group",
    "bss-multicast": "multicasts are refused",
    "pc-broadcast-eager": "nothing is sent over a link that is not safe",
    "pc-broadcast-direct": "no ping goes over a link that is not safe",
    "pc-broadcast-no-buffer": "a1 goes over the new link before a2",
    "pc-broadcast-late-buffer": "a1 goes over the new link before a2",
}
"""where ours refuses a step, so that the execution does not exist there, and why"""
NO_REPAIR = {"channel-clocks": "whatever bounds epochs can be left waiting (errata 23, 30)"}
"""where ours breaks the same"""


def read(file: Path) -> Witness:
    return loads(file.read_text(encoding="utf-8"), VARIANTS)


def test_every_form_that_fails_is_in_the_corpus() -> None:
    assert {read(file).setting.protocol for file in files()} == set(VARIANTS)


@pytest.mark.parametrize("file", files(), ids=lambda file: file.stem)
def test_it_breaks_where_it_was_found_and_not_in_ours(file: Path) -> None:
    witness = read(file)
    problem = witness.run().problem
    assert problem is not None
    assert problem.property in witness.properties
    ours = VARIANTS[witness.setting.protocol].of
    try:
        result = replace(witness, setting=replace(witness.setting, protocol=ours, variant=None)).run()
    except (Impossible, MisuseError):
        assert file.stem in NO_SUCH_EXECUTION
        return
    assert file.stem not in NO_SUCH_EXECUTION
    assert (result.problem is not None) == (file.stem in NO_REPAIR)
