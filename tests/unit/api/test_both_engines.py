"""One set of words: the functions of `thence` and of `thence.spark`, their parameters, defaults and results.

`tests/spark/test_both_engines.py` compares what they answer.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping

import pandas as pd
import pytest

import thence
import thence.spark
from thence.errors import MisuseError
from thence.tables.costing.report import CostReport
from thence.tables.engines.local.audit import LocalAuditResult

OWN: Mapping[str, Mapping[str, str]] = {
    "audit": {
        "cores": "a Spark session has its cores already",
        "progress": "Spark shows its own progress",
        "chunk_rows": "how much one task of Spark judges; this process decides by its memory",
        "block": "as chunk_rows",
    },
    "cost": {},
    "deliver": {
        "idle_seconds": "streams only",
        "wait_seconds": "streams only",
        "ttl_seconds": "streams only",
        "commands": "streams only",
        "shards": "streams only",
    },
    "stamp": {},
}
"""Parameters that one engine has and the other has not, each with its reason."""


@pytest.mark.parametrize("name", OWN)
def test_parameters_and_defaults_are_the_same(name: str) -> None:
    here, there = (inspect.signature(getattr(each, name)).parameters for each in (thence, thence.spark))
    assert here.keys() ^ there.keys() == OWN[name].keys()
    shared = [each for each in here if each in there]
    assert shared == [each for each in there if each in here] or name == "deliver"
    assert {each: here[each].default for each in shared} == {each: there[each].default for each in shared}
    assert {each: here[each].kind for each in shared} == {each: there[each].kind for each in shared}


def test_give_up_is_one_function_on_both_engines() -> None:
    here = inspect.signature(thence.Orderer.give_up).parameters
    there = inspect.signature(thence.spark.give_up).parameters
    shared = {"cause", "key"}
    assert {*here} - {"self"} == shared == {*there} - {"session", "checkpoint", "commands"}
    assert {name: (here[name].default, here[name].kind) for name in shared} == {
        name: (there[name].default, there[name].kind) for name in shared
    }
    with pytest.raises(MisuseError, match="a cause that will not come, a key to release, or both"):
        thence.spark.give_up(None, "checkpoint")  # type: ignore[arg-type]


def test_each_way_to_wait_takes_one_type_first() -> None:
    functions = (thence.spark.waiting, thence.spark.waiting_in_stream)
    batch, stream = (inspect.signature(each).parameters for each in functions)
    assert next(iter(batch.values())).annotation == "DataFrame"
    assert next(iter(stream.values())).annotation == "SparkSession"
    with pytest.raises(MisuseError, match=r"found object\. For a stream: waiting_in_stream"):
        thence.spark.waiting(object())  # type: ignore[arg-type]


CONFLICTS = {
    "a limit beside a Policy": {"policy": thence.Policy("release", after_rows=2), "after_rows": 1},
    "two names of the id": {"id": "a", "columns": {"message": "b"}},
    "two names of the causes": {"causes": "a", "columns": {"depends_on": "b"}},
}


@pytest.mark.parametrize("what", CONFLICTS)
def test_conflicting_options_are_refused_by_every_entry_point(what: str) -> None:
    options, rows = CONFLICTS[what], [{"message": "m", "depends_on": []}]
    takers = {
        "Orderer": lambda: thence.Orderer("depends_on", **options),  # type: ignore[arg-type]
        "Gate": lambda: thence.Gate(**options),  # type: ignore[arg-type]
        "deliver": lambda: thence.deliver(rows, **options),  # type: ignore[arg-type]
    }
    apply = [name for name in takers if options.keys() <= inspect.signature(getattr(thence, name)).parameters.keys()]
    assert len(apply) == 2  # Orderer names columns by `columns` alone; a Gate has limits and no Policy
    for name in apply:
        with pytest.raises(MisuseError, match="give"):
            takers[name]()


def public(kind: type) -> set[str]:
    """Return the public names of a class, and of the attributes that its instances are given."""
    assigned = {
        name
        for method in (kind.__init__,)
        for name in getattr(method, "__code__", method).co_names
        if hasattr(method, "__code__")
    }
    return {name for name in {*dir(kind), *getattr(kind, "__annotations__", {}), *assigned} if not name.startswith("_")}


RESULTS = {
    "audit": (LocalAuditResult, thence.spark.AuditResult, {"tagged", "of"}),
    "cost": (CostReport, thence.spark.CostResult, {"report", "quarantine", "json", "drop"}),
}
"""The results of both engines, and the names of one alone: `tagged` is the frame behind all lists, `of` makes a result
of it; `report` brings all tables here and has `json`; `quarantine` lists lines of files, which a DataFrame does not
have; `drop` is no attribute."""


@pytest.mark.parametrize("name", RESULTS)
def test_results_have_the_same_names(name: str) -> None:
    here, there, own = RESULTS[name]
    assert public(here) ^ public(there) <= own
    for each in ("__enter__", "__exit__", "close"):
        assert callable(getattr(here, each)), each
        assert callable(getattr(there, each)), each


@pytest.mark.parametrize("name", ["paths", "close", "rows", "listed", "json", "write_json"])
def test_methods_of_audits_have_the_same_parameters(name: str) -> None:
    here, there = (getattr(each, name) for each in (LocalAuditResult, thence.spark.AuditResult))
    defaults = [{p.name: p.default for p in inspect.signature(each).parameters.values()} for each in (here, there)]
    assert defaults[0] == defaults[1]


@pytest.mark.parametrize("name", ["audit", "cost", "deliver", "stamp"])
def test_a_table_of_another_kind_is_told_where_to_go(name: str) -> None:
    with pytest.raises(MisuseError, match=rf"found pandas\.DataFrame; .*: thence\.{name} takes it"):
        getattr(thence.spark, name)(pd.DataFrame({"a": [1]}))
    with pytest.raises(MisuseError, match=r"found int; .*: spark\.createDataFrame makes one"):
        getattr(thence.spark, name)(3)


@pytest.mark.parametrize("name", ["audit", "cost", "deliver", "stamp", "show"])
@pytest.mark.parametrize("wrong", [7, 1.5, object(), {1, 2}, None], ids=["int", "float", "object", "set", "None"])
def test_this_process_refuses_other_types_and_says_what_is_accepted(name: str, wrong: object) -> None:
    with pytest.raises(MisuseError, match="accepted"):
        getattr(thence, name)(wrong)


def test_a_limit_beside_a_policy_is_an_error() -> None:
    with pytest.raises(MisuseError, match="was given beside policy="):
        thence.Orderer("depends_on", policy=thence.Policy("release", after_rows=3), after_rows=1)
    with pytest.raises(MisuseError, match="was given beside policy="):
        thence.deliver([{"id": 1}], id="id", policy=thence.Policy("release", after_rows=3), after_rows=1)
