"""Folders in which Spark's reader of states finds nothing are refused before it is asked."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from thence.errors import MisuseError
from thence.spark import waiting_in_stream
from thence.tables.engines.spark.give_up import refuse_without_commands


class _NoSession:
    """A session that can read nothing."""

    createDataFrame = None


NO_SESSION: Any = _NoSession()


@pytest.mark.parametrize("sign", [" ", "%", "#", "?", "[", '"', "\\"])
def test_a_folder_that_can_not_be_looked_into(sign: str) -> None:
    with pytest.raises(MisuseError, match=r"^Spark's reader of states finds none in ") as refused:
        waiting_in_stream(NO_SESSION, f"/data/check{sign}point")
    assert f"which has {sign!r} in it" in str(refused.value)


def test_a_folder_below_such_a_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "my streams").mkdir()
    monkeypatch.chdir(tmp_path / "my streams")
    with pytest.raises(MisuseError, match="/my streams/checkpoint', which has ' ' in it"):
        waiting_in_stream(NO_SESSION, "checkpoint")


def test_other_folders_are_asked_for() -> None:
    for folder in ("/data/Prüfung_1.~!'()*:@&=+$,;", "hdfs://host:9000/data"):
        with pytest.raises(AttributeError, match="read"):
            waiting_in_stream(NO_SESSION, folder)


@pytest.mark.parametrize(("sources", "refused"), [(1, True), (2, False)])
def test_a_command_that_no_stream_would_read_is_refused(tmp_path: Path, sources: int, refused: bool) -> None:
    """The folder of commands is a source of the stream, or it was not named when the stream began."""
    (tmp_path / "offsets").mkdir()
    for batch in ("9", "10"):
        (tmp_path / "offsets" / batch).write_text("\n".join(["v1", "{}", *['{"logOffset":0}', "-"][:sources]]))
    with pytest.raises(MisuseError, match="was started without commands=") if refused else nullcontext():
        refuse_without_commands(tmp_path)
