"""Makes what is released, and tries it as a stranger would: `make release`.

    python tools/release.py [--demo]     wheels, sdist, bill of materials and checksums in dist/

Wheels are built from the sdist: one without compiled modules (`py3-none-any`), one with them for this platform and each
Python that pyproject.toml declares, and one against the limited API (`cp311-abi3`), slower than those, for newer ones.
Other platforms get the pure one.

*Invariant.* The sdist, the pure wheel and the compiled wheel are each installed into an empty environment under every
declared Python, and the README's quick start and Python blocks are run there, away from the sources; with --demo the
wheels are installed with all extras too, as pinned, and `thence demo` is run. The sdist is installed as if there were
no C compiler, and every environment is asked whether its modules are compiled. A Python that is declared and not on
this machine is an error. The tag is left to a person.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
DIST = ROOT / "dist"
PINS = ROOT / "requirements" / "runtime.txt"
README = (ROOT / "README.md").read_text()
COMPILABLE = sorted((ROOT / "src").rglob("*_cy.py"))
DECLARED = re.compile(r"Programming Language :: Python :: (3\.\d+)")


def run(*command: str | Path, cwd: Path = ROOT, expect: int = 0, **more: str) -> str:
    """Run a command, and return what it says; another exit code than expected ends the release."""
    clean = {
        name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "PYENV", "VIRTUAL_ENV"))
    }
    ran = subprocess.run(
        [str(part) for part in command], cwd=cwd, env=clean | more, capture_output=True, text=True, check=False
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


def environment(python: Path, artifact: Path, extras: str, folder: Path) -> Path:
    """Install an artifact into an empty environment, and return the folder of its programs."""
    run(python, "-m", "venv", folder / "env")
    ours = folder / "env" / "bin"
    command = [ours / "python", "-m", "pip", "install", "--quiet", "--constraint", PINS, f"{artifact}{extras}"]
    run(*command, CC="/bin/false")
    check_compiled(ours, artifact)
    return ours


def check_compiled(ours: Path, artifact: Path) -> None:
    """End the release unless the modules are compiled in what a platform's wheel installed, and nowhere else."""
    script = "from thence.cli import doctor; print(doctor.compiled_modules().found)"
    found = run(ours / "python", "-c", script).strip()
    if found.startswith("all") != (for_platform(artifact) or not COMPILABLE):
        sys.exit(f"release: {artifact.name}: compiled modules: {found}")


def for_platform(artifact: Path) -> bool:
    """Return whether an artifact is a wheel with compiled modules."""
    return artifact.suffix == ".whl" and not artifact.stem.endswith("-py3-none-any")


def fits(artifact: Path, version: str) -> bool:
    """Return whether an artifact can be installed under a version of Python."""
    tag = f"cp{version.replace('.', '')}"
    return not for_platform(artifact) or "-cp311-abi3-" in artifact.name or f"-{tag}-{tag}-" in artifact.name


def try_out(python: Path, artifact: Path, folder: Path) -> None:
    """Install an artifact, and run the quick start there."""
    (install,) = blocks("sh")[0].splitlines()
    commands = re.findall(r"^\$ (.*)$", "".join(blocks("console")), re.MULTILINE)
    extras = re.search(r"\[.*\]", install)
    assert extras is not None
    ours = environment(python, artifact, extras[0], folder)
    work = folder / "work"
    work.mkdir()
    (work / "monday.jsonl").write_text(blocks("json")[0])
    for command in commands:
        program, *arguments = command.split()
        run(ours / program, *arguments, cwd=work, expect=1 if arguments[0] == "audit" else 0)
    for block in blocks("python"):
        run(ours / "python", "-c", block, cwd=work)


def try_demo(python: Path, wheel: Path, folder: Path) -> None:
    """Install a wheel with all extras, as pinned, and run the main job end to end."""
    run(environment(python, wheel, "[all]", folder) / "thence", "demo", cwd=folder)


def address() -> str | None:
    """Return the address of the sources, the one setting from which the README on PyPI gets absolute links."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    found: str | None = project.get("urls", {}).get("Source")
    return found.rstrip("/") if found else None


def absolute(readme: str, source: str) -> str:
    """Return the README with links and pictures that work away from the repository."""
    link = re.compile(r"(!?)(\[[^\]]*\]\()(?![a-z][a-z0-9+.-]*:|#)([^)\s]+)")
    return link.sub(lambda at: f"{at[1]}{at[2]}{source}/{'raw' if at[1] else 'blob'}/main/{at[3]}", readme)


def sdist_of(folder: Path) -> None:
    """Make the sdist; where the project has an address, from a copy whose README has absolute links."""
    source = address()
    if source is None:
        print("release: [project.urls] in pyproject.toml has no Source, so the README's links stay relative on PyPI")
        run(sys.executable, "-m", "build", "--sdist", "--outdir", DIST)
        return
    copy = folder / "sources"
    run("git", "worktree", "add", "--detach", copy, "HEAD")
    try:
        (copy / "README.md").write_text(absolute(README, source))
        run(sys.executable, "-m", "build", "--sdist", "--outdir", DIST, copy)
    finally:
        run("git", "worktree", "remove", "--force", copy)


def build(found: dict[str, Path]) -> list[Path]:
    """Make sdist and wheels anew, the same bytes from the same commit, and return them."""
    shutil.rmtree(DIST, ignore_errors=True)
    os.environ["SOURCE_DATE_EPOCH"] = run("git", "log", "-1", "--format=%ct").strip()
    with tempfile.TemporaryDirectory() as folder:
        sdist_of(Path(folder))
    (sdist,) = DIST.glob("thence-*.tar.gz")
    with tempfile.TemporaryDirectory() as folder, tarfile.open(sdist) as archive:
        archive.extractall(folder, filter="data")
        (sources,) = Path(folder).iterdir()
        run(sys.executable, "-m", "build", "--wheel", "--outdir", DIST, sources, THENCE_COMPILE="0")
        oldest = next(iter(found.values()))
        for python, abi3 in [*((each, "0") for each in found.values()), (oldest, "1")] if COMPILABLE else ():
            command = [python, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", DIST, sources]
            run(*command, THENCE_COMPILE="1", THENCE_ABI3=abi3)
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
    artifacts = build(found)
    describe(artifacts)
    for version, python in found.items():
        fitting = [artifact for artifact in artifacts if fits(artifact, version)]
        tries = [(artifact, try_out) for artifact in fitting]
        if "--demo" in sys.argv[1:]:
            tries += [(artifact, try_demo) for artifact in fitting if artifact.suffix == ".whl"]
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
