"""Logs with vector clocks, in the layouts people have."""

from __future__ import annotations

import gzip
import sys
from pathlib import Path
from time import process_time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from thence.core.model.events import parse
from thence.errors import MisuseError
from thence.tables.export.shiviz import write_shiviz
from thence.tables.files.formats import detect
from thence.tables.files.patterns import DELIMITER, EVENT, finder
from thence.tables.files.shiviz import ClockEvent, parse_clock, parse_log, read_shiviz
from thence.tables.files.source import Quarantined

LOGS = Path(__file__).parents[2] / "data" / "shiviz"


def read(text: str, **given: str) -> tuple[list[ClockEvent], list[Quarantined]]:
    found = list(parse_log(text, "x.log", **given))
    return [e for e in found if isinstance(e, ClockEvent)], [e for e in found if isinstance(e, Quarantined)]


def brief(events: list[ClockEvent]) -> list[tuple[int, str, dict[str, int], str]]:
    return [(event.line, event.host, event.clock, event.text) for event in events]


@pytest.mark.parametrize(
    ("name", "events", "hosts", "runs", "over"),
    [
        ("chord.log.gz", 1235, 8, [None], []),
        ("simpledb.log.gz", 509, 5, [None], []),
        ("facebook-multiple.log", 88, 4, ["Execution #1", "Execution #2"], []),
        ("reliable-broadcast.log", 116, 4, [None], [8]),
        ("simple-reliable-broadcast.log", 39, 3, [None], []),
    ],
)
def test_real_logs_need_no_pattern(name: str, events: int, hosts: int, runs: list[str | None], over: list[int]) -> None:
    found: list[Quarantined] = []
    read = list(read_shiviz(LOGS / name, found))
    assert (len(read), len({event.host for event in read})) == (events, hosts)
    assert list(dict.fromkeys(event.run for event in read)) == runs
    assert [each.line for each in found] == over


def test_a_line_of_a_real_log_without_a_clock_is_not_lost() -> None:
    found: list[Quarantined] = []
    list(read_shiviz(LOGS / "reliable-broadcast.log", found))
    assert found[0].reason == "the line belongs to no event with a clock"
    assert "Message [SLDeliver] from Actor" in (found[0].text or "")


FIRST = [(1, "a", {"a": 1}, "one"), (3, "b", {"a": 1, "b": 1}, "two")]
SECOND = [(2, "a", {"a": 1}, "one"), (4, "b", {"a": 1, "b": 1}, "two")]
ONE = [(1, "a", {"a": 1}, "one"), (2, "b", {"a": 1, "b": 1}, "two")]


@pytest.mark.parametrize(
    ("text", "events"),
    [
        ('a {"a":1}\none\nb {"a":1, "b":1}\ntwo\n', FIRST),
        ('17 a {"a":1}\none\n18 b {"a":1, "b":1}\ntwo\n', FIRST),
        ('one\na {"a":1}\ntwo\nb {"a":1, "b":1}', SECOND),
        ('one\r\na {"a":1}\r\ntwo\r\nb {"a":1, "b":1}\r\n', SECOND),
        ('\n\none\na {"a":1}\n\n\ntwo\nb {"a":1, "b":1} \n', [(4, *FIRST[0][1:]), (8, *FIRST[1][1:])]),
        ('a {"a":1} one\nb {"a":1, "b":1} two\n', ONE),
        ('[INFO] 10:00 [sys/user/a] { "a" : 1 } one\n[INFO] 10:01 [sys/user/b] {"a":1,"b":1} two', ONE),
        ('a "one" {"a":1}\nb "two" {"a":1, "b":1}\n', ONE),
        ('(?<host>\\S*) (?<clock>{.*})\\n(?<event>.*)\n\na {"a":1}\none\n', [(3, "a", {"a": 1}, "one")]),
        ('a {"a":1}\n\nb {"b":1}\nx', [(1, "a", {"a": 1}, ""), (3, "b", {"b": 1}, "x")]),
        ("", []),
        ("\n \n", []),
    ],
)
def test_layouts(text: str, events: list[tuple[int, str, dict[str, int], str]]) -> None:
    found, over = read(text)
    assert (brief(found), over) == (events, [])


def test_a_pattern_of_the_viewer_and_one_of_python() -> None:
    text = 'at a: one; {"a":1}\nat b: two; {"a":1, "b":1}\nchatter\n'
    for pattern in (
        r"at (?<host>\w+): (?<event>.*); (?<clock>\{.*\})",
        r"at (?P<host>\w+): (?P<event>.*); (?P<clock>\{.*\})",
    ):
        found, over = read(text, pattern=pattern)
        assert brief(found) == ONE
        assert [(each.line, each.text) for each in over] == [(3, "chatter")]


def test_the_pattern_given_wins_over_the_one_in_the_file() -> None:
    text = '(?<host>x) (?<clock>y)(?<event>z)\n-- (?<trace>.*) --\n-- p --\na {"a":1} one\n-- q --\nb {"b":1} two\n'
    found, over = read(text, pattern=r"(?<host>\S*) (?<clock>{.*}) (?<event>.*)")
    assert [(event.run, event.host, event.line) for event in found] == [("p", "a", 4), ("q", "b", 6)]
    assert over == []


def test_executions_are_parted_and_named() -> None:
    lines = 'a {"a":1}\none\n'
    text = f"=== p ===\n{lines}=== q ===\n{lines}=== p ===\n{lines}"
    assert [(event.run, event.line) for event in read(text)[0]] == [("p", 2), ("q", 5), ("p (2)", 8)]
    text = f"{lines}----\n{lines}----\n{lines}"
    found = read(text, delimiter="^-+$")[0]
    assert [(event.run, event.line) for event in found] == [(None, 1), ("x.log #1", 4), ("x.log #2", 7)]


def test_a_text_like_a_delimiter_parts_nothing_unless_the_log_begins_with_one() -> None:
    found, over = read('a {"a":1}\none\na {"a":2}\n=== two ===\n')
    assert [event.run for event in found] == [None, None]
    assert found[1].text == "=== two ==="
    assert over == []


@pytest.mark.parametrize(
    ("clock", "reason"),
    [
        ('{"a":1', "the line belongs to no event with a clock"),
        ('{"a":1,}', "the clock is not JSON: "),
        ('{"a":1,"a":2}', "the clock is not JSON: a host stands twice"),
        ('{"a":"1"}', "the clock says '1' for 'a'; a count is accepted"),
        ('{"a":-1}', "the clock says -1 for 'a'; a count is accepted"),
        ('{"a":true}', "the clock says True for 'a'; a count is accepted"),
        ('{"b":1}', "the clock has no count for its own host 'a'"),
        ('{"a":0}', "the clock has no count for its own host 'a'"),
    ],
)
def test_bad_clocks_are_named_by_line(clock: str, reason: str) -> None:
    found, over = read(f'a {{"a":1}}\none\na {clock}\ntwo\na {{"a":3}}\nthree\n')
    assert [event.own for event in found] == [1, 3]
    assert over[0].line == 3
    assert over[0].reason.startswith(reason)


def test_a_clock_that_is_no_object() -> None:
    assert parse_clock("[1]", "a") == "the clock is list; a JSON object is accepted"


def test_a_log_in_no_known_layout_is_one_record() -> None:
    assert read("hello\nworld\n") == (
        [],
        [
            Quarantined(
                "x.log",
                None,
                "no line has a host and a clock in a known layout; "
                "a pattern with the groups host, clock and event is accepted",
            )
        ],
    )
    assert read("hello", pattern="(?<host>a)(?<clock>b)(?<event>c)")[1][0].reason.startswith("no line fits")


@pytest.mark.parametrize(
    ("pattern", "text"),
    [("(?<host>a", "is not a regular expression"), (r"(?<host>\w+) (?<event>.*)", r"has no group \(\?<clock>")],
)
def test_a_bad_pattern_is_the_callers_fault(pattern: str, text: str) -> None:
    with pytest.raises(MisuseError, match=text):
        read("a", pattern=pattern)


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        (r"(?<=x)(?<host>\w+)", "it uses lookaround"),
        (r"(?<host>\w+)(?!y)", "it uses lookaround"),
        (r"(?<host>\w+)\1", r"it refers back \(\\1\), which cannot be done in linear time"),
        (r"(?<host>(a{1,1000}){1,1000})", "invalid repetition size"),
        ("(?<host>\ud800)", "is not a regular expression"),
    ],
)
def test_what_cannot_be_done_in_linear_time_is_refused(pattern: str, text: str) -> None:
    with pytest.raises(MisuseError, match=text):
        finder(pattern, ("host",))


def test_a_pattern_cannot_hang_us() -> None:
    """The time of a backtracking engine would double with each letter."""
    text = r"(?<host>(a+)+)b (?<clock>{.*}) (?<event>.*)" + "\n\n" + "a" * 50_000 + '\naab {"aa":1} one\n'
    found, over = read(text)
    assert brief(found) == [(4, "aa", {"aa": 1}, "one")]
    assert [each.line for each in over] == [3]


def test_a_pattern_counts_characters_and_not_bytes() -> None:
    text = 'é {"é":1} naïve\nnoise ü\nü {"ü":1} 二\n'
    found, over = read(text, pattern=r"^(?<host>\S+) (?<clock>{.*}) (?<event>.*)$")
    assert brief(found) == [(1, "é", {"é": 1}, "naïve"), (3, "ü", {"ü": 1}, "二")]
    assert [each.line for each in over] == [2]


def test_escaped_quotes_are_read_where_nothing_else_is_found() -> None:
    text = r'a {\"a\":1} "one"' + "\n" + r"b {\"a\":1, \"b\":1} two" + "\n"
    for options in ({}, {"pattern": r"(?<host>\S+) (?<clock>{.*}) (?<event>.*)"}):
        found, over = read(text, **options)
        assert [(event.line, event.host, event.clock) for event in found] == [
            (1, "a", {"a": 1}),
            (2, "b", {"a": 1, "b": 1}),
        ]
        assert over == []
    found, over = read('a {"a":1} one\nb {\\"b\\":1} two\n')
    assert [(event.line, event.host) for event in found] == [(1, "a")]
    assert [each.line for each in over] == [2]


def test_bytes_that_are_not_utf8_cost_only_what_they_touch(tmp_path: Path) -> None:
    path = tmp_path / "x.log"
    path.write_bytes(b'a {"a":1}\nna\xefve\n\xff {"\xff":1}\ntwo\n')
    over: list[Quarantined] = []
    assert [event.text for event in read_shiviz(path, over)] == ["na\ufffdve"]
    assert [(each.line, each.reason) for each in over] == [(3, "a host in the clock is not UTF-8")]


def test_gzip_and_damage(tmp_path: Path) -> None:
    path = tmp_path / "x.log.gz"
    packed = gzip.compress(b'a {"a":1}\none\n' * 9)
    over: list[Quarantined] = []
    path.write_bytes(packed)
    assert len(list(read_shiviz(path, over))) == 9
    path.write_bytes(packed[:-9])
    assert list(read_shiviz(path, over)) == []
    assert [each.reason.partition(":")[0] for each in over] == ["the file breaks off"]


@given(
    st.lists(st.sampled_from(["a", "é", " ", "{", "}", "\n", "\t", "\f", "\xa0", "===", "=", " {", "}\n", "\n\n"])).map(
        "".join
    )
)
@pytest.mark.parametrize(("pattern", "groups"), [(EVENT, ("host", "clock", "event")), (DELIMITER, ())])
def test_the_patterns_that_we_write_are_found_as_by_re2(pattern: str, groups: tuple[str, ...], text: str) -> None:
    by_re2 = finder(f"(?:{pattern})", groups)
    assert list(finder(pattern, groups)(text)) == list(by_re2(text))


def test_a_log_that_we_wrote_needs_no_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "re2", None)
    events = [*parse("a!1>b b?a1", run="one"), *parse("p!1>q q?p1", run="two")]
    write_shiviz(events, tmp_path / "t.log")
    found: list[Quarantined] = []
    read = list(read_shiviz(tmp_path / "t.log", found))
    assert [(event.run, event.host, event.clock, event.text) for event in read] == [
        ("one", "a", {"a": 1}, "send a1 to b"),
        ("one", "b", {"a": 1, "b": 1}, "deliver a1"),
        ("two", "p", {"p": 1}, "send p1 to q"),
        ("two", "q", {"p": 1, "q": 1}, "deliver p1"),
    ]
    assert found == []
    with pytest.raises(MisuseError, match="a pattern of your own needs google-re2"):
        finder("(?<host>a)")


STATES = """=== 78 actions ===

TLC2 Version 2.16
Error: The behavior up to this point is:
State 1: <Init line 31, col 3 to line 41, col 49 of module M>
/\\ color = (n1 :> "white" @@ n2 :> "white")

State 2: <SendMsg line 118, col 3 to line 128, col 32 of module M>
/\\ Host = n2
/\\ Clock = "{\\"n1\\":0,\\"n2\\":1}"
/\\ active = (n1 :> TRUE @@ n2 :> TRUE)
/\\ color = (n1 :> "white" @@ n2 :> "white")
/\\ counter = (n1 :> 0 @@ n2 :> 1)
/\\ inbox = (n1 :> <<>>)

State 13: <RecvMsg line 133, col 3 to line 146, col 19 of module M>
/\\ Host = n1
/\\ Clock = "{\\"n1\\":1,\\"n2\\":1}"
/\\ active = (n1 :> TRUE @@ n2 :> TRUE)
/\\ color = (n1 :> "white" @@ n2 :> "white")
/\\ counter = (n1 :> 0 @@ n2 :> 1)

4242 states generated
"""
"""As TLC prints a trace whose alias has `Host` and `Clock`; the viewer's example `ewd998.log` is one."""
VIEWER = (
    r'^State [0-9]+: <(?<event>\w*) .*>\n\/\\ Host = (?<host>.*)\n\/\\ Clock = "(?<clock>.*)"\n'
    r"\/\\ active = (?<active>.*)\n\/\\ color = (?<color>.*)\n\/\\ counter = (?<counter>.*)"
)


@pytest.mark.parametrize("given", [{}, {"pattern": VIEWER, "delimiter": "^=== (?<trace>.*) ===$"}])
def test_a_report_of_tlc_is_a_log(given: dict[str, str]) -> None:
    events, over = read(STATES, **given)
    assert brief(events) == [(10, "n2", {"n1": 0, "n2": 1}, "SendMsg"), (18, "n1", {"n1": 1, "n2": 1}, "RecvMsg")]
    assert ({event.run for event in events}, over) == ({"78 actions"}, [])


TLA = """{"N":2}
{"event":">","node":0,"pkt":{"snd":0,"rcv":1,"msg":{"type":"pl"},"vc":{"0":1,"1":0}}}
{"event":"<","node":1,"pkt":{"snd":0,"rcv":1,"msg":{"type":"pl"},"vc":{"0":1,"1":1}},"failure":"refused"}
{"pkt":{"vc":{"0":1,"1":2}},"node":1,"event":"d"}
"""
"""As programs write what TLA+ is to validate."""


def test_a_trace_for_tla_is_a_log(tmp_path: Path) -> None:
    path = tmp_path / "trace.ndjson"
    path.write_text(TLA)
    assert detect(path) == "shiviz"
    quarantine: list[Quarantined] = []
    events = list(read_shiviz(path, quarantine))
    assert brief(events) == [
        (2, "0", {"0": 1, "1": 0}, ">"), (3, "1", {"0": 1, "1": 1}, "<"), (4, "1", {"0": 1, "1": 2}, "d"),
    ]  # fmt: skip
    assert quarantine == []
    path.write_text(TLA + '{"N":2}\nnothing\n')
    assert len(list(read_shiviz(path, quarantine))) == 3
    assert [each.line for each in quarantine] == [5, 6]


@pytest.mark.parametrize(
    "line",
    ['{"node":"a","clock":{"a":1},"message":"m"}', '{"host":"a","clock":{"a":1},"event":"x","kind":"send"}', '{"N":2}'],
)
def test_other_objects_are_rows_of_a_table(tmp_path: Path, line: str) -> None:
    (tmp_path / "t.jsonl").write_text(line + "\n")
    assert detect(tmp_path / "t.jsonl") == "jsonl"


def test_reports_are_searched_in_linear_time() -> None:
    started = process_time()
    for text in ("State 1: <a>\n" * 20_000, '/\\ Host = n\n"vc":{' * 20_000, "{" + '"node":"a","vc":{' * 20_000 + "}"):
        assert read(text + 'x {"a":1}\n')[0] == []
    assert process_time() - started < 10
