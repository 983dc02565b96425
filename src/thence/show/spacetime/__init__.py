"""The space-time page: runs, violations and counterexamples as one self-contained HTML file.

    from thence.show.spacetime import page
    Path("run.html").write_text(page(scenes), encoding="utf-8")

*Invariant.* A page is a function of its scenes. It needs no server and no network, and its content security policy
forbids what it does not need. Names are data: they are shown and never run. Payloads are never put into a page.

The page's own program is in the files beside this one: small ES modules (`*.js`), a style sheet and a frame
(`page.html`), which `assemble` puts together as they stand.
"""

from thence.show.spacetime.assemble import spacetime_page
from thence.show.spacetime.encode import PAGE_EVENTS

__all__ = ["PAGE_EVENTS", "spacetime_page"]
