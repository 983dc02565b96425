"""Make the pictures of docs/how-to/show.md and the README: a page, opened in Chromium, photographed.

    python benchmarks/page/pictures.py [FOLDER]

One PNG each, into docs/pictures unless a folder is given. `--all FOLDER` makes each in both colour schemes and in a
narrow window as well, to be looked at.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from playwright.sync_api import Page, sync_playwright

from thence.cli import main
from thence.show.reproduced import side_by_side_page

ROOT = Path(__file__).parents[2]
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run", "--disable-sync"]


@dataclass(frozen=True)
class Picture:
    name: str
    make: Callable[[Path], None]
    """Write the page."""
    act: Callable[[Page], None]
    scheme: str = "light"


def late(path: Path) -> None:
    trace = path.with_suffix(".jsonl")
    simulated = ["simulate", "--protocol", "unordered", "--processes", "5", "--messages", "60", "--seed", "3"]
    assert main([*simulated, "--trace", str(trace), "--quiet"]) == 0
    assert main(["show", str(trace), "--out", str(path), "--quiet"]) == 0


def beside(path: Path) -> None:
    path.write_text(side_by_side_page(), encoding="utf-8")


def counterexample(path: Path) -> None:
    fails = ["explore", "--protocol", "fifo", "--property", "causal order", "--quiet"]
    assert main([*fails, "--page", str(path)]) == 1


def stepped(page: Page) -> None:
    for _ in range(30):
        page.click("#forward")


def chosen(page: Page) -> None:
    page.click("#findings button")


PICTURES = (
    Picture("violation", late, chosen),
    Picture("side-by-side", beside, stepped, "dark"),
    Picture("counterexample", counterexample, chosen),
)


def photograph(folder: Path, *, everything: bool) -> None:
    browser_path = os.environ.get("THENCE_BROWSER") or shutil.which("chromium") or shutil.which("google-chrome")
    with sync_playwright() as playwright, TemporaryDirectory() as made:
        browser = playwright.chromium.launch(executable_path=browser_path, args=FLAGS)
        for picture in PICTURES:
            path = Path(made) / f"{picture.name}.html"
            picture.make(path)
            views = [("", picture.scheme, 1280, 640)]
            if everything:
                views = [(f"-{s}-{w}", s, w, h) for s in ("light", "dark") for w, h in ((1280, 640), (420, 860))]
            for suffix, scheme, width, height in views:
                page = browser.new_page(viewport={"width": width, "height": height}, color_scheme=scheme)  # type: ignore[arg-type]
                page.goto(path.as_uri())
                page.wait_for_selector("html[data-ready=yes]")
                picture.act(page)
                page.wait_for_timeout(300)
                page.screenshot(path=str(folder / f"{picture.name}{suffix}.png"))
                page.close()
        browser.close()


if __name__ == "__main__":
    everything = "--all" in sys.argv
    given = [argument for argument in sys.argv[1:] if argument != "--all"]
    folder = Path(given[0]) if given else ROOT / "docs" / "pictures"
    folder.mkdir(parents=True, exist_ok=True)
    photograph(folder, everything=everything)
