"""The propagation constraints, on executions small enough to check by eye (KS98 section 3)."""

from __future__ import annotations

from thence.core.model.events import parse
from thence.core.model.minimum import Minimum


def test_a_fact_travels_until_it_is_needed() -> None:
    minimum = Minimum(parse("a!1>c a!2>b b?a2 b!1>c c?a1 c?b1"))
    assert minimum.on_copy("a1", "c") == set()
    assert minimum.on_copy("a2", "b") == {("a1", "c")}
    assert minimum.on_copy("b1", "c") == {("a1", "c")}
    assert minimum.in_log("b", 1) == {("a1", "c")}


def test_pc2_a_later_send_to_the_same_destination_takes_over() -> None:
    minimum = Minimum(parse("a!1>c a!2>c a!3>b"))
    assert minimum.on_copy("a2", "c") == {("a1", "c")}
    assert minimum.on_copy("a3", "b") == {("a2", "c")}
    assert minimum.in_log("a", 2) == {("a2", "c")}


def test_the_exception_at_fp2_only_the_copy_to_d_carries_it() -> None:
    minimum = Minimum(parse("a!1>bc a!2>bc"))
    assert minimum.on_copy("a2", "b") == {("a1", "b")}
    assert minimum.on_copy("a2", "c") == {("a1", "c")}


def test_pc1_a_known_delivery_ends_the_fact() -> None:
    minimum = Minimum(parse("a!1>bc b?a1 b!1>a a?b1 a!2>d"))
    assert minimum.on_copy("b1", "a") == {("a1", "c")}
    assert minimum.in_log("b", 1) == {("a1", "c")}
    assert minimum.on_copy("a2", "d") == {("a1", "c")}


def test_a_copy_does_not_speak_of_its_own_message() -> None:
    assert Minimum(parse("a!1>bc")).on_copy("a1", "b") == set()
