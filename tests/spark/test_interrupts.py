"""Ctrl-C ends a command on Spark at once, with one sentence; progress shows on a terminal, and none when piped."""

from __future__ import annotations

import os
import pty
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from thence.tables.files.jsonl import write_jsonl

from support.traces import random_trace  # isort: skip

PROGRAM = """
import signal, sys, time
signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored where a shell started us beside itself
from pathlib import Path
from thence.tables.engines.spark import audit as files
trace, mark = sys.argv[1:]

def forever(spark, opened):
    def work(batches):
        Path(mark).touch()
        time.sleep(600)
        yield from batches

    spark.range(4, numPartitions=2).mapInArrow(work, "id long").count()

files.audit_trace = forever
sys.argv[1:] = ["audit", "--engine", "spark", trace]
from thence.cli import main
sys.exit(main())
"""
"""A job whose tasks sleep stands for a long audit."""

SENTENCE = "thence: interrupted; unfinished results were not written"


def command(tmp_path: Path) -> tuple[list[str], Path]:
    trace, mark = tmp_path / "trace.jsonl", tmp_path / "working"
    write_jsonl(random_trace(1), trace)
    return [sys.executable, "-c", PROGRAM, str(trace), str(mark)], mark


def wait_for(happened: Callable[[], object]) -> None:
    """Wait until something is so; the test's own limit ends what never is."""
    while not happened():
        time.sleep(0.05)


def test_ctrl_c_on_a_terminal(tmp_path: Path) -> None:
    words, _ = command(tmp_path)
    child, terminal = pty.fork()
    if child == 0:  # pragma: no cover
        os.execv(words[0], words)
    said = ""
    while not re.search(r"Spark, tasks of stage \d+: 0 of 2 \(0.0 a second\)", said):
        said += os.read(terminal, 65536).decode(errors="replace")
    before = len(said)
    os.write(terminal, b"\x03")
    with suppress(OSError):  # how a terminal says that all have left it, Java too
        while True:
            said += os.read(terminal, 65536).decode(errors="replace")
    _, status = os.waitpid(child, 0)
    os.close(terminal)
    assert os.waitstatus_to_exitcode(status) == 130
    assert "Starting Spark" in said
    after = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", said[before:])
    assert after.count(SENTENCE) == 1
    assert "Traceback" not in after
    assert "ERROR" not in after


def test_an_interrupt_when_piped(tmp_path: Path) -> None:
    words, mark = command(tmp_path)
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as running:
        wait_for(mark.exists)
        os.kill(running.pid, signal.SIGINT)
        out, error = running.communicate()  # the Java process holds the pipes open until it has ended too
    told = [line for line in error.splitlines() if not line.startswith("NOTE: Picked up JDK_JAVA_OPTIONS")]
    assert (running.returncode, out, told) == (130, "", [SENTENCE])
