"""What people who came from the README stumbled over: it is said in time, in their words, and ends nothing else."""

from __future__ import annotations

import inspect
import io
import json
import os
import subprocess
import sys
from importlib import util
from pathlib import Path

import pyarrow as pa
import pytest
from support.some import some

from thence import cli
from thence.tables.files.formats import Unfit, detect

GOOD = '{"run":"r","process":"a","index":1,"kind":"internal"}\n'


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def said(*arguments: str, code: int, capsys: pytest.CaptureFixture[str]) -> str:
    assert cli.main(list(arguments)) == code
    shown = capsys.readouterr()
    return " ".join(shown.out.split()) + shown.err


@pytest.mark.parametrize(
    ("arguments", "lacking", "extras"),
    [
        (["demo"], ["pyspark", "pyarrow"], "spark"),
        (["deliver", "t.jsonl", "--by", "depends_on", "--out", "o"], ["pyarrow", "numpy"], "cli"),
        (["reproduce", "ci-dc", "--quick"], ["matplotlib", "networkx", "pyarrow"], "cli,report,topology"),
        (["reproduce", "ci-dc"], ["matplotlib", "pyarrow", "pyspark"], "report,spark"),
        (["cost", "t.jsonl", "--plot", "c.svg"], ["matplotlib"], "report"),
        (["audit", "t.jsonl", "--engine", "spark"], ["pyspark", "pyarrow"], "spark"),
        (["show", "t.jsonl", "--engine", "spark"], ["pyspark", "pyarrow"], "spark"),
        (["convert", "t.jsonl", "--to", "jsonl", "--out", "p", "--engine", "spark"], ["pyspark", "pyarrow"], "spark"),
        (["simulate", "--messages", "5", "--trace", "x.parquet"], ["pyarrow"], "cli"),
        (["endpoint", "--init", "trio"], ["cryptography"], "live"),
        (["convert", "t.jsonl", "--to", "perfetto", "--out", "p"], ["perfetto"], "perfetto"),
    ],
)
def test_what_is_missing_is_said_before_anything_is_done(
    arguments: list[str], lacking: list[str], extras: str, monkeypatch: pytest.MonkeyPatch, capsys
) -> None:
    Path("t.jsonl").write_text(GOOD)
    found = util.find_spec
    monkeypatch.setattr("thence.cli._packages.find_spec", lambda name: None if name in lacking else found(name))
    told = said(*arguments, code=2, capsys=capsys)
    assert told.startswith("thence: the package")
    assert all(name in told for name in lacking)
    assert f'pip install "thence[{extras}]"' in told
    assert ("--plain" in told) == (arguments[0] == "endpoint")
    assert [path.name for path in Path().iterdir()] == ["t.jsonl"]


def test_too_many_processes_to_explore(tmp_path, capsys) -> None:
    for more in ([], ["--step"], ["--graph", str(tmp_path / "graph.dot")]):
        for many in ("40", str(sys.maxsize)):
            assert "from 1 to 8 can be explored" in said("explore", "--processes", many, *more, code=2, capsys=capsys)


def test_a_step_that_cannot_be_saved_does_not_end_the_walk(monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("1\ns no/x.json\ns my walk.json\nq\n"))
    told = said("explore", "--step", "--processes", "2", code=0, capsys=capsys)
    assert "no/x.json cannot be written: No such file or directory" in told
    assert "thence explore --replay 'my walk.json'" in told
    assert Path("my walk.json").exists()


def test_what_is_to_be_typed_next_is_quoted(capsys) -> None:
    told = said("endpoint", "--init", "my set", "--plain", code=0, capsys=capsys)
    assert "thence endpoint 'my set/a.toml'" in told
    assert "thence audit 'my set'/*.jsonl" in told


@pytest.mark.parametrize("verb", ["show", "cost"])
def test_why_nothing_is_left_is_said(verb: str, capsys) -> None:
    Path("bad.jsonl").write_text("hello\n")
    assert "bad.jsonl:1: not JSON" in said(verb, "bad.jsonl", code=2, capsys=capsys)


def test_rows_that_a_page_leaves_out_are_said(capsys) -> None:
    Path("t.jsonl").write_text(f"{GOOD}hello\n")
    assert "set aside: t.jsonl:2: not JSON" in said("show", "t.jsonl", code=0, capsys=capsys)


def test_an_unknown_verdict_leads_to_the_audit(capsys) -> None:
    Path("bad.jsonl").write_text("hello\n")
    assert "`thence audit` says why it is unknown" in said("explain", "bad.jsonl", code=0, capsys=capsys)
    assert "--allow-empty" not in said("audit", "bad.jsonl", code=1, capsys=capsys)
    Path("empty.jsonl").touch()
    assert "--allow-empty" in said("audit", "empty.jsonl", code=1, capsys=capsys)


def test_a_hint_at_columns_names_ours(capsys) -> None:
    Path("t.jsonl").write_text('{"what":"send"}\n')
    assert "the expected columns are run, process, index, kind, message" in said(
        "audit", "t.jsonl", code=1, capsys=capsys
    )


def test_a_page_of_a_log_is_written(capsys) -> None:
    Path("t.log").write_text('a {"a":1}\none\n')
    assert cli.main(["audit", "t.log", "--page", "x.html"]) == 0
    assert "x.html" in capsys.readouterr().out
    assert Path("x.html").stat().st_size > 1000


def test_deliver_names_no_option_that_it_lacks(capsys) -> None:
    Path("letter").write_text("Dear reader,\n")
    told = said("deliver", "letter", "--by", "depends_on", "--out", "o", code=2, capsys=capsys)
    assert "JSON lines, Parquet, CSV, TSV, Arrow, Delta or Iceberg are accepted" in told
    assert "--format" not in told


@pytest.mark.parametrize("option", [["--once"], ["--files-per-batch", "1"]])
def test_options_of_streams_are_refused_for_a_batch(option: list[str], capsys) -> None:
    Path("t.jsonl").write_text('{"message":"a","destination":"d","depends_on":[]}\n')
    told = said("deliver", "t.jsonl", "--by", "depends_on", "--out", "o", *option, code=2, capsys=capsys)
    assert f"{option[0]} is for streams" in told


def test_one_row_waits(capsys) -> None:
    Path("t.jsonl").write_text('{"message":"a","destination":"d","depends_on":["z"]}\n')
    assert "1 row waits" in said("deliver", "t.jsonl", "--by", "depends_on", "--out", "o", code=1, capsys=capsys)


def test_a_file_that_may_not_be_read(monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    Path("t.jsonl").write_text(GOOD)

    def refuse(path: Path, *how: str) -> None:
        raise PermissionError(13, "Permission denied", str(path))

    with monkeypatch.context() as patched:
        patched.setattr(Path, "open", refuse)
        assert detect(Path("t.jsonl")) == Unfit("it cannot be read: no permission", claims=True)
        assert "t.jsonl: it cannot be read" in said("audit", "t.jsonl", code=2, capsys=capsys)


def test_bytes_without_a_format_are_called_binary() -> None:
    Path("blob").write_bytes(bytes(range(256)))
    found = detect(Path("blob"))
    assert isinstance(found, Unfit)
    assert found.reason.startswith("this looks like binary data")


def test_tables_that_are_not_traces_are_said_by_their_columns(capsys) -> None:
    Path("orders.csv").write_text("account,event\na,1\n")
    assert "orders.csv: column run is missing; found: account, event" in said(
        "audit", "orders.csv", code=2, capsys=capsys
    )


@pytest.mark.parametrize("packed", [False, True])
def test_a_trace_may_come_from_standard_input(packed: bool, capsys, monkeypatch: pytest.MonkeyPatch) -> None:
    data = pa.Codec("zstd").compress(GOOD.encode(), asbytes=True) if packed else GOOD.encode()
    for verb in (["audit", "-"], ["show", "-", "--out", "page.html"], ["convert", "-", "--to", "jsonl"]):
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(data)))
        said(*verb, code=0, capsys=capsys)


def test_a_clock_says_where_its_destination_is_named(capsys) -> None:
    Path("t.jsonl").write_text('{"account":"a","sender":"s","clock":{"s":1}}\n')
    asked = ["deliver", "t.jsonl", "--by", "clock", "--out", "o", "--key", "account"]
    assert "--columns names yours" in said(*asked, code=2, capsys=capsys)
    said(*asked, "--columns", "destination=account", code=0, capsys=capsys)


def test_a_set_of_endpoints_is_not_mixed_with_another(capsys) -> None:
    assert cli.main(["endpoint", "--init", "trio", "--plain", "--processes", "web,ledger"]) == 0
    told = said("endpoint", "--init", "trio", "--plain", code=2, capsys=capsys)
    assert "trio/ledger.toml exists already; a new folder is expected" in told
    assert "no protocol 'nope'" in said(
        "endpoint", "--init", "duo", "--plain", "--protocol", "nope", code=2, capsys=capsys
    )
    assert not Path("duo").exists()
    said("endpoint", "--init", "duo", "--plain", "--processes", "a,b/c", code=2, capsys=capsys)
    assert not Path("duo").exists()


def test_no_set_of_endpoints_is_made_that_could_not_start(capsys) -> None:
    for words, why in (
        (("--option", "bogus=1"), "protocol ks has no option 'bogus'"),
        (("--option", "name=x"), "protocol ks has no option 'name'"),
        (("--option", "explicit=1"), "True or False is accepted"),
        (("--protocol", "ks-ft", "--option", "groups=ab"), "leave out c"),
        (
            ("--protocol", "ech-r9", "--option", "separators=b:a|c"),
            "needs topology, which a live endpoint does not give",
        ),
    ):
        assert why in said("endpoint", "--init", "duo", "--plain", *words, code=2, capsys=capsys)
        assert not Path("duo").exists()


def test_a_line_that_cannot_be_used_ends_no_endpoint(capsys) -> None:
    said("endpoint", "--init", "one", "--plain", "--processes", "a", code=0, capsys=capsys)
    deep = b"[" * 100_000
    odd = [b'{"send": ["a"], "payload": "x", "label": 5}', rb'{"send": ["a"], "payload": "\ud800"}', deep, b"a\xff"]
    lines = b"\n".join([*odd, b'{"send": ["a"], "payload": "hello"}', b""])
    command = [sys.executable, "-m", "thence.cli", "endpoint", "one/a.toml", "--linger", "1"]
    strict = os.environ | {"PYTHONIOENCODING": "utf-8:strict"}
    done = subprocess.run(command, input=lines, capture_output=True, env=strict)
    assert (done.returncode, done.stderr) == (0, b"")
    told = [json.loads(line) for line in done.stdout.splitlines()]
    assert ["error" in row for row in told[1:5]] == [True] * 4
    assert told[5] == {"sent": "a1"}


@pytest.mark.parametrize(
    "arguments", [["--help"], ["protocols"], ["audit", "early.jsonl"], ["audit", "early.jsonl", "-q", "--json", "-"]]
)
def test_a_reader_that_has_gone_is_no_violation(arguments: list[str]) -> None:
    """Exit code 1 would say that the data violates causal order."""
    Path("early.jsonl").write_text(f"{GOOD}{GOOD}")
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer) as nobody:
        done = subprocess.run([sys.executable, "-m", "thence.cli", *arguments], stdout=nobody, stderr=subprocess.PIPE)
    assert (done.returncode, done.stderr) == (141, b"")


def test_errors_that_nobody_reads(tmp_path: Path) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer) as nobody:
        done = subprocess.run(
            [sys.executable, "-m", "thence.cli", "audit", "none"], stdout=subprocess.PIPE, stderr=nobody
        )
    assert (done.returncode, done.stdout) == (141, b"")


def test_live_processes_say_what_system_they_need() -> None:
    Path("a.toml").touch()
    code = (
        "import sys; sys.modules['fcntl'] = None; from thence.cli import main; sys.exit(main(['endpoint', 'a.toml']))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stderr.startswith("thence: thence.runtime needs a POSIX system")
    code = "import sys; sys.modules['fcntl'] = None; import thence.runtime"
    assert (
        "ImportError: thence.runtime needs"
        in subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stderr
    )


def test_an_operator_without_spark_names_the_extra() -> None:
    code = "import sys; sys.modules['pyspark'] = None; from thence.spark import deliver"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stderr.splitlines()[-1] == (
        'ModuleNotFoundError: thence.spark.deliver needs pyspark: pip install "thence[spark]"'
    )


def test_consistent_clocks_of_a_log_with_lines_set_aside_are_unknown(capsys) -> None:
    Path("t.log").write_text('[x/a] {"a":1} one\nhello\n')
    told = said("audit", "t.log", code=1, capsys=capsys)
    assert "clocks are consistent: 1 host, 1 event, 1 execution verdict: unknown, since lines were set aside" in told


@pytest.mark.parametrize("arguments", [["audit", "t.jsonl"], ["convert", "t.jsonl", "--to", "jsonl"], ["--help"]])
def test_a_disk_that_is_full_is_no_mistake_of_ours(arguments: list[str]) -> None:
    Path("t.jsonl").write_text(GOOD)
    with open("/dev/full", "w") as full:
        command = [sys.executable, "-m", "thence.cli", *arguments, *(["-q"] if arguments[0] == "convert" else [])]
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True)
    assert (done.returncode, done.stderr) == (
        2,
        "thence: the output could not be written: No space left on device\n",
    )


def test_a_command_whose_output_was_closed() -> None:
    Path("t.jsonl").write_text(GOOD)
    done = subprocess.run(
        [sys.executable, "-m", "thence.cli", "audit", "t.jsonl"], preexec_fn=lambda: os.close(1), stderr=subprocess.PIPE
    )
    assert (done.returncode, done.stderr) == (0, b"")


def test_whatever_works_on_spark_may_be_told_how_many_cores() -> None:
    """`thence doctor` only looks whether it starts."""
    for command in some(cli.build().registered_commands):
        assert command.callback is not None
        module = inspect.getmodule(inspect.unwrap(command.callback))
        source = inspect.getsource(module)
        if command.name != "doctor" and ("start_spark" in source or "session_for" in source):
            assert "cores" in inspect.signature(command.callback).parameters, command.name


def test_join_and_leave_say_what_they_need(capsys: pytest.CaptureFixture[str]) -> None:
    said("endpoint", "--init", "set", "--plain", "--processes", "a,b", code=0, capsys=capsys)
    added = said("endpoint", "--init", "set", "--add", "c", code=0, capsys=capsys)
    assert "thence endpoint join set/c.toml --through PEER" in added
    for words, sentence in [
        (["join", "set/c.toml"], "join and leave need --through PEER"),
        (["join"], "join CONFIG or leave CONFIG is expected"),
        (["set/a.toml", "set/b.toml"], "join CONFIG or leave CONFIG is expected"),
        (["join", "set/c.toml", "--through", "x"], "one of the other processes is expected: a, b"),
        (["--init", "set", "--add", "c"], "c is in set already"),
        (["--init", "none", "--add", "c"], "none holds no configuration"),
    ]:
        assert sentence in said("endpoint", *words, code=2, capsys=capsys)
