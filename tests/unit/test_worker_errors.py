"""What a worker of Spark raised comes back as an error of ours, with its class and its words."""

from __future__ import annotations

import pytest

from thence.errors import MisuseError, PeerError, ThenceError, TraceError
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
