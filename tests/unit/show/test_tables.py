"""Tables as data, as cells, as HTML."""

from __future__ import annotations

from thence.core.model.order import judge
from thence.core.protocols.registry import REGISTRY
from thence.lab.simulator import Scenario, simulate
from thence.show.simulation import comparison_table, cpu_table, measures_table, outcome_table, protocols_tables
from thence.tables.result_table import ResultTable, text


def test_cells() -> None:
    assert [text(cell) for cell in (None, 3, 0.123456, 12345.6, "x", 2.0)] == ["", "3", "0.1235", "12346", "x", "2"]


def test_html_is_escaped_and_marks_numbers() -> None:
    table = ResultTable("a < b", ("name", "n"), (("<x>", 1), ("y", None)), note="1 & 2")
    assert table.html() == (
        "<table>\n<caption>a &lt; b</caption>\n"
        '<thead><tr><th>name</th><th class="number">n</th></tr></thead>\n'
        '<tbody>\n<tr><td>&lt;x&gt;</td><td class="number">1</td></tr>\n'
        '<tr><td>y</td><td class="number"></td></tr>\n</tbody>\n</table>\n<p>1 &amp; 2</p>\n'
    )


def test_a_run_as_tables() -> None:
    result = simulate(Scenario(protocol="synchronous", fanout="unicast", messages=60), cpu=True, trace=True)
    assert result.measures is not None
    assert result.cpu is not None
    outcome = dict(outcome_table(result.outcome).rows)
    assert outcome["messages sent"] == outcome["deliveries"] == outcome["hops: ack"] == 60
    measures = {row[0]: row[1] for row in measures_table(result.measures).rows}
    assert measures["copies_per_message"] == 1.0
    assert [row[:2] for row in cpu_table(result.cpu).rows] == [("send", 60), ("receive", 120)]
    (row,) = comparison_table([(result, judge(result.events))]).rows
    assert row[0] == "synchronous"
    assert row[-1] == "causal"


def test_the_registry_as_a_table() -> None:
    tables = protocols_tables(list(REGISTRY.values()))
    assert sorted(str(row[0]) for table in tables for row in table.rows) == sorted(REGISTRY)
    assert all(len(row) == len(table.columns) for table in tables for row in table.rows)
