"""Writes the list of rooms in docs/house.md and their picture, so that there is one list and it cannot be wrong.

    python tools/house.py            write docs/house.md and docs/pictures/house.svg
    python tools/house.py --check    say whether they are current (exit code 1 if not)

Law. Both are made from `tools/rooms.py`: the import rules, the docstrings and the imports in the code. A room that does
not exist is not listed, and every module that the page or CONTRIBUTING names must exist. Lines are rounded, and written
anew once they are off by a tenth: so growth is seen, and not every change touches the page.
"""

from __future__ import annotations

import re
import sys

from house_picture import PICTURE, picture, unfounded
from rooms import ROOT, files_of, holds, layers, source_of

PAGE = ROOT / "docs" / "house.md"
BEGIN, END = "<!-- rooms: made by tools/house.py -->\n", "<!-- end of rooms -->\n"


def rooms(listed: str) -> str:
    """Return the table of rooms, given the one that stands there."""
    rows = ["| room | lines, about | holds |", "|---|--:|---|"]
    for names in layers():
        found = [(name, source) for name in names if (source := source_of(name)) is not None]
        for name, source in found:
            place = f"`{name}/`" if source.name == "__init__.py" else f"`{name}.py`"
            known = re.search(rf"^\| {re.escape(place)} \| ([\d,]+) \|", listed, re.M)
            rows.append(f"| {place} | {about(lines(name), known and known[1])} | {holds(source)} |")
    return "\n".join(rows) + "\n"


def lines(room: str) -> int:
    """Return how many lines of Python a room has."""
    return sum(len(file.read_text().splitlines()) for file in files_of(room))


def about(count: int, known: str | None) -> str:
    """Return a count to its second digit, or what is known of it as long as that is off by less than a tenth."""
    if known is not None and abs(int(known.replace(",", "")) - count) < 0.1 * count:
        return known
    return f"{round(count, 2 - len(str(count))):,}"


def page() -> str:
    """Return docs/house.md with the table as it should be."""
    text = PAGE.read_text()
    before, rest = text.split(BEGIN)
    listed, after = rest.split(END)
    return before + BEGIN + "\n" + rooms(listed) + "\n" + END + after


def missing() -> list[str]:
    """Return a sentence for each module or file that a page names and that does not exist."""
    places = (ROOT / "src" / "thence", ROOT)
    return [
        f"{page.name} names {name}: there is none"
        for page in (PAGE, ROOT / "CONTRIBUTING.md")
        for name in sorted(set(re.findall(r"`([\w/]+/[\w/]+\.py)`", page.read_text())))
        if not any((place / name).exists() for place in places)
    ]


def main() -> int:
    """Write the page and the picture, or with --check compare them."""
    if faults := [*unfounded(), *missing()]:
        print("\n".join(faults))
        return 1
    made = {PAGE: page(), PICTURE: picture()}
    if "--check" not in sys.argv[1:]:
        for path, text in made.items():
            path.write_text(text)
        return 0
    old = [path.name for path, text in made.items() if not path.exists() or path.read_text() != text]
    print(
        f"not current: {', '.join(old)}; run python tools/house.py"
        if old
        else "the list and picture of rooms are current"
    )
    return 1 if old else 0


if __name__ == "__main__":
    sys.exit(main())
