"""What each extra puts on the disk: the packages it brings, with all they need themselves, as they are installed here.

    python benchmarks/install/run.py     writes benchmarks/install/results/sizes.json

Counted are the files that the packages list, without byte code; MB are millions of bytes. Run it in an environment that
holds all extras, as `.venv` does.
"""

from __future__ import annotations

import json
import platform
import tomllib
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
RESULT = Path(__file__).parent / "results" / "sizes.json"


def needed(requirement: str, seen: set[str]) -> set[str]:
    """Return the packages that a requirement installs, with what they need themselves."""
    wanted = Requirement(requirement)
    name = canonicalize_name(wanted.name)
    if name in seen or (wanted.marker and not wanted.marker.evaluate({"extra": ""})):
        return seen
    seen = seen | {name}
    for further in metadata.requires(name) or []:
        asked = Requirement(further)
        if asked.marker is None or any(asked.marker.evaluate({"extra": extra}) for extra in {"", *wanted.extras}):
            asked.marker = None
            seen = needed(str(asked), seen)
    return seen


def size(package: str) -> int:
    """Return the bytes of a package's files."""
    files = [Path(file.locate()) for file in metadata.files(package) or [] if file.suffix != ".pyc"]
    return sum(file.stat().st_size for file in files if file.is_file())


def main() -> None:
    """Measure every extra, and write the result."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    result: dict[str, object] = {"python": platform.python_version(), "machine": platform.machine()}
    own = sum(
        file.stat().st_size
        for file in (ROOT / "src").rglob("*")
        if file.is_file() and file.suffix not in (".pyc", ".so")
    )
    rows = {"": {"MB": round(own / 1e6, 1), "packages": {}}}
    for extra, requirements in extras.items():
        if extra == "all":
            requirements = [one for name, those in extras.items() if name != "all" for one in those]
        packages: set[str] = set()
        for requirement in requirements:
            packages = needed(requirement, packages)
        sizes = {package: round(size(package) / 1e6, 1) for package in sorted(packages)}
        rows[extra] = {
            "MB": round(sum(sizes.values())),
            "packages": dict(sorted(sizes.items(), key=lambda item: -item[1])),
        }
    RESULT.write_text(json.dumps(result | {"extras": rows}, indent=1) + "\n")
    for extra, row in rows.items():
        largest = ", ".join(f"{name} {mb}" for name, mb in list(row["packages"].items())[:4])
        print(f"{extra or '(core)':10} {row['MB']:>6} MB  {largest}")


if __name__ == "__main__":
    main()
