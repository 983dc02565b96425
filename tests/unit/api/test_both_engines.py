"""One set of words: the functions of `thence` and of `thence.spark`, their parameters, defaults and results."""

from __future__ import annotations

import inspect
from collections.abc import Mapping

import pandas as pd
import pytest

import thence
import thence.spark
from thence.errors import MisuseError
from thence.tables.engines.local.audit import LocalAuditResult

OWN: Mapping[str, tuple[set[str], set[str]]] = {
    "audit": ({"cores", "progress"}, {"chunk_rows", "block"}),
    "cost": (set(), set()),
    "deliver": ({"data", "id", "causes"}, {"arrivals", "idle_seconds", "wait_seconds", "ttl_seconds", "give_up"}),
    "stamp": (set(), {"run"}),
}
"""Parameters that only this process may have, and those that only Spark may have."""


@pytest.mark.parametrize("name", OWN)
def test_parameters_and_defaults_are_the_same(name: str) -> None:
    here, there = (inspect.signature(getattr(each, name)).parameters for each in (thence, thence.spark))
    assert here.keys() - there.keys() <= OWN[name][0]
    assert there.keys() - here.keys() <= OWN[name][1]
    differ = {each for each in here.keys() & there.keys() if here[each].default != there[each].default}
    assert differ <= {"by"}, "only what rows say of their causes has a default of its own"


def test_results_of_audits_have_the_same_names() -> None:
    here, there = (
        {name for name in dir(each) if name[0] != "_"} for each in (LocalAuditResult, thence.spark.AuditResult)
    )
    assert here <= there
    for name in ("paths", "close", "rows"):
        assert list(inspect.signature(getattr(LocalAuditResult, name)).parameters) == list(
            inspect.signature(getattr(thence.spark.AuditResult, name)).parameters
        )


@pytest.mark.parametrize("name", ["audit", "cost", "deliver", "stamp"])
def test_a_table_of_another_kind_is_told_where_to_go(name: str) -> None:
    with pytest.raises(MisuseError, match=rf"found pandas\.DataFrame; .*: thence\.{name} takes it"):
        getattr(thence.spark, name)(pd.DataFrame({"a": [1]}))
    with pytest.raises(MisuseError, match=r"found int; .*: spark\.createDataFrame makes one"):
        getattr(thence.spark, name)(3)
