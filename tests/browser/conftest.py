"""A real browser: Chromium from this machine, driven by Playwright, without network."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, sync_playwright

FLAGS = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
]  # fmt: skip
NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")

Open = Callable[..., Page]
PATIENCE = 300_000
"""milliseconds: a browser on a busy machine is slow, not broken"""


def executable() -> str:
    found = os.environ.get("THENCE_BROWSER") or next(filter(None, map(shutil.which, NAMES)), None)
    assert found, f"no browser: install one of {', '.join(NAMES)}, or say where it is with THENCE_BROWSER"
    return found


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=executable(), args=FLAGS, timeout=PATIENCE)
        yield launched
        launched.close()


@pytest.fixture
def open_page(browser: Browser, tmp_path: Path) -> Iterator[Open]:
    """Open a page's text, or a file, from disk; nothing may go wrong in it and nothing may be asked of a network."""
    troubles: list[str] = []
    contexts: list[BrowserContext] = []

    def opened(html: str | Path, *, fragment: str = "", **options: Any) -> Page:
        path = html if isinstance(html, Path) else tmp_path / f"page{len(contexts)}.html"
        if isinstance(html, str):
            path.write_text(html, encoding="utf-8")
        context = browser.new_context(viewport=options.pop("viewport", {"width": 1280, "height": 720}), **options)
        context.set_default_timeout(PATIENCE)
        contexts.append(context)
        page = context.new_page()
        page.on("pageerror", lambda error: troubles.append(str(error)))
        page.on("console", lambda said: troubles.append(said.text) if said.type in ("error", "warning") else None)
        page.on("request", lambda asked: troubles.append(asked.url) if not asked.url.startswith("file:") else None)
        page.on("dialog", lambda dialog: troubles.append(f"dialog {dialog.message}"))
        page.goto(path.resolve().as_uri() + (f"#{fragment}" if fragment else ""))
        page.wait_for_selector("html[data-ready=yes]")
        return page

    yield opened
    for context in contexts:
        context.close()
    assert troubles == []
