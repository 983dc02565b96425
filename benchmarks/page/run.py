"""Time to the first picture and of frames while panning: the page, an SVG with every arrow, Mermaid's diagrams.

    python benchmarks/page/run.py

Runs of 10^3, 10^4 and 10^5 events of 64 processes, the same for all three, in one Chromium without a GPU. The first
picture is measured from the start of the navigation to the first frame after everything is drawn; a frame while panning
from one animation frame to the next, the window moved by a fiftieth of its width each time. Mermaid's sequence diagrams
are brought by npm; they get the copies as arrows between participants, and 60 seconds. Result: results/page.json.
"""

from __future__ import annotations

import json
import os
import shutil
import statistics
import subprocess
import time
from collections.abc import Sequence
from html import escape
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from playwright.sync_api import Browser, Error, Page, sync_playwright

from thence.core.model.events import Event
from thence.lab.simulator import Scenario, simulate
from thence.show.spacetime import spacetime_page
from thence.tables.engines.local.audit import audit_events
from thence.tables.explain.scene import scene_of, violated
from thence.tables.judge.result import violation_of

HERE = Path(__file__).parent
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run", "--disable-sync"]
SIZES = (1_000, 10_000, 100_000)
PROCESSES = 64
ROUNDS = 3
FRAMES = 60
FINDINGS = 60
"""Violations on a page."""
MERMAID = "11.17.2"
LIMIT = 60.0
"""Seconds that any of them gets for its first picture."""

PAN = """async ({ count, span, share, move }) => {
  const shown = new Function("from", "to", move), width = span * share, times = [];
  const frame = () => new Promise((done) => requestAnimationFrame(done));
  await frame();
  let last = await frame();
  for (let step = 0; step < count; step++) {
    const from = (0.3 * span + (step * width) / 50) % (span - width + 1);
    shown(from, from + width);
    const now = await frame();
    times.push(now - last);
    last = now;
  }
  return times;
}"""


def recorded(size: int) -> list[Event]:
    """Return exactly `size` events: a send, two arrivals and two deliveries a message."""
    scenario = Scenario(
        protocol="unordered", processes=PROCESSES, messages=size // 5, fanout="2", seed=1, run=f"{size} events"
    )
    return simulate(scenario, trace=True).events


def as_page(events: list[Event]) -> str:
    with audit_events(events) as audit:
        proved = list(islice(audit.proved(FINDINGS), FINDINGS))
    findings = [violated(violation_of(row), path) for row, path in proved]
    return spacetime_page([scene_of(events, findings, verdict="violated")], title=f"{len(events)} events")


def as_svg(events: Sequence[Event]) -> str:
    """Return what people draw by hand: every lane, every event, every copy, as elements."""
    lanes = {name: 10 * place + 5 for place, name in enumerate(sorted({e.process for e in events}))}
    sends = {e.message: place for place, e in enumerate(events) if e.kind == "send"}
    parts = [f'<line x1="0" x2="{len(events)}" y1="{y}" y2="{y}" stroke="#ccc"/>' for y in lanes.values()]
    for place, event in enumerate(events):
        y = lanes[event.process]
        parts.append(f'<circle cx="{place}" cy="{y}" r="2"><title>{escape(event.message or "")}</title></circle>')
        if event.kind == "receive":
            send = sends[event.message]
            start = lanes[events[send].process]
            parts.append(f'<line x1="{send}" y1="{start}" x2="{place}" y2="{y}" stroke="#36a"/>')
    box = f"0 0 {len(events)} {10 * len(lanes)}"
    return (
        '<!doctype html><meta charset="utf-8"><body style="margin:0">'
        f'<svg id="all" width="1280" height="700" preserveAspectRatio="none" viewBox="{box}">{"".join(parts)}</svg>'
        "<script>requestAnimationFrame(() => requestAnimationFrame(() => { performance.mark('first'); "
        "document.documentElement.dataset.ready = 'yes'; }))</script>"
    )


def as_mermaid(events: Sequence[Event], script: Path) -> str:
    names = sorted({e.process for e in events})
    sends = {e.message: e.process for e in events if e.kind == "send"}
    lines = ["sequenceDiagram", *(f"participant {name}" for name in names)]
    lines += [f"{sends[e.message]}->>{e.process}: {e.message}" for e in events if e.kind == "deliver"]
    text = json.dumps("\n".join(lines)).replace("<", "\\u003c")
    return (
        '<!doctype html><meta charset="utf-8"><body><div id="all"></div>'
        f'<script src="{script.as_uri()}"></script><script>'
        "mermaid.initialize({ startOnLoad: false, maxTextSize: 1e9, maxEdges: 1e9 });"
        f'mermaid.render("drawn", {text}).then(({{ svg }}) => {{ document.getElementById("all").innerHTML = svg;'
        "requestAnimationFrame(() => requestAnimationFrame(() => { performance.mark('first');"
        "document.documentElement.dataset.ready = 'yes'; })); });</script>"
    )


def first_picture(opened: Page, path: Path, mark: str) -> float | None:
    """Return milliseconds from the start of the navigation to the first picture; None if the time was not enough."""
    try:
        opened.goto(path.as_uri(), wait_until="commit", timeout=1000 * LIMIT)
        opened.wait_for_selector("html[data-ready=yes]", timeout=1000 * LIMIT)
        return float(opened.evaluate(f"performance.getEntriesByName('{mark}')[0].startTime"))
    except Error:
        return None


def spread(times: Sequence[float]) -> dict[str, float]:
    ranked = sorted(times)
    return {"median_ms": round(statistics.median(ranked), 1), "p95_ms": round(ranked[int(0.95 * len(ranked))], 1)}


def measure(browser: Browser, path: Path, *, mark: str, move: str | None, span: int, shares: Sequence[float]) -> Any:
    """Open a page and pan it; frames by the share of the run that the window shows."""
    context = browser.new_context(viewport={"width": 1280, "height": 720}, bypass_csp=True)
    opened = context.new_page()
    opened.set_default_timeout(1000 * LIMIT)
    found: dict[str, Any] = {"first_picture_ms": first_picture(opened, path, mark), "bytes": path.stat().st_size}
    if found["first_picture_ms"] is not None and move is not None:
        for share in shares:
            asked = {"count": FRAMES, "span": span, "share": share, "move": move}
            try:
                found[f"frames_{share:g}"] = spread(opened.evaluate(PAN, asked))
            except Error:
                found[f"frames_{share:g}"] = None
    context.close()
    return found


def mermaid(folder: Path) -> Path:
    subprocess.run(["npm", "install", "--silent", "--prefix", str(folder), f"mermaid@{MERMAID}"], check=True)
    return folder / "node_modules" / "mermaid" / "dist" / "mermaid.min.js"


def main() -> None:
    executable = os.environ.get("THENCE_BROWSER") or shutil.which("chromium") or shutil.which("google-chrome")
    rows: list[dict[str, Any]] = []
    with sync_playwright() as playwright, TemporaryDirectory() as made:
        folder = Path(made)
        script = mermaid(folder)
        browser = playwright.chromium.launch(executable_path=executable, args=FLAGS)
        version = browser.version
        for size in SIZES:
            events = recorded(size)
            assert len(events) == size
            pages = {"page": as_page(events), "svg": as_svg(events), "mermaid": as_mermaid(events, script)}
            for name, html in pages.items():
                (folder / f"{name}.html").write_text(html, encoding="utf-8")
            box = "document.getElementById('all').setAttribute('viewBox', `${from} 0 ${to - from} 640`)"
            ways: dict[str, tuple[str, str | None, int]] = {
                "page": ("thence-first-picture", "thence.show(from, to)", ROUNDS),
                "svg": ("first", box, ROUNDS if size < 100_000 else 1),
                "mermaid": ("first", None, 1),
            }
            for round_number in range(ROUNDS):
                for name, (mark, move, rounds) in ways.items():
                    if round_number >= rounds:
                        continue
                    start = time.monotonic()
                    shares = (1.0, 0.05, 0.01) if size > 1_000 else (1.0, 0.1)
                    path = folder / f"{name}.html"
                    found = measure(browser, path, mark=mark, move=move, span=size, shares=shares)
                    rows.append({"way": name, "events": size, "round": round_number, **found})
                    print(name, size, found, f"{time.monotonic() - start:.1f} s", flush=True)
                    if found["first_picture_ms"] is None:  # it may still be at work: a new browser for the next
                        browser.close()
                        browser = playwright.chromium.launch(executable_path=executable, args=FLAGS)
        browser.close()
    result = {"chromium": version, "mermaid": MERMAID, "processes": PROCESSES, "limit_s": LIMIT, "rows": rows}
    target = HERE / "results" / "page.json"
    target.parent.mkdir(exist_ok=True)
    target.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
