"""PC-broadcast: who forwards what to whom, how a link becomes safe, and what is refused."""

from __future__ import annotations

import json
import re
from pathlib import Path
from random import Random

import pytest

from thence.core.model.message import Copy
from thence.core.protocols.pc_broadcast import PING, PONG, PCBroadcast
from thence.errors import MisuseError, PeerError
from thence.lab.simulator import Scenario, simulate
from thence.protocols import Deliver, Duplicate, Effect, Sent, Transmit, create

LINE = "a:b;b:c;c:d"


def line(names: str = "abcd", overlay: str = LINE) -> list[PCBroadcast]:
    members = [create("pc-broadcast", names, name, overlay=overlay) for name in names]
    assert all(isinstance(member, PCBroadcast) for member in members)
    return members  # type: ignore[return-value]


def ends(effects: list[Effect]) -> list[tuple[str, int, int, int]]:
    """Return kind, sender, source and destination of what is handed to the network."""
    copies = [copy for effect in effects if isinstance(effect, Sent | Transmit) for copy in effect.copies]
    return [(copy.kind, copy.sender, copy.source, copy.destination) for copy in copies]


def copies(effects: list[Effect]) -> list[Copy]:
    return [copy for effect in effects if isinstance(effect, Sent | Transmit) for copy in effect.copies]


def test_first_receipts_are_forwarded_but_not_back() -> None:
    _, b, c, _ = line()
    sent = b.send(["a", "c", "d"])
    assert ends([sent]) == [("message", 1, 1, 0), ("message", 1, 1, 2)]  # type: ignore[list-item]
    (_, to_c) = copies([sent])  # type: ignore[list-item]
    effects = c.receive(to_c)
    assert [type(effect) for effect in effects] == [Deliver, Transmit]
    assert ends(effects) == [("message", 1, 2, 3)]
    assert [type(effect) for effect in c.receive(to_c)] == [Duplicate]
    assert len(c.encode(to_c)) == 10, "the name of the message, and nothing else"


def test_a_link_is_used_after_ping_pong_and_buffer() -> None:
    a, b, c, d = line()
    (early,) = copies([a.send(["b", "c", "d"])])  # type: ignore[list-item]
    (ping,) = copies(a.connect("d"))
    assert (ping.kind, ping.destination) == (PING, 1)
    assert a.connect("d") == [], "it is under way"
    (late,) = copies([a.send(["b", "c", "d"])])  # type: ignore[list-item]
    assert (late.destination, a.log_size()) == (1, 1)
    for copy in (early, ping):
        (passed,) = copies(b.receive(copy))
        (further,) = copies(c.receive(passed))
        answered = copies(d.receive(further))
    (pong,) = answered
    assert (pong.kind, pong.source, pong.destination) == (PONG, 3, 0)
    twin = PCBroadcast.restore(a.snapshot())
    assert twin.state() == a.state()
    for member in (twin, a.fork()):
        (kept,) = copies(member.receive(pong))
        assert (kept.id, kept.destination) == (late.id, 3)
        assert member.log_size() == 0
        assert {copy.destination for copy in copies([member.send(["b", "c", "d"])])} == {1, 3}  # type: ignore[list-item]
    (flushed,) = copies(a.receive(pong))
    assert [type(effect) for effect in a.receive(pong)] == [Duplicate]
    assert [type(effect) for effect in d.receive(flushed)] == [Deliver, Transmit]


def test_a_new_label_uses_new_links_at_once() -> None:
    a = line()[0]
    a.connect("d")
    red = a.send(["b", "c", "d"], label="red")
    assert {copy.destination for copy in copies([red])} == {1, 3}  # type: ignore[list-item]
    assert {copy.destination for copy in copies([a.send(["b", "c", "d"])])} == {1}  # type: ignore[list-item]
    assert PCBroadcast.restore(a.snapshot()).state() == a.state()


def test_what_cannot_come_over_fifo_links_is_refused() -> None:
    b = line()[1]
    for copy, text in (
        (Copy(0, 2, 0b1110, 0, 1, ()), "message a2 came over the link from a when message 0 .* links must be FIFO"),
        (Copy(0, 1, 0b0110, 0, 1, ()), "message a1 is addressed to b, c; a broadcast goes to all others"),
        (Copy(0, 1, 0b1100, 0, 1, (), None, PING), "a ping a1 came to b"),
        (Copy(0, 1, 0b0001, 0, 1, (), None, PING), "a ping a1 came to b"),
        (Copy(0, 1, 0b0010, 2, 1, (), None, PONG), "c delivered a pong that a1 would have to"),
        (Copy(0, 1, 0b0100, 0, 1, (), None, PONG), "delivered a pong"),
    ):
        before = b.snapshot()
        with pytest.raises(PeerError, match=text):
            b.receive(copy)
        assert b.snapshot() == before


@pytest.mark.parametrize(
    ("overlay", "text"),
    [
        ("a:b;c:d", "has no path from a to c, d; it must join all processes"),
        ("ab", "'ab' is not PROCESS:NEIGHBOURS; a:bc;b:d is accepted"),
        ("a:", "'a:' is not PROCESS:NEIGHBOURS"),
        ("e:ab", "'e:ab' is not PROCESS:NEIGHBOURS"),
        ("a:bx", "no process 'x' in the roster"),
    ],
)
def test_overlays_that_are_not_accepted(overlay: str, text: str) -> None:
    with pytest.raises(MisuseError, match=text):
        create("pc-broadcast", "abcd", "a", overlay=overlay)


def test_who_has_no_overlay_opens_no_link() -> None:
    with pytest.raises(MisuseError, match="protocol ks has no overlay; pc-broadcast has"):
        create("ks", "ab", "a").connect("b")
    with pytest.raises(MisuseError, match="a is this process itself"):
        line()[0].connect("a")
    with pytest.raises(MisuseError, match="protocol ks has no overlay to open links in"):
        simulate(Scenario("ks", links=1))


@pytest.mark.parametrize("seed", range(6))
def test_links_opened_under_way_keep_the_order(seed: int) -> None:
    """A ring of 12 gets 30 links while 240 messages travel; half of the opened links meet traffic."""
    rng = Random(seed)
    scenario = Scenario(
        "pc-broadcast", 12, 240, "broadcast", delay=rng.choice(("adversarial", "exponential:0.05", "pareto:0.05,1.2")),
        fifo=True, links=30, seed=seed,
    )  # fmt: skip
    result = simulate(scenario, trace=True)
    judged = result.judge()
    assert (judged.verdict, judged.undelivered, judged.duplicates) == ("causal", [], [])
    assert not result.outcome.stuck
    assert result.outcome.hops[PING] >= 12
    assert 10 <= result.outcome.hops[PONG] <= 30


ROOT = Path(__file__).parents[3]


def test_the_page_quotes_the_committed_benchmark() -> None:
    rows = json.loads((ROOT / "benchmarks/protocols/results/broadcast.json").read_text())["rows"]
    measured = {(row["protocol"], row["n"], row["degree"]): row for row in rows if not row["opened"]}
    page = (ROOT / "docs/explanation/compare.md").read_text(encoding="utf-8")
    quoted = re.findall(
        r"^\| `([a-z-]+)` \| (\d+) \| (\d*) \| (\S+) \| (\S+) \| (\S+) \| (\S+) \| (\d+)% \|$", page, re.M
    )
    assert len(quoted) == 10
    for protocol, n, degree, *sizes in quoted:
        row = measured[protocol, int(n), int(degree or 0)]
        names = ("bytes a copy", "copies", "bytes a message", "delay")
        assert [float(size.replace(",", "")) for size in sizes] == [
            *(row[name] for name in names),
            round(100 * row["held"]),
        ]
    flooded, direct = measured["pc-broadcast", 100, 8], measured["bss", 100, 0]
    for row, payload in ((flooded, 5), (measured["pc-broadcast", 100, 4], 38)):
        more = [each["bytes a message"] + payload * each["copies"] for each in (row, direct)]
        assert more[0] == pytest.approx(more[1], rel=0.05), "from here on the direct copies are fewer bytes"


def test_the_benchmark_gives_what_is_committed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks/protocols"))
    import broadcast  # type: ignore[import-not-found]

    rows = json.loads(broadcast.RESULTS.read_text())["rows"]
    assert broadcast.row("pc-broadcast", 10, 2) in rows
    assert broadcast.row("bss", 10) in rows
