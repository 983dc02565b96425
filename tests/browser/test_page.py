"""The space-time page in a real browser: what it lights, finds, says and links to, read back through `thence.query`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import Any

import pytest
from playwright.sync_api import Page
from support.some import some
from support.traces import draw_knobs, random_trace

from thence.core.model.events import Event, parse
from thence.core.model.order import Execution, by_label, usable
from thence.lab.simulator import Scenario, simulate
from thence.protocols import create
from thence.show.spacetime import spacetime_page
from thence.show.spacetime.findings import findings_by_run, findings_of
from thence.tables.engines.local.audit import audit_events
from thence.tables.explain.scene import scenes_of

Open = Callable[..., Page]
TRIANGLE = "a!1>c a!2>b b<a2 b?a2 b!1>c c<b1 c?b1 c<a1 c?a1"


def html(*runs: list[Event], **options: Any) -> str:
    events = [event for run in runs for event in run]
    with audit_events(events) as audit:
        found, _ = findings_by_run(findings_of(audit))
        verdicts = {run["run"]: run["verdict"] for run in audit.runs}
    return spacetime_page(scenes_of(events, found, verdicts), **options)


def ask(opened: Page, question: str, *values: Any) -> Any:
    return opened.evaluate(f"(values) => thence.query.{question}(...values)", list(values))


def until(opened: Page, true: Callable[[], bool]) -> None:
    """Wait for something that the page does by itself; the test's own limit ends what never is."""
    while not true():
        opened.wait_for_timeout(50)


def link_of(opened: Page) -> str:
    """Return the page's own link to what it shows, which it writes 150 ms after the last change.

    Of timers of one page the earlier ends first, however slow the machine is.
    """
    opened.evaluate("() => new Promise((done) => setTimeout(done, 200))")
    return str(opened.evaluate("location.hash.slice(1)"))


def rows(found: list[dict[str, Any]]) -> set[tuple[str, int]]:
    return {(each["process"], each["index"]) for each in found}


def test_choosing_a_violation_lights_its_proof(open_page: Open) -> None:
    opened = open_page(html(parse(TRIANGLE)))
    assert opened.inner_text("#left h2") == "Not causal: 1 violation"
    assert opened.inner_text("#findings button").split() == ["1", "b1", "before", "a1", "at", "c"]
    opened.click("#findings button")
    lit = ask(opened, "lit")
    path = {("a", 1), ("a", 2), ("b", 2), ("b", 3)}
    assert rows(lit["path"]) == path | {("c", 2), ("c", 4)}
    assert rows(lit["chosen"]) == {("c", 2)}  # the early delivery
    found = ask(opened, "finding")
    assert found["what"] == "violation"
    assert found["early"] == ask(opened, "find", 0, "c", 2)
    assert found["late"] == ask(opened, "find", 0, "c", 4)
    assert opened.get_attribute("#findings button", "aria-pressed") == "true"
    assert "c delivered b1 before a1" in opened.inner_text("#proof")


@pytest.mark.parametrize("seed", range(0, 24, 2))
def test_causal_past_and_future_are_those_of_the_definition(open_page: Open, seed: int) -> None:
    events = random_trace(seed, draw_knobs(seed))
    opened = open_page(html(events))
    good, _ = usable(events)
    for part in some(by_label(good).values()):
        execution = Execution(part)
        count = len(execution.events)
        for place in some(Random(seed).sample(range(count), min(12, count))):
            event = execution.events[place]
            if event.kind == "crash":
                continue  # it belongs to every label; the next test has it
            number = ask(opened, "find", 0, event.process, event.index)
            before = {execution.events[i] for i in range(count) if execution.before(i, place)}
            after = {execution.events[i] for i in range(count) if execution.before(place, i)}
            assert rows(ask(opened, "past", 0, number)) == {(e.process, e.index) for e in before}, f"seed {seed}"
            assert rows(ask(opened, "future", 0, number)) == {(e.process, e.index) for e in after}, f"seed {seed}"


def test_the_past_of_a_crash_is_of_all_labels(open_page: Open) -> None:
    opened = open_page(html(parse("a!1>b/red c!1>b/blue b?a1/red b?c1/blue b#")))
    number = ask(opened, "find", 0, "b", 3)
    assert rows(ask(opened, "past", 0, number)) == {("a", 1), ("c", 1), ("b", 1), ("b", 2)}
    assert rows(ask(opened, "past", 0, ask(opened, "find", 0, "b", 2))) == {("c", 1)}


def test_choosing_an_event_by_a_click_lights_past_and_future(open_page: Open) -> None:
    opened = open_page(html(parse(TRIANGLE)))
    number = ask(opened, "find", 0, "b", 2)
    point = ask(opened, "point", 0, number)
    opened.mouse.click(point["x"], point["y"])
    lit = ask(opened, "lit")
    assert rows(lit["past"]) == {("a", 1), ("a", 2)}
    assert rows(lit["future"]) == {("b", 3), ("c", 2), ("c", 4)}
    assert opened.inner_text("#details-title") == "b delivered a2"
    opened.keyboard.press("Escape")
    assert ask(opened, "lit") is None


def test_what_a_copy_waited_for_and_how_long(open_page: Open) -> None:
    opened = open_page(html(parse("a!1>c a!2>b b<a2 b?a2 b!1>c c<b1 c. c<a1 c?a1 c?b1")))
    held = ask(opened, "find", 0, "c", 1)
    assert ask(opened, "waits", 0, held) == ["a1"]
    facts = ask(opened, "facts", 0, ask(opened, "find", 0, "c", 5))
    assert facts["waited for"] == "a1"
    assert facts["held"] == "for 4 events of the order"
    assert ask(opened, "facts", 0, ask(opened, "find", 0, "c", 4))["held"].startswith("not at all")


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_the_dependency_log_is_the_members_own(open_page: Open, seed: int) -> None:
    """Replay a recorded run of `ks` through members and compare their logs with what the page makes of the stamps."""
    scenario = Scenario(protocol="ks", processes=5, messages=40, seed=seed, run="ks")
    events = simulate(scenario, trace=True, stamps=True).events
    opened = open_page(html(events))
    roster = scenario.roster
    members = {name: create("ks", roster, name) for name in roster}
    copies: dict[tuple[str, str], Any] = {}
    names: dict[tuple[int, int], str] = {}
    compared = 0
    for event in events:
        member = members[event.process]
        if event.kind == "send":
            sent = member.send(list(event.destinations or ()))
            names[sent.message.sender, sent.message.count] = event.message or ""
            copies |= {(event.message or "", roster.name(copy.destination)): copy for copy in sent.copies}
        elif event.kind == "receive":
            member.receive(copies[event.message or "", event.process])
        if event.kind == "receive":  # a member delivers at once; the trace says so in the rows that follow
            continue
        following = [e for e in events if e.process == event.process and e.index == event.index + 1]
        if following and following[0].kind == "deliver":
            continue
        log = member.log_facts()
        assert log is not None
        wanted = {(names[m.sender, m.count], roster.name(d)) for m, d in log}
        number = ask(opened, "find", 0, event.process, event.index)
        shown = {(m, d) for m, to in ask(opened, "log", 0, event.process, number) for d in to}
        assert shown == wanted, f"seed {seed}, {event}"
        compared += 1
    assert compared > 60


def test_search_by_message_process_and_kind(open_page: Open) -> None:
    opened = open_page(html(parse(TRIANGLE)))
    assert rows(ask(opened, "search", "a1")) == {("a", 1), ("c", 3), ("c", 4)}
    assert rows(ask(opened, "search", "a1 deliver")) == {("c", 4)}
    assert rows(ask(opened, "search", "process:b")) == {("b", 1), ("b", 2), ("b", 3)}
    assert rows(ask(opened, "search", "message:b1 kind:receive")) == {("c", 1)}
    assert ask(opened, "search", "zzz") == []
    opened.fill("#search", "b1 send")
    assert opened.inner_text("#found") == "1 event"
    opened.keyboard.press("Enter")
    assert rows(ask(opened, "lit")["chosen"]) == {("b", 3)}


def test_the_keyboard_alone(open_page: Open) -> None:
    opened = open_page(html(parse(TRIANGLE)))
    opened.keyboard.press("n")
    assert ask(opened, "finding")["number"] == 1
    opened.keyboard.press("Escape")
    opened.keyboard.press("ArrowRight")
    opened.keyboard.press("ArrowRight")
    assert ask(opened, "view")["cursor"] == 1
    assert opened.inner_text("#details-title") == "a sent a2"
    opened.keyboard.press("ArrowLeft")
    assert ask(opened, "view")["cursor"] == 0
    before = ask(opened, "view")
    opened.keyboard.press("+")
    after = ask(opened, "view")
    assert after["to"] - after["from"] < before["to"] - before["from"]
    opened.keyboard.press("0")
    assert ask(opened, "view")["to"] == before["to"]
    opened.keyboard.press("/")
    assert opened.evaluate("document.activeElement.id") == "search"
    opened.keyboard.type("b1 deliver")
    opened.keyboard.press("Enter")
    opened.keyboard.press("Escape")
    opened.evaluate("thence.choose(0, thence.query.find(0, 'c', 2))")
    opened.keyboard.press("[")
    assert rows(ask(opened, "lit")["chosen"]) == {("b", 3)}


def test_every_tool_can_be_reached_and_has_a_name(open_page: Open) -> None:
    opened = open_page(html(parse(TRIANGLE)))
    names = opened.eval_on_selector_all(
        "button, input, canvas, summary",
        "all => all.map(e => e.getAttribute('aria-label') || e.textContent.trim() || e.labels?.[0]?.textContent || '')",
    )
    assert all(names)
    reached = set()
    for _ in range(20):
        opened.keyboard.press("Tab")
        reached.add(opened.evaluate("document.activeElement.id || document.activeElement.tagName"))
    assert {"by-order", "play", "search", "CANVAS"} <= reached
    label = opened.get_attribute("figure canvas", "aria-label")
    assert label is not None
    assert "3 lanes, 9 of 9 events in the window, 1 violations" in label


def test_a_link_shows_the_same_spot(open_page: Open) -> None:
    text = html(simulate(Scenario(protocol="unordered", processes=5, messages=60, seed=1), trace=True).events)
    opened = open_page(text)
    opened.evaluate("thence.chooseFinding(2)")
    opened.click("#by-time")
    opened.keyboard.press("+")
    other = open_page(text, fragment=link_of(opened))
    assert ask(other, "finding") == ask(opened, "finding")
    there, here = ask(other, "view"), ask(opened, "view")
    assert there["by"] == here["by"] == "time"
    assert there["from"] == pytest.approx(here["from"])
    assert there["to"] == pytest.approx(here["to"])


def test_moments_are_told_by_the_clock_and_linked_to_exactly(open_page: Open) -> None:
    events = [replace(event, time=1794889800 + place / 4) for place, event in enumerate(parse("a!1>b b?a1 b!1>a a?b1"))]
    opened = open_page(html(events))
    assert ask(opened, "drawn")[0]["ticks"] == ["1", "2", "3", "4"]
    opened.click("#by-time")
    ticks = ask(opened, "drawn")[0]["ticks"]
    assert len(set(ticks)) == len(ticks) > 2
    assert {"04:30:00.0Z", "04:30:00.2Z", "04:30:00.4Z", "04:30:00.6Z"} <= set(ticks)
    assert ask(opened, "facts", 0, 1)["time"] == "1794889800.25 s, 2026-11-17T04:30:00.250Z"
    opened.keyboard.press("+")
    here, there = ask(opened, "view"), ask(open_page(html(events), fragment=link_of(opened)), "view")
    assert (there["from"], there["to"]) == pytest.approx((here["from"], here["to"]), abs=1e-5)


@pytest.mark.parametrize(
    "fragment", ["finding=99", "event=7.1000", "window=a~b", "lanes=0.0.0~77", "runs=9", "by=x", "%%%"]
)
def test_a_link_that_does_not_fit_is_passed_over(open_page: Open, fragment: str) -> None:
    opened = open_page(html(parse(TRIANGLE)), fragment=fragment)
    assert ask(opened, "view")["lanes"] == [["a", "b", "c"]]


def test_lanes_are_hidden_grouped_and_moved(open_page: Open) -> None:
    opened = open_page(html(parse(TRIANGLE)))
    opened.click("summary:has-text('Lanes')")
    opened.uncheck("#lanes li:nth-child(1) label input")
    assert ask(opened, "view")["lanes"] == [["b", "c"]]
    opened.click("#lanes-all")
    opened.click("[aria-label='move c up']")
    assert ask(opened, "view")["lanes"] == [["a", "c", "b"]]
    opened.check("[data-lane='0']")
    opened.check("[data-lane='2']")
    opened.click("#lanes-group")
    assert ask(opened, "view")["lanes"] == [["2: a, c", "b"]]
    other = open_page(html(parse(TRIANGLE)), fragment=link_of(opened))
    assert ask(other, "view")["lanes"] == [["2: a, c", "b"]]
    opened.click("[aria-label='take the group of 2: a, c apart']")
    opened.click("#lanes-all")
    opened.click("#findings button")
    opened.click("#lanes-lit")
    assert ask(opened, "view")["lanes"] == [["a", "b", "c"]]


def test_runs_side_by_side_share_one_cursor(open_page: Open) -> None:
    runs = [
        simulate(Scenario(protocol=name, processes=4, messages=20, seed=1, run=name), trace=True).events
        for name in ("ks", "unordered")
    ]
    opened = open_page(html(*runs))
    assert [run["name"] for run in ask(opened, "runs")] == ["ks", "unordered"]
    assert opened.locator("figure canvas").count() == 2
    opened.click("#by-time")
    for _ in range(5):
        opened.click("#forward")
    times = sorted(event.time or 0 for run in runs for event in run)
    assert ask(opened, "view")["cursor"] == sorted(set(times))[4]
    opened.uncheck("#runs input[value='0']")
    assert opened.locator("figure canvas").count() == 1


def test_play_goes_on_by_itself(open_page: Open) -> None:
    events = simulate(Scenario(processes=4, messages=200, seed=1), trace=True).events
    opened = open_page(html(events))  # minutes to its end, where it would stop by itself
    opened.click("#play")
    until(opened, lambda: (ask(opened, "view")["cursor"] or 0) >= 2)  # half a second a step
    opened.click("#play")
    assert opened.inner_text("#play") == "Play"


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_both_colour_schemes(open_page: Open, scheme: str) -> None:
    opened = open_page(html(parse(TRIANGLE)), color_scheme=scheme)
    pixel = opened.evaluate(
        "() => [...document.querySelector('figure canvas').getContext('2d').getImageData(2, 2, 1, 1).data].slice(0, 3)"
    )
    assert (sum(pixel) < 150) == (scheme == "dark")
    other = "light" if scheme == "dark" else "dark"
    opened.emulate_media(color_scheme=other)
    wanted = "rgb(20, 24, 30)" if other == "dark" else "rgb(255, 255, 255)"
    until(opened, lambda: opened.evaluate("getComputedStyle(document.body).backgroundColor") == wanted)


HOSTILE = [
    "<script>alert(1)</script>", "</script><script>alert(2)</script>", "<img src=x onerror=alert(3)>",
    '"><svg onload=alert(4)>', "\x1b[31mred\x1b[0m", "a\u202eb", "{{data}}", "__proto__", "x" * 5000,
    "javascript:alert(5)", "']);alert(6);//", "<!--",
]  # fmt: skip


def test_hostile_names_are_shown_and_never_run(open_page: Open) -> None:
    events = []
    for place, name in enumerate(HOSTILE):
        other = HOSTILE[place - 1]
        message = f"{name}{place}"
        events.append(Event("<b>run</b>", name, 1, "send", message, (other,), "<i>label</i>", len(events)))
    for place, name in enumerate(HOSTILE):
        message = f"{HOSTILE[(place + 1) % len(HOSTILE)]}{(place + 1) % len(HOSTILE)}"
        events.append(Event("<b>run</b>", name, 2, "deliver", message, None, "<i>label</i>", len(events)))
    events.append(Event("<b>run</b>", HOSTILE[0], 2, "deliver", "<u>nothing</u>", None, None, len(events)))
    opened = open_page(html(events, title="<script>alert(7)</script>", lead="</title><script>alert(8)</script>"))
    opened.click("#findings button")
    for number in range(len(events) - 1):
        opened.evaluate(f"thence.choose(0, {number})")
    opened.fill("#search", "<script>")
    assert "<script>" in opened.inner_text("h1")
    assert opened.locator("script").count() == 2
    assert opened.locator("img, svg, b:not(.sign)").count() == 0
    names = [name for panel in ask(opened, "view")["lanes"] for name in panel]
    assert "\\x1b[31mred\\x1b[0m" in names
    assert "a\\u202eb" in names
    assert max(map(len, names)) == 120


def test_the_policy_forbids_what_the_page_does_not_need(open_page: Open) -> None:
    opened = open_page(html(parse(TRIANGLE)))
    policy = opened.get_attribute("meta[http-equiv]", "content")
    assert policy is not None
    assert policy.startswith("default-src 'none'; script-src 'sha256-")
    assert "unsafe" not in policy


def test_a_foreign_script_does_not_run(browser: Any, tmp_path: Any) -> None:
    path = tmp_path / "page.html"
    path.write_text(html(parse(TRIANGLE)).replace("</main>", "</main><script>window.broken = 1</script>"))
    opened = browser.new_page()
    opened.set_default_timeout(300_000)
    opened.goto(path.as_uri())
    opened.wait_for_selector("html[data-ready=yes]")
    assert opened.evaluate("window.broken") is None
    opened.close()


def test_a_narrow_window_shows_all_parts(open_page: Open) -> None:
    opened = open_page(html(parse(TRIANGLE)), viewport={"width": 390, "height": 780})
    opened.click("#findings button")
    assert opened.evaluate("document.documentElement.scrollWidth <= 390")
    box = opened.locator("figure canvas").bounding_box()
    assert box is not None
    assert box["width"] > 350
    assert box["height"] > 200


def test_what_is_missing_doubled_misplaced_or_set_aside_is_lit_too(open_page: Open) -> None:
    events = parse("a!1>b a!2>b b?a2 b?a2 c?a2")
    events.append(Event("run", "c", 2, "deliver", "x9", order=len(events)))
    opened = open_page(html(events))
    lit = {}
    for number in range(opened.locator("#findings button").count()):
        opened.click(f"[data-finding='{number}']")
        lit.setdefault(ask(opened, "finding")["what"], []).append(rows(ask(opened, "lit")["path"]))
    assert lit == {
        "violation": [{("a", 1), ("a", 2), ("b", 1)}],
        "undelivered": [{("a", 1)}],
        "duplicate": [{("a", 2), ("b", 1), ("b", 2)}],
        "misdelivered": [{("a", 2), ("c", 1)}],
        "quarantine": [{("c", 2)}],
    }


def test_a_proof_stays_while_its_events_are_looked_at(open_page: Open) -> None:
    opened = open_page(html(parse(TRIANGLE)))
    opened.click("#findings button")
    opened.click("#proof li:nth-child(3) button")
    assert ask(opened, "finding")["number"] == 1  # the audit's number
    assert opened.inner_text("#proof [aria-current]") == opened.inner_text("#details-title") == "b delivered a2"
    other = open_page(html(parse(TRIANGLE)), fragment=link_of(opened))
    assert ask(other, "finding") == ask(opened, "finding")
    assert ask(other, "lit")["chosen"] == ask(opened, "lit")["chosen"]
    opened.evaluate("thence.choose(0, thence.query.find(0, 'b', 1))")  # an arrival, which is not part of the proof
    assert ask(opened, "finding") is None
    assert opened.is_hidden("#proof")


def test_copies_in_flight_are_drawn_while_stepping(open_page: Open) -> None:
    opened = open_page(html(parse("a!1>bc b<a1 b?a1 c<a1 c?a1")))
    assert ask(opened, "drawn")[0]["flights"] == 0
    flights = []
    for _ in range(5):
        opened.keyboard.press("ArrowRight")
        flights.append(ask(opened, "drawn")[0]["flights"])
    assert flights == [2, 1, 1, 0, 0]  # sent to two, then arrived at b, then at c


def test_labels_where_there_is_room_and_lanes_fill_the_height(open_page: Open) -> None:
    opened = open_page(html(parse(TRIANGLE)))
    drawn = ask(opened, "drawn")[0]
    assert drawn["labels"] == 6  # three sends and three deliveries
    height = opened.evaluate("document.querySelector('figure canvas').clientHeight")
    assert 3 * drawn["step"] == pytest.approx(height - 28)
    crowded = open_page(html(parse(" ".join(f"a!{n}>b b?a{n}" for n in range(1, 250)))))
    assert 0 < ask(crowded, "drawn")[0]["labels"] < 249


def test_the_overview_lies_under_the_lanes(open_page: Open) -> None:
    opened = open_page(html(parse(TRIANGLE)))
    before = ask(opened, "view")
    point = ask(opened, "point", 0, 4)
    opened.evaluate("thence.show(0, 4)")
    box = opened.locator("#minimap").bounding_box()
    assert box is not None
    opened.mouse.click(point["x"], box["y"] + 5)  # under the event as it stood in the whole run
    after = ask(opened, "view")
    assert before["from"] <= after["from"]
    assert (after["from"] + after["to"]) / 2 == pytest.approx(4, abs=0.2)


def test_crashes_are_listed_and_lead_to_their_event(open_page: Open) -> None:
    opened = open_page(html(parse("a!1>b b?a1 b# a!2>b b?a2 b#")))
    assert opened.inner_text("#crashes-part summary") == "Crashes (2)"
    opened.click("#crashes-part summary")
    opened.click("#crashes li:nth-child(2) button")
    assert rows(ask(opened, "lit")["chosen"]) == {("b", 4)}
    assert open_page(html(parse(TRIANGLE))).is_hidden("#crashes-part")


def test_search_results_open_by_themselves(open_page: Open) -> None:
    opened = open_page(html(parse(TRIANGLE)))
    assert opened.is_hidden("#results")
    opened.fill("#search", "a1")
    assert opened.locator("#results li").count() == 3
    assert opened.is_visible("#results")
    opened.fill("#search", "")
    assert opened.is_hidden("#results")
