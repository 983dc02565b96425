"""The page: escaped, self-contained, the same for the same parts."""

from __future__ import annotations

import re

from thence.show.plots import figure, svg
from thence.show.results_page import Picture, Section, Words, page
from thence.tables.result_table import Table

EVIL = '<script>alert("x")</script> & more'


def test_everything_is_escaped() -> None:
    parts = [Words(EVIL), Words(EVIL, plain=True), Table(EVIL, (EVIL,), ((EVIL,),), EVIL), Picture(b"<svg/>", EVIL)]
    made = page(EVIL, [Section(EVIL, parts)], lead=EVIL)
    assert "<script>" not in made
    assert (
        made.count("&lt;script&gt;") == 13
    )  # title, heading, lead, link, section, 2 words, 4 of the table, alt, caption
    assert 'alt="&lt;script&gt;alert(&quot;x&quot;)&lt;/script&gt; &amp; more"' in made


def test_it_needs_nothing_from_elsewhere() -> None:
    drawn, (panel,) = figure(2.0, 2.0)
    panel.plot([1, 2], [3, 4])
    section = Section("Figure 1, n = 6", [Picture(svg(drawn), "b")])
    made = page("a", [section])
    assert re.findall(r'(?:src|href)="([^"]{5})', made) == ["#figu", "data:"]
    assert '<section id="figure-1-n-6">' in made
    assert "http" not in re.sub(r"base64,[^\"]*", "", made)
    assert made == page("a", [section])


def test_verdicts_have_a_tone() -> None:
    html = Table("t", ("v",), (("reproduced",), ("differs",), ("not determinable",), ("else",))).html()
    assert re.findall(r'class="(\w+)"', html) == ["good", "bad", "open"]
