"""Folders in which Spark's reader of states finds nothing are refused before it is asked."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from thence.errors import MisuseError
from thence.spark import waiting_in_stream


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
