"""What a worker of Spark raised comes back as an error of ours, with its class and its words."""

from __future__ import annotations

import os

import pytest

from thence.errors import MisuseError, PeerError, ThenceError, TraceError
from thence.tables.engines.spark.session import GREETING, pass_on
from thence.tables.engines.spark.workers import error_of_ours, errors_of_workers

TRACEBACK = """[PYTHON_EXCEPTION] An exception was thrown from the Python worker:
Traceback (most recent call last):
  File "worker.py", line 1, in work
{raised}

SQLSTATE: 38000"""


@pytest.mark.parametrize("kind", [MisuseError, PeerError, TraceError])
def test_an_error_of_ours_keeps_its_class_and_its_words(kind: type[ThenceError]) -> None:
    raised = f"{kind.__module__}.{kind.__name__}: key ('run', 'd'): 3 rows wait: too many"
    with pytest.raises(kind, match=r"^key \('run', 'd'\): 3 rows wait: too many$") as caught, errors_of_workers():
        raise RuntimeError(TRACEBACK.format(raised=raised))
    assert isinstance(caught.value.__cause__, RuntimeError)


@pytest.mark.parametrize("raised", ["ValueError: of somebody else", "thence.errors.Unknown: no such class", ""])
def test_other_errors_go_on_as_they_are(raised: str) -> None:
    text = TRACEBACK.format(raised=raised)
    assert error_of_ours(text) is None
    with pytest.raises(RuntimeError, match="PYTHON_EXCEPTION"), errors_of_workers():
        raise RuntimeError(text)


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_the_greeting_of_a_worker_is_left_out_however_it_is_cut(size: int) -> None:
    text = b"Starting work\n" + GREETING + b"WARN one\n" + GREETING + GREETING + b"Starting Streaming"
    (source, into), (out, target) = os.pipe(), os.pipe()
    for at in range(0, len(text), size):
        os.write(into, text[at : at + size])
    os.close(into)
    pass_on(source, target)
    os.close(target)
    with os.fdopen(out, "rb") as said:
        assert said.read() == b"Starting work\nWARN one\nStarting Streaming"
