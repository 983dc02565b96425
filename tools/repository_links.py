"""A Markdown extension for the site: links from a page to files of the repository that are not pages.

    markdown_extensions: [repository_links]      in mkdocs.yml, with tools/ on PYTHONPATH (`make docs` sees to it)

Pages are written for readers of the repository, where every relative link leads to a file. On the site, a file shown
by a page (`--8<--`, or under docs/) becomes a link to that page. Any other file has no address there: its link becomes
plain text. `tools/links.py` checks that every link leads somewhere.

A builder does not say which page it converts, so the page is recognised by its text.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from xml.etree.ElementTree import Element

from markdown import Extension, Markdown
from markdown.preprocessors import Preprocessor
from markdown.treeprocessors import Treeprocessor

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
INCLUDED = re.compile(r'^--8<-- "([^"]+)"\s*$')
FRONT_MATTER = re.compile(r"\A---\n.*?\n---\n", re.DOTALL)


def _squeezed(text: str) -> str:
    return "".join(FRONT_MATTER.sub("", text).split())


class Page(Preprocessor):
    """Finds the page that is being converted, before its snippets are filled in."""

    def __init__(self, md: Markdown) -> None:
        """Read all pages once."""
        super().__init__(md)
        texts = {page: page.read_text() for page in sorted(DOCS.rglob("*.md"))}
        self.by_text = {_squeezed(text): page for page, text in texts.items()}
        included = {page: match[1] for page, text in texts.items() if (match := INCLUDED.match(text))}
        self.source = {page: (ROOT / name).resolve() for page, name in included.items()}
        self.shown = {file: page for page, file in self.source.items()}
        self.page: Path | None = None

    def run(self, lines: list[str]) -> list[str]:
        """Remember the page; its text stays as it is."""
        self.page = self.by_text.get(_squeezed("\n".join(lines)))
        return lines


class RepositoryLinks(Treeprocessor):
    """Gives each link the address it has on the site, or none."""

    def __init__(self, md: Markdown, page: Page) -> None:
        """Keep the preprocessor that knows the page."""
        super().__init__(md)
        self.pages = page

    def run(self, root: Element) -> None:
        """Change links that leave docs/, and those of files that a page includes."""
        if self.pages.page is None:
            return
        for link in root.iter("a"):
            self.place(link, "href")
        for picture in root.iter("img"):
            self.place(picture, "src")

    def place(self, link: Element, attribute: str) -> None:
        """Give one link its address."""
        page = self.pages.page
        target, _, anchor = link.get(attribute, "").partition("#")
        if page is None or not target or re.match(r"[a-z][a-z0-9+.-]*:|/", target):
            return
        file = (self.pages.source.get(page, page).parent / target).resolve()
        file = self.pages.shown.get(file, file)
        if not file.exists():
            return
        if not file.is_relative_to(DOCS):
            link.tag = "span"
            del link.attrib[attribute]
        else:
            address = os.path.relpath(file, page.parent)
            link.set(attribute, address + (f"#{anchor}" if anchor else ""))


class RepositoryLinksExtension(Extension):
    """The extension that Markdown loads."""

    def extendMarkdown(self, md: Markdown) -> None:
        """Run before snippets are read (32), and before links between pages become addresses (0)."""
        page = Page(md)
        md.preprocessors.register(page, "repository_page", 40)
        md.treeprocessors.register(RepositoryLinks(md, page), "repository_links", 5)


def makeExtension(**settings: object) -> Extension:
    """Return the extension; Markdown looks for this name."""
    return RepositoryLinksExtension(**settings)
