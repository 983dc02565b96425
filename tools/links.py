"""Checks the links between our pages: every relative link in a Markdown file leads to a file, and to a heading in it.

    python tools/links.py    exit code 1 if a link leads nowhere, and which

*Invariant.*
Links to other sites are not followed. A heading's anchor is its text in small letters, spaces as hyphens, other
signs left out, as the sites that show these pages make it. A page of the site (docs/) links to no page outside it: the
site has none; it links to the page that shows that file.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from urllib.parse import unquote

ROOT = Path(__file__).parents[1]
SITE = ROOT / "docs"
LINK = re.compile(r"(?<!\\)\]\(<?([^)\s>]+)>?(?:\s+\"[^\"]*\")?\)")
CODE = re.compile(r"^(```|~~~).*?^\1|`[^`\n]*`", re.MULTILINE | re.DOTALL)
HEADING = re.compile(r"^#{1,6} +(.+?) *#*$", re.MULTILINE)


def pages() -> list[Path]:
    """Return the Markdown files that git knows."""
    listed = subprocess.run(["git", "ls-files", "-z", "*.md"], cwd=ROOT, capture_output=True, text=True, check=True)
    return [ROOT / name for name in listed.stdout.split("\0") if name and (ROOT / name).exists()]


def anchors(text: str) -> set[str]:
    """Return the anchors of a page's headings."""
    return {
        re.sub(r"[^\w\- ]", "", re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", title).lower()).replace(" ", "-")
        for title in HEADING.findall(CODE.sub(lambda code: code[0] if code[0].startswith("`") else "", text))
    }


def broken(page: Path) -> list[str]:
    """Return what is wrong with the links of a page, a sentence each."""
    faults = []
    for target in LINK.findall(CODE.sub("", page.read_text())):
        if re.match(r"[a-z][a-z0-9+.-]*:", target):
            continue
        place, _, anchor = unquote(target).partition("#")
        file = (page.parent / place).resolve() if place else page
        if not file.exists():
            faults.append(f"{page.relative_to(ROOT)}: {target} leads to no file")
        elif page.is_relative_to(SITE) and file.suffix == ".md" and not file.is_relative_to(SITE):
            faults.append(f"{page.relative_to(ROOT)}: {target} is no page of the site")
        elif anchor and file.suffix == ".md" and anchor not in anchors(file.read_text()):
            faults.append(f"{page.relative_to(ROOT)}: {target} leads to no heading")
    return faults


def main() -> int:
    """Check all pages."""
    faults = [fault for page in pages() for fault in broken(page)]
    print("\n".join(faults) if faults else "every link leads somewhere")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
