"""The page: escaped, self-contained, the same for the same parts."""

from __future__ import annotations

import re

from thence.show.plots import figure, svg
from thence.show.results_page import STYLE, Paragraph, Picture, Section, results_page
from thence.tables.result_table import ResultTable

EVIL = '<script>alert("x")</script> & more'


def test_everything_is_escaped() -> None:
    parts = [
        Paragraph(EVIL),
        Paragraph(EVIL, plain=True),
        ResultTable(EVIL, (EVIL,), ((EVIL,),), EVIL),
        Picture(b"<svg/>", EVIL),
    ]
    made = results_page(EVIL, [Section(EVIL, parts)], lead=EVIL)
    assert "<script>" not in made
    assert (
        made.count("&lt;script&gt;") == 13
    )  # title, heading, lead, link, section, 2 words, 4 of the table, alt, caption
    assert 'alt="&lt;script&gt;alert(&quot;x&quot;)&lt;/script&gt; &amp; more"' in made


def test_it_needs_nothing_from_elsewhere() -> None:
    drawn, (panel,) = figure(2.0, 2.0)
    panel.plot([1, 2], [3, 4])
    section = Section("Figure 1, n = 6", [Picture(svg(drawn), "b")])
    made = results_page("a", [section])
    assert re.findall(r'(?:src|href)="([^"]{5})', made) == ["#figu", "data:"]
    assert '<section id="figure-1-n-6">' in made
    assert "http" not in re.sub(r"base64,[^\"]*", "", made)
    assert made == results_page("a", [section])


def test_verdicts_have_a_tone() -> None:
    html = ResultTable("t", ("v",), (("reproduced",), ("differs",), ("not determinable",), ("else",))).html()
    assert re.findall(r'class="(\w+)"', html) == ["good", "bad", "open"]


def test_backticks_become_code_and_what_is_in_them_stays_escaped() -> None:
    html = results_page("t", [Section("s", [Paragraph("run `a <b>` now"), Paragraph("`raw`", plain=True)])], lead="`x`")
    assert "<p>run <code>a &lt;b&gt;</code> now</p>" in html
    assert "<pre>`raw`</pre>" in html
    assert "<p><code>x</code></p>" in html


def test_every_colour_of_text_can_be_read_on_its_background() -> None:
    """The contrast of WCAG 2: at least 4.5 for text, light and dark."""

    def light(colour: str) -> float:
        whole = colour if len(colour) == 7 else "#" + "".join(2 * c for c in colour[1:])
        parts = [int(whole[at : at + 2], 16) / 255 for at in (1, 3, 5)]
        red, green, blue = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts)
        return 0.2126 * red + 0.7152 * green + 0.0722 * blue

    schemes = re.findall(r":root \{(.*?)\}", STYLE, re.DOTALL)
    assert len(schemes) == 2
    for scheme in schemes:
        colours = dict(re.findall(r"--(\w+): (#\w+)", scheme))
        for name in ("ink", "soft", "good", "bad", "open"):
            low, high = sorted([light(colours[name]), light(colours["back"])])
            assert (high + 0.05) / (low + 0.05) >= 4.5, (name, colours[name])
