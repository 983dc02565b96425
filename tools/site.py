"""Finish the site: its address, and a stub at each address that a page had in an earlier release.

    python tools/site.py                 print the address of the documentation in [project.urls], if there is one
    python tools/site.py FOLDER ...      write the stubs into built sites

A stub is a page that sends the browser on. It holds relative links, so the site works from any address and from disk.
"""

import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
API = "auditing check costing delivery errors index metrics model protocols report runtime sim sources spark testing"
MOVED = {
    "how-to": "agents from-tables gate show",
    "laboratory": "cost explore reproduce simulate sweep topology",
    "reference": "any-file dependencies environment glossary live protocols sources trace wire "
    + " ".join(f"api/{name}" for name in (*API.split(), "thence", "topology", "trace")),
    "explanation": "architecture audit compare errata formal lying-peers paper-bounded paper-ci-dc "
    "paper-genuine-multicast paper-ks98 paper-separators",
    "project": "changes contributing tests",
}
"""Pages of 0.1.0, which had no folders, under the folder that each is in now."""
RENAMED = {"deliver": "explanation/delivery-rule", "tutorial": "tutorials/shop"}
STUB = """\
<!doctype html>
<meta charset="utf-8">
<title>Moved</title>
<link rel="canonical" href="{target}">
<meta http-equiv="refresh" content="0; url={target}">
<p>This page has moved <a href="{target}">here</a>.</p>
"""


def moved() -> dict[str, str]:
    """Return the page that each earlier one became, without endings."""
    return {name: f"{folder}/{name}" for folder, names in MOVED.items() for name in names.split()} | RENAMED


def stubs() -> Iterator[tuple[Path, str]]:
    """Yield the place of each stub in a built site, and its text."""
    for old, new in moved().items():
        place, target = (name.removesuffix("index").rstrip("/") for name in (old, new))
        up = "../" * len(Path(place).parts)
        yield Path(place) / "index.html", STUB.format(target=f"{up}{target}/")


def address() -> str:
    """Return the address of the documentation, or nothing."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return str(project.get("urls", {}).get("Documentation", ""))


def main() -> None:
    """Print the address, or write the stubs into the sites that are named."""
    if not sys.argv[1:]:
        print(address())
    for folder in map(Path, sys.argv[1:]):
        for place, text in stubs():
            target = folder / place
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
