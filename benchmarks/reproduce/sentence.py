"""A sentence of a page whose figures are taken from results or from code: see stated.py."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

Figures = dict[str, object]
FIGURE = r"[\d.,]*\d"


class Sentence(NamedTuple):
    """A page, a sentence of it with names for its figures, and where these come from."""

    page: str
    text: str
    figures: Callable[[], Figures]


def current(sentence: Sentence, page: str) -> str:
    """Return the page with the figures of one sentence as they should be."""
    figures = sentence.figures()
    names = re.findall(r"\{([a-z-]+)\}", sentence.text)
    words = [re.escape(part) for part in re.split(r"\{[a-z-]+\}", sentence.text)]
    pattern = re.sub(r"(\\ )+", r"\\s+", f"({FIGURE})".join(words))
    found = list(re.finditer(pattern, page))
    assert len(found) == 1, f"{sentence.page} has {sentence.text!r} {len(found)} times"
    for place in range(len(names), 0, -1):
        begin, end = found[0].span(place)
        page = f"{page[:begin]}{figures[names[place - 1]]}{page[end:]}"
    return page
