"""The corpus: executions that once failed. Each still breaks the form it was found in, and breaks nothing in ours."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from support.corpus import FOLDER, files

from thence.check.witness import Impossible, loads
from thence.errors import MisuseError
from thence.papers.variants import VARIANTS


def test_the_corpus_is_there() -> None:
    assert len(list(FOLDER.glob("*.json"))) >= 20


@pytest.mark.parametrize("file", files(), ids=lambda file: file.stem)
def test_it_breaks_where_it_was_found_and_not_in_ours(file: Path) -> None:
    witness = loads(file.read_text(encoding="utf-8"), VARIANTS)
    problem = witness.run().problem
    assert problem is not None
    assert problem.property in witness.properties
    ours = VARIANTS[witness.setting.protocol].of
    try:
        repaired = replace(witness, setting=replace(witness.setting, protocol=ours, variant=None))
        result = repaired.run()
    except (Impossible, MisuseError):
        return  # ours refuses such a message, or holds a send back there: that execution does not exist
    assert result.problem is None, repaired.sentence()
