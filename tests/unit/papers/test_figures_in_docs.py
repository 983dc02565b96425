"""What the docs say of the results is what the results say."""

from __future__ import annotations

import inspect
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
sys.path.insert(0, str(ROOT / "benchmarks" / "reproduce"))

import pages  # noqa: E402
import prose  # noqa: E402
import stated  # noqa: E402

from thence.lab.papers.chapter7.experiments import PUBLISHED, SCENARIOS  # noqa: E402

ERRATA = tomllib.loads((ROOT / "benchmarks" / "explore" / "errata.toml").read_text(encoding="utf-8"))["finding"]
PAGE = "\n".join(page.read_text(encoding="utf-8") for page in (ROOT / "docs/explanation/errata").glob("*.md"))


def test_the_section_of_the_page_is_made_from_the_results() -> None:
    page = prose.PAGE.read_text(encoding="utf-8")
    assert prose.current(page) == page, "run benchmarks/reproduce/prose.py"


def test_another_result_would_be_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    by = prose.claims()
    by["ks98"]["minimum-copies"]["ours"] = "1 of 1 copies equal it"
    monkeypatch.setattr(prose, "claims", lambda: by)
    page = prose.PAGE.read_text(encoding="utf-8")
    assert prose.current(page) != page


@pytest.mark.parametrize("finding", ERRATA, ids=lambda finding: str(finding["number"]))
def test_the_errata_page_has_the_words_and_figures_of_its_source(finding: dict) -> None:
    """The diagrams are found again by tests/explorer/test_errata_found.py; the words are those of errata.toml."""
    quoted = prose.figures()
    for part in ("text", "repair", "evidence"):
        text = finding.get(part, "")
        assert (prose.filled(text, quoted) if "{" in text else text).strip() in PAGE
    assert f"### {finding['number']}. {finding['title']}" in PAGE


@pytest.mark.parametrize("name", pages.SECTIONS)
def test_other_pages_are_made_from_their_results_too(name: str) -> None:
    page = (ROOT / "docs" / pages.SECTIONS[name][0]).read_text(encoding="utf-8")
    assert pages.current(name, page) == page, "run benchmarks/reproduce/pages.py"


def test_another_result_would_be_noticed_there_too(monkeypatch: pytest.MonkeyPatch) -> None:
    page = (ROOT / "docs" / "explanation/paper-genuine-multicast.md").read_text(encoding="utf-8")
    read = pages.result
    monkeypatch.setattr(
        pages, "result", lambda path: {k: r | {"states": 7} if "states" in r else r for k, r in read(path).items()}
    )
    assert pages.current("tried", page) != page


@pytest.mark.parametrize("sentence", stated.SENTENCES, ids=lambda sentence: f"{sentence.page}: {sentence.text[:40]}")
def test_figures_in_sentences_are_those_of_results_and_code(sentence: stated.Sentence) -> None:
    page = (ROOT / "docs" / sentence.page).read_text(encoding="utf-8")
    assert stated.current(sentence, page) == page, "run benchmarks/reproduce/stated.py"


def test_a_figure_in_a_sentence_that_is_wrong_is_put_right() -> None:
    sentence = stated.Sentence("x.md", "{few} of {many} runs", lambda: {"few": 3, "many": "1,000"})
    assert stated.current(sentence, "so 7 of\n12 runs go") == "so 3 of\n1,000 runs go"
    with pytest.raises(AssertionError, match="0 times"):
        stated.current(sentence, "so some runs go")


def test_the_command_samples_what_the_page_says() -> None:
    from thence.cli import cost
    from thence.tables.engines.local.cost import SAMPLED

    assert inspect.signature(cost.command).parameters["sample"].default == SAMPLED


def test_errata_have_numbers_of_their_own() -> None:
    numbers = [finding["number"] for finding in ERRATA]
    assert sorted(numbers) == list(range(1, len(numbers) + 1))


def test_one_quantity_has_one_number() -> None:
    """Table 7.1 in erratum 17 and on the page of its paper, figure 7.5 there and in reproduce.md."""
    quoted = prose.figures()
    page = (ROOT / "docs" / "explanation/paper-separators.md").read_text(encoding="utf-8")
    for n in (6, 10):
        for name, row in zip(("none", "s2", "all"), SCENARIOS, strict=True):
            assert f"| {row} | {PUBLISHED[row][n]:.2f} | {quoted[f'cell-{name}-{n}']} |" in page
            assert quoted[f"cell-{name}-{n}"] in PAGE
    assert f"carry {quoted['gateway']} against" in page
    assert f"have {quoted['gateway']} elements" in prose.PAGE.read_text(encoding="utf-8")


def test_erratum_1_names_what_was_explored() -> None:
    """Its sizes are rows of the benchmark, on both kinds of channels."""
    known = [row["setting"] for row in pages.result("explore/results/speed.json")["rows"]]
    sizes = [(3, 5, None), (4, 4, None), (3, 4, "any")]
    for processes, messages, destinations in sizes:
        for fifo in (False, True):
            wanted = {"protocol": "ks", "processes": processes, "messages": messages}
            wanted |= ({"destinations": destinations} if destinations else {}) | ({"fifo": True} if fifo else {})
            assert wanted in known
    (one, two, _), (three, four, _), (five, six, _) = sizes
    said = (
        f"{one} processes with {two} unicasts, {three} with {four}, and {five} with {six} messages to any destinations"
    )
    assert said in " ".join(PAGE.split())
