"""A Markdown extension for the site: links that lead from a page to files of the repository which are no pages.

    markdown_extensions: [repository_links]      in mkdocs.yml, with tools/ on PYTHONPATH (`make docs` sees to it)

Law. The pages are written for readers of the repository, where every relative link leads to a file. On the site a file
that is shown by a page (`--8<--`, or under docs/) is that page; any other file has no address there, so its link is
left as the text it stands on. Pictures are under docs/. `tools/links.py` checks that all of them lead somewhere.
"""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree.ElementTree import Element

from markdown import Extension, Markdown
from markdown.treeprocessors import Treeprocessor

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
INCLUDED = re.compile(r'^--8<-- "([^"]+)"\s*$')


def shown() -> dict[Path, str]:
    """Return the files outside docs/ that a page shows, and that page."""
    found = {page: INCLUDED.match(page.read_text()) for page in DOCS.glob("*.md")}
    return {(ROOT / match[1]).resolve(): page.name for page, match in found.items() if match}


class RepositoryLinks(Treeprocessor):
    """Gives each link the address it has on the site, or none."""

    def __init__(self, md: Markdown) -> None:
        """Learn which pages show which files."""
        super().__init__(md)
        self.pages = shown()

    def run(self, root: Element) -> None:
        """Change the links of a page that lie outside docs/; those between pages stay as they are."""
        for link in root.iter("a"):
            target, _, anchor = link.get("href", "").partition("#")
            if not target or re.match(r"[a-z][a-z0-9+.-]*:", target):
                continue
            self.place(link, target, anchor)
        for picture in root.iter("img"):
            picture.set("src", picture.get("src", "").removeprefix(f"{DOCS.name}/"))

    def place(self, link: Element, target: str, anchor: str) -> None:
        """Give one link its address."""
        file = next(
            (place for base in (DOCS, ROOT, ROOT / "tests") if (place := (base / target).resolve()).exists()), None
        )
        if file is None or (target[:3] != "../" and (DOCS / target).exists()):
            return
        page = self.pages.get(file) or (str(file.relative_to(DOCS)) if file.is_relative_to(DOCS) else None)
        if page is None:
            link.tag = "span"
            del link.attrib["href"]
        else:
            link.set("href", page + (f"#{anchor}" if anchor else ""))


class RepositoryLinksExtension(Extension):
    """The extension that Markdown loads."""

    def extendMarkdown(self, md: Markdown) -> None:
        """Come before whoever turns links between pages into addresses."""
        md.treeprocessors.register(RepositoryLinks(md), "repository_links", 5)


def makeExtension(**settings: object) -> Extension:
    """Return the extension; Markdown looks for this name."""
    return RepositoryLinksExtension(**settings)
