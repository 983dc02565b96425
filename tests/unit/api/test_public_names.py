"""The names of `thence`: complete in dir(), in * and for type checkers, and loaded when they are asked for."""

from __future__ import annotations

import inspect
import subprocess
import sys

import pytest

import thence
from thence.errors import MisuseError

PUBLIC = ["Gate", "Orderer", "Policy", "audit", "cost", "deliver", "show", "stamp"]


@pytest.mark.parametrize("name", PUBLIC)
def test_every_public_name_is_in_dir_and_can_be_called(name: str) -> None:
    assert name in dir(thence)
    assert name in thence.__all__
    assert callable(getattr(thence, name))


def test_a_star_brings_all_of_them() -> None:
    names: dict[str, object] = {}
    exec("from thence import *", names)
    assert set(PUBLIC) <= names.keys()


def test_show_is_a_function_also_after_its_modules_were_imported() -> None:
    """`import thence.show.page` makes the package the attribute `show` of thence."""
    code = (
        "import thence.show.page, thence\nassert callable(thence.show)\nfrom thence import show\nassert callable(show)"
    )
    subprocess.run([sys.executable, "-I", "-c", code], check=True, timeout=300)


def test_importing_loads_nothing_that_is_heavy() -> None:
    code = (
        "import sys, thence\nprint(*{'pyspark', 'numpy', 'pyarrow', 'pandas', 'polars', 'asyncio'} & set(sys.modules))"
    )
    ran = subprocess.run([sys.executable, "-I", "-c", code], check=True, timeout=300, capture_output=True, text=True)
    assert ran.stdout.strip() == ""


LIMITS = {
    "after_rows": 1, "after_seconds": 1.0, "remember": 1, "held_limit": 1, "when_full": "release", "max_jump": 1.0,
    "filter_limit": 1,
}  # fmt: skip


@pytest.mark.parametrize(("name", "value"), LIMITS.items())
def test_a_limit_beside_a_policy_is_refused_and_both_are_named(name: str, value: object) -> None:
    chosen = thence.Policy("release", after_rows=5)
    for take in (
        lambda: thence.Orderer("depends_on", policy=chosen, **{name: value}),  # type: ignore[arg-type]
        lambda: thence.deliver([{"message": "a"}], policy=chosen, **{name: value}),  # type: ignore[call-overload]
    ):
        with pytest.raises(
            MisuseError, match=rf"{name}={value!r} was given beside policy=Policy\(name='release'"
        ) as error:
            take()
        assert f"has {name}={getattr(chosen, name)!r}" in str(error.value)


def test_orderer_and_deliver_have_one_set_of_options() -> None:
    orderer, deliver = (inspect.signature(each).parameters for each in (thence.Orderer, thence.deliver))
    shared = [name for name in orderer if name in deliver]
    assert set(orderer) == set(shared)
    for name in set(shared) - {"by"}:
        assert orderer[name].default == deliver[name].default, name
    assert [name for name in deliver if name not in orderer] == ["data", "id", "causes"]
