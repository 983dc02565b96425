"""Makes what is released, and tries it as a stranger would: `make release`.

    python tools/release.py [--demo]     wheel, sdist, bill of materials and checksums in dist/

Law. Wheel and sdist are each installed into an empty environment under every Python that pyproject.toml declares, and
the README's quick start and Python blocks are run there, away from the sources; with --demo the wheel is installed with
all extras too, as pinned, and `thence demo` is run. A Python that is declared and not on this machine is an error. The
tag is left to a person.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
DIST = ROOT / "dist"
PINS = ROOT / "requirements" / "runtime.txt"
README = (ROOT / "README.md").read_text()
DECLARED = re.compile(r"Programming Language :: Python :: (3\.\d+)")


def run(*command: str | Path, cwd: Path = ROOT, expect: int = 0) -> str:
    """Run a command, and return what it says; another exit code than expected ends the release."""
    clean = {
        name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "PYENV", "VIRTUAL_ENV"))
    }
    ran = subprocess.run(
        [str(part) for part in command], cwd=cwd, env=clean, capture_output=True, text=True, check=False
    )
    if ran.returncode != expect:
        shown = " ".join(str(part) for part in command)
        sys.exit(f"release: {shown}: exit code {ran.returncode} instead of {expect}\n{ran.stdout}{ran.stderr}")
    return ran.stdout


def pythons() -> dict[str, Path]:
    """Return an interpreter for each version that is declared; one that cannot be had ends the release."""
    rules = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["classifiers"]
    wanted = [found[1] for found in map(DECLARED.fullmatch, rules) if found]
    found = {version: interpreter(version) for version in wanted}
    if missing := [version for version, path in found.items() if path is None]:
        sys.exit(f"release: no Python {', '.join(missing)} on this machine; put it on the path or undeclare it")
    return {version: path for version, path in found.items() if path}


def interpreter(version: str) -> Path | None:
    """Return an interpreter of a version: on the path, or one of pyenv's."""
    on_path = [Path(folder) / f"python{version}" for folder in os.environ["PATH"].split(os.pathsep)]
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    others = sorted(pyenv.glob(f"{version}.*/bin/python{version}"))
    for candidate in [*on_path, *others]:
        if candidate.exists():
            said = subprocess.run([candidate, "-V"], capture_output=True, text=True, check=False).stdout
            if said.startswith(f"Python {version}."):
                return candidate
    return None


def blocks(language: str) -> list[str]:
    """Return the README's blocks of a language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", README, re.DOTALL | re.MULTILINE)


def try_out(python: Path, artifact: Path, folder: Path) -> None:
    """Install an artifact into an empty environment, and run the quick start there."""
    install, *commands = blocks("sh")[0].splitlines()
    extras = re.search(r"\[.*\]", install)
    assert extras is not None
    run(python, "-m", "venv", folder / "env")
    ours = folder / "env" / "bin"
    run(ours / "python", "-m", "pip", "install", "--quiet", "--constraint", PINS, f"{artifact}{extras[0]}")
    work = folder / "work"
    work.mkdir()
    for command in commands:
        program, *arguments = command.split()
        run(ours / program, *arguments, cwd=work, expect=1 if arguments[0] == "audit" else 0)
    for block in blocks("python"):
        run(ours / "python", "-c", block, cwd=work)


def try_demo(python: Path, wheel: Path, folder: Path) -> None:
    """Install the wheel with all extras, as pinned, and run the main job end to end."""
    run(python, "-m", "venv", folder / "env")
    run(folder / "env/bin/python", "-m", "pip", "install", "--quiet", "--constraint", PINS, f"{wheel}[all]")
    run(folder / "env/bin/thence", "demo", cwd=folder)


def build() -> list[Path]:
    """Make wheel and sdist anew, the same bytes from the same commit, and return them."""
    shutil.rmtree(DIST, ignore_errors=True)
    os.environ["SOURCE_DATE_EPOCH"] = run("git", "log", "-1", "--format=%ct").strip()
    run(sys.executable, "-m", "build", "--outdir", DIST)
    return sorted(DIST.glob("thence-*"))


def describe(artifacts: list[Path]) -> None:
    """Write the bill of materials of the pins, and checksums of everything."""
    version = artifacts[0].name.split("-")[1]
    bill = DIST / f"thence-{version}.cdx.json"
    tool = Path(sys.executable).parent / "cyclonedx-py"
    run(tool, "requirements", PINS, "--pyproject", "pyproject.toml", "--output-reproducible", "--output-file", bill)
    sums = [f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}" for path in [*artifacts, bill]]
    (DIST / "SHA256SUMS").write_text("\n".join(sums) + "\n")


def main() -> None:
    """Make, try, describe."""
    found = pythons()
    artifacts = build()
    describe(artifacts)
    for version, python in found.items():
        tries = [(artifact, try_out) for artifact in artifacts]
        if "--demo" in sys.argv[1:]:
            tries += [(artifact, try_demo) for artifact in artifacts if artifact.suffix == ".whl"]
        for artifact, attempt in tries:
            with tempfile.TemporaryDirectory() as folder:
                attempt(python, artifact, Path(folder))
            print(
                f"Python {version}: {artifact.name}: {'demo' if attempt is try_demo else 'quick start'} runs",
                flush=True,
            )
    print(f"in {DIST.relative_to(ROOT)}/: {', '.join(sorted(path.name for path in DIST.iterdir()))}")
    print("left to a person: git tag --sign, and the upload")


if __name__ == "__main__":
    main()
