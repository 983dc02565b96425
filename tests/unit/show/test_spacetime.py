"""The space-time page without a browser: its columns, its parts, its excerpts."""

from __future__ import annotations

import json
import re
from array import array
from base64 import b64decode, b64encode
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from support.some import some
from support.traces import Knobs, draw_knobs, random_trace, spoil

from thence.core.model.events import Event, parse, render
from thence.errors import MisuseError
from thence.show.spacetime import spacetime_page
from thence.show.spacetime.assemble import MODULES, script, source
from thence.show.spacetime.encode import column, encoded, legible, natural
from thence.show.spacetime.findings import findings_by_run, findings_of
from thence.show.spacetime.pages import Recorded, all_pages, one_page, violation_page
from thence.tables.engines.local.audit import audit_events
from thence.tables.explain.excerpt import (
    Excerpt,
    IndexRange,
    excerpt_rows,
    message_excerpt,
    places_of,
    range_of,
    ranges_around,
)
from thence.tables.explain.origins import events_about, events_around
from thence.tables.explain.scene import scene_of, scenes_of
from thence.tables.files.jsonl import write_jsonl
from thence.tables.files.parquet import write_parquet
from thence.tables.files.read import open_trace

LATE = Knobs(steps=150, late=0.8)
TRIANGLE = "a!1>c a!2>b b<a2 b?a2 b!1>c c<b1 c?b1 c<a1 c?a1"


def recorded(events: list[Event], title: str = "t") -> Recorded:
    with audit_events(events) as audit:
        return Recorded(events, findings_of(audit), {run["run"]: run["verdict"] for run in audit.runs}, {}, title)


def numbers(packed: Any) -> list[float]:
    return array(packed["type"], b64decode(packed["data"])).tolist()


def data_of(html: str) -> dict[str, Any]:
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', html, re.DOTALL)
    assert found is not None
    read: dict[str, Any] = json.loads(found[1])
    return read


def columns_of(html: str, run: int = 0) -> dict[str, list[float]]:
    return {name: numbers(packed) for name, packed in data_of(html)["runs"][run]["columns"].items()}


@pytest.mark.parametrize(
    ("values", "kind"),
    [([], "b"), ([-1, 127], "b"), ([128], "h"), ([-40000], "i"), ([1 << 40], "d"), ([0.5, 1], "d")],
)
def test_a_column_takes_the_least_type_that_holds_it(values: list[float], kind: str) -> None:
    packed = column(values)
    assert packed["type"] == kind
    assert numbers(packed) == values


@pytest.mark.parametrize("seed", range(12))
def test_columns_say_what_the_rows_say(seed: int) -> None:
    events = spoil(random_trace(seed, draw_knobs(seed)), seed)
    scene = scene_of(events)
    made: Any = encoded([scene])
    run = made["runs"][0]
    found = {name: numbers(packed) for name, packed in run["columns"].items()}
    kinds = ["send", "receive", "deliver", "internal", "crash"]
    for i, event in some(enumerate(scene.events)):
        assert made["processes"][int(found["lane"][i])] == event.process
        assert kinds[int(found["kind"][i])] == event.kind
        assert found["index"][i] == event.index
        message = int(found["message"][i])
        assert (made["messages"][message] if message >= 0 else None) == event.message
        to = found["toLane"][int(found["toStart"][i]) : int(found["toStart"][i + 1])]
        assert [made["processes"][int(lane)] for lane in to] == list(event.destinations or ())
        cause = int(found["cause"][i])
        if cause >= 0:
            assert (scene.events[cause].kind, scene.events[cause].message) == ("send", event.message)
            assert cause < i
        pair = int(found["pair"][i])
        if pair >= 0:
            other = scene.events[pair]
            assert {event.kind, other.kind} == {"receive", "deliver"}
            assert (other.process, other.message) == (event.process, event.message)
            assert int(found["pair"][pair]) == i


def test_findings_name_their_events() -> None:
    events = parse(TRIANGLE)
    made = data_of(one_page(recorded(events)))["runs"][0]["findings"][0]
    place = {(e.process, e.index): i for i, e in enumerate(events)}
    assert made["path"] == [place[step] for step in [("a", 1), ("a", 2), ("b", 2), ("b", 3)]]
    assert made["early"] == place["c", 2]
    assert made["late"] == place["c", 4]
    assert made["missingSend"] == place["a", 1]


def test_the_policy_allows_this_script_and_this_style_and_nothing_else() -> None:
    html = spacetime_page([scene_of(parse(TRIANGLE))])
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', html)
    assert policy is not None
    for tag, rule in (('<script type="module">', "script-src"), ("<style>", "style-src")):
        body = html.split(tag)[1].split("</")[0]
        digest = b64encode(sha256(body.encode()).digest()).decode()
        assert f"{rule} 'sha256-{digest}'" in policy[1].replace("&#x27;", "'")
    assert not re.search(r"https?://|src=|href=|url\(|@import|unsafe", html)


def test_modules_are_whole_and_come_after_what_they_import() -> None:
    seen: set[str] = set()
    names: list[str] = []
    for module in MODULES:
        text = source(module)
        assert text.startswith("// ")
        assert "// Invariant" in text
        assert set(re.findall(r'from "\./(\w+\.js)"', text)) <= seen
        for wanted, origin in re.findall(r'import \{([^}]*)\} from "\./(\w+\.js)"', text):
            offered = source(origin)
            for name in filter(None, map(str.strip, wanted.split(","))):
                assert re.search(rf"export (?:function|class|const) [^\n;]*\b{name}\b", offered), (module, name)
        names += re.findall(r"^(?:export )?(?:async )?(?:function|class|const|let) (\w+)", text, re.MULTILINE)
        seen.add(module)
    assert len(names) == len(set(names)), "modules share one scope in the page"
    assert not re.search(r"^(?:import|export) ", script(), re.MULTILINE)
    assert "</" not in script()


def test_nothing_ends_the_data() -> None:
    event = Event("</script>", "<!--<script>", 1, "send", "</script><b>", ("]]>",), order=0)
    html = spacetime_page([scene_of([event])], title="</title>", lead="<b>", notes=["</ol>"])
    assert data_of(html)["messages"] == ["</script><b>"]
    assert html.count("</script>") == 2
    assert "<b>" not in html.split('id="data"')[0].replace('<b class="sign', "")


def test_payloads_and_other_keys_are_not_in_a_page() -> None:
    assert "secret" not in spacetime_page([scene_of(parse("a!1>b b?a1"))])


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("a1", "a1"),
        ("<b>", "<b>"),
        ("\x1b[2J", "\\x1b[2J"),
        ("a\u202eb", "a\\u202eb"),
        ("é☃", "é☃"),
        ("\ud800", "\\ud800"),
    ],
)
def test_names_are_visible(name: str, shown: str) -> None:
    assert legible(name) == shown
    assert len(legible(name * 500)) <= 120


def test_lanes_are_in_natural_order() -> None:
    assert sorted(["p10", "p2", "q", "p", "1", "p2a"], key=natural) == ["1", "p", "p2", "p2a", "p10", "q"]


def test_processes_without_rows_have_a_lane() -> None:
    assert data_of(spacetime_page([scene_of(parse("a!1>bz b?a1"))]))["processes"] == ["a", "b", "z"]


def test_stamps_are_stored_once() -> None:
    stamp = (("a1", ("b", "c")),)
    events = [replace(e, dependencies=stamp) if e.kind != "send" else e for e in parse(TRIANGLE)]
    found = columns_of(spacetime_page([scene_of(events)]))
    assert found["stampStart"] == [0, 1]
    assert found["factLane"] == [1, 2]
    assert [int(s) for s in found["stamp"]].count(0) == 6


def test_a_violation_beyond_those_that_are_listed_is_found_by_its_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("thence.show.spacetime.findings.MOST_FINDINGS", 2)
    audit = audit_events([event for seed in (1, 2, 4) for event in random_trace(seed, LATE, run=f"run{seed}")])
    violations = list(audit.rows("violations"))
    assert len(violations) > 3
    for number in (1, 2, len(violations)):
        recorded = Recorded([], findings_of(audit, paths=1, wanted=number), {}, {}, "", len(violations))
        run, found = recorded.violation(number)
        row = violations[number - 1]
        assert (run, found.message, found.number) == (row["run"], row["missing"], number)
        assert found.path is not None
    with pytest.raises(MisuseError, match=f"no violation {len(violations) + 1}; there are {len(violations)}, counted"):
        recorded.violation(len(violations) + 1)


def test_findings_of_an_audit_are_numbered_as_it_numbers_them() -> None:
    events = [event for seed in (1, 2, 4) for event in random_trace(seed, LATE, run=f"run{seed}")]
    audit = audit_events(events)
    found = findings_of(audit, paths=3)
    violations = list(audit.rows("violations"))
    assert len(violations) > 3
    assert [(run, f.destination, f.early, f.message) for run, f in found[: len(violations)]] == [
        (v["run"], v["destination"], v["early"], v["missing"]) for v in violations
    ]
    assert [f.path is not None for _, f in found[: len(violations)]] == [n < 3 for n in range(len(violations))]
    html = spacetime_page(scenes_of(events, findings_by_run(found)[0]))
    listed = re.findall(r'data-finding="\d+"><span class="number">(\d+)</span> <i>.*?</i> (.*?)</button>', html)
    assert listed[: len(violations)] == [
        (str(number), f"<b>{f.early}</b> before <b>{f.message}</b> at <b>{f.destination}</b>")
        for number, (_, f) in enumerate(found[: len(violations)], 1)
    ]


def test_more_findings_than_are_listed_at_first() -> None:
    events = parse(" ".join(f"a!{n}>b" for n in range(1, 700)))
    html = one_page(recorded(events))
    assert len(re.findall(r'data-finding="\d+"', html)) == 500
    assert "Show more of 699" in html


@pytest.mark.parametrize("seed", range(8))
def test_a_cut_holds_what_it_says_and_the_sends_it_needs(seed: int) -> None:
    events = random_trace(seed)
    cut = Excerpt(index_ranges=(IndexRange("p0", 2, 5), IndexRange("p1", 1, 3)))
    kept = excerpt_rows(events, cut)
    inside = [e for e in events if (e.process == "p0" and 2 <= e.index <= 5) or (e.process == "p1" and e.index <= 3)]
    assert set(inside) <= set(kept)
    needed = {e.message for e in inside if e.kind in ("receive", "deliver")}
    assert all(e.kind == "send" and e.message in needed for e in kept if e not in inside)
    assert [e for e in events if e in kept] == kept


def test_cuts_by_order_time_process_and_run() -> None:
    events = [replace(e, time=float(e.order or 0)) for e in parse(TRIANGLE)]
    assert render(excerpt_rows(events, Excerpt(orders=(6, 7)))) == "a!1>c b!1>c c?b1 c<a1"
    assert excerpt_rows(events, Excerpt(times=(6, 7))) == excerpt_rows(events, Excerpt(orders=(6, 7)))
    assert render(excerpt_rows(events, Excerpt(processes=frozenset("b")))) == "a!2>b b<a2 b?a2 b!1>c"
    assert excerpt_rows(events, Excerpt(run="other")) == []
    assert not Excerpt()
    assert Excerpt(run="x")


def test_stretches_that_touch_are_one() -> None:
    assert ranges_around([("a", 5), ("a", 8), ("b", 1), ("a", 90)], near=2) == (
        IndexRange("a", 3, 10), IndexRange("a", 88, 92), IndexRange("b", 1, 3),
    )  # fmt: skip


def test_places_of_a_finding() -> None:
    events = parse(TRIANGLE)
    found = recorded(events).findings[0][1]
    assert set(places_of(events, found)) == {
        ("a", 1), ("a", 2), ("b", 2), ("b", 3), ("c", 1), ("c", 2), ("c", 3), ("c", 4),
    }  # fmt: skip


@pytest.mark.parametrize("text", ["5", "a:b", ":x"])
def test_a_range_that_is_none(text: str) -> None:
    with pytest.raises(MisuseError, match="FROM:TO is accepted"):
        range_of(text, "--time")


def test_an_excerpt_lights_its_violation_first() -> None:
    rows = recorded(random_trace(4, LATE))
    html = violation_page(rows, 2)
    made = data_of(html)
    assert made["start"] == "finding=1"
    assert made["runs"][0]["findings"][0]["text"] == rows.violation(2)[1].sentence
    assert made["runs"][0]["findings"][0]["number"] == 2  # as in the audit of the whole trace
    assert '<span class="number">2</span>' in html
    assert "an excerpt" in html
    with pytest.raises(MisuseError, match="there is no violation 999"):
        violation_page(rows, 999)


def test_excerpts_hold_only_findings_whose_rows_they_hold() -> None:
    rows = recorded(parse(f"{TRIANGLE} d!1>e d!2>e e?d2 e?d1"))
    html = one_page(rows, Excerpt(processes=frozenset("de")))
    assert [f["text"].split()[0] for f in data_of(html)["runs"][0]["findings"]] == ["e"]
    with pytest.raises(MisuseError, match="no row"):
        one_page(rows, Excerpt(processes=frozenset("z")))


def test_a_large_trace_gives_excerpts_and_an_index() -> None:
    rows = recorded(random_trace(4, LATE))
    made = {each.suffix: each.html for each in all_pages(rows, "big", most=50)}
    index = made.pop("")
    violations = sum(f.what == "violation" for _, f in rows.findings)
    assert len([suffix for suffix in made if suffix.startswith("-violation-")]) == min(20, violations)
    assert set(re.findall(r'href="big([^"]*)\.html"', index)) == set(made)
    assert f"{len(rows.events)} events are too many for one page, which takes 50" in index
    parts = [html for suffix, html in made.items() if suffix.startswith("-part-")]
    assert all(len(columns_of(html)["kind"]) <= 50 for html in parts)


def test_an_excerpt_around_a_message() -> None:
    events = parse(TRIANGLE)
    cut = message_excerpt(events, "a2")
    assert {each.process for each in cut.index_ranges or ()} == {"a", "b"}
    with pytest.raises(MisuseError, match="no run of the trace sends a message 'zz'"):
        message_excerpt(events, "zz")


def test_a_page_takes_so_many_destinations(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("thence.show.spacetime.pages.ADDRESSED", 5)
    rows = recorded(parse("a!1>bc a!2>bc a!3>bc b?a1"))
    html = one_page(rows)
    assert columns_of(html)["index"] == [1, 2]
    assert "2 of 4 events are not on this page" in html


def test_lanes_are_in_order_of_first_appearance() -> None:
    made = data_of(one_page(recorded(parse("c!1>az b!1>c a?c1 c?b1"))))
    first = list(dict.fromkeys(event.process for event in scene_of(parse("c!1>az b!1>c a?c1 c?b1")).events))
    assert made["processes"] == [*first, "z"]  # z never does anything and comes last


@pytest.mark.parametrize(
    ("trace", "heading"),
    [
        (TRIANGLE, "Not causal: 1 violation"),
        ("a!1>b b?a1", "Causal: no findings"),
        ("a!1>bc b?a1", "Causal: 1 finding"),
        (f"{TRIANGLE} a!3>b", "Not causal: 1 violation, 1 other finding"),
    ],
)
def test_the_heading_says_the_verdict_and_counts(trace: str, heading: str) -> None:
    assert f"<h2>{heading}</h2>" in one_page(recorded(parse(trace)))


def test_the_heading_counts_violations_that_the_page_does_not_hold() -> None:
    made = replace(recorded(parse(TRIANGLE)), violations=7_050)
    assert "<h2>Not causal: 7,050 violations</h2>" in one_page(made)


@pytest.mark.parametrize("suffix", ["jsonl", "parquet"])
@pytest.mark.parametrize("seed", range(4))
def test_a_page_of_an_excerpt_needs_only_its_rows(seed: int, suffix: str, tmp_path: Path) -> None:
    """The page made of the rows read for it is the page made of all rows."""
    events = [*random_trace(seed, LATE, run="one"), *random_trace(seed + 50, LATE, run="two")]
    path = tmp_path / f"t.{suffix}"
    (write_jsonl if suffix == "jsonl" else write_parquet)(events, path)
    opened = open_trace([str(path)])
    whole = recorded(events)
    for number in (1, len([f for _, f in whole.findings if f.what == "violation"])):
        few, origins = events_around(opened, *whole.violation(number))
        assert 0 < len(few) < len(events)
        assert all(origins[e.run][e.process, e.index][0] == str(path) for e in few)
        page_of_few = violation_page(replace(whole, events=few, rest=len(events) - len(few)), number)
        assert data_of(page_of_few) == data_of(violation_page(whole, number)), f"seed {seed}"
    message = next(e.message for e in events if e.run == "two" and e.kind == "send")
    few, _ = events_about(opened, str(message))
    cut = message_excerpt(events, str(message))
    assert data_of(one_page(replace(whole, events=few), cut)) == data_of(one_page(whole, cut))
