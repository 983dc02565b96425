"""Compile the modules whose names end in `_cy` where Cython and a C compiler are there; else they run as plain Python.

THENCE_COMPILE=0 leaves all of them uncompiled (the pure wheel); THENCE_COMPILE=1 makes a failure an error.
THENCE_ABI3=1 compiles against the limited API: one wheel for every Python from 3.11, slower than one per Python.
"""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

from setuptools import Extension, setup

WANTED = os.environ.get("THENCE_COMPILE", "auto")
ABI3 = os.environ.get("THENCE_ABI3") == "1"
SOURCES = sorted(Path("src").rglob("*_cy.py"))
DESCRIBING = {"egg_info", "dist_info", "sdist"}
"""commands that compile nothing; an sdist would hold the generated C if it knew of extensions"""
# gcc 12 sees an overflow in what Cython writes for a short array; clang does not know that warning
FLAGS = ["-O2", "-g0", "-Wno-unknown-warning-option", "-Wno-stringop-overflow"]
MOST_DIMENSIONS = 2
"""of an array in a compiled module: Cython's 7 would take 208 bytes for each array that an object has, and this 88"""


def obstacle() -> str | None:
    """Say why nothing can be compiled here; None if a C file that includes Python.h compiles."""
    try:
        import Cython  # noqa: F401
    except ModuleNotFoundError:
        return "Cython is not installed"
    if os.name != "posix":
        return None  # MSVC is found by setuptools alone; what it cannot compile stays plain Python
    compiler = (os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc").split()
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "probe.c")
        source.write_text("#include <Python.h>\nint probe(void) { return PY_MAJOR_VERSION; }\n")
        command = [*compiler, f"-I{sysconfig.get_path('include')}", "-c", str(source), "-o", f"{folder}/probe.o"]
        try:
            ran = subprocess.run(command, capture_output=True, check=False)
        except OSError as error:
            return f"the C compiler {compiler[0]} does not start ({error.strerror})"
        compiled = Path(folder, "probe.o").exists()
    if ran.returncode or not compiled:
        header = b"Python.h" in ran.stderr
        return "Python.h is missing" if header else f"the C compiler {compiler[0]} does not work"
    return None


def extensions() -> list[Extension]:
    """Return one extension per module; an empty list where nothing can or should be compiled."""
    if WANTED == "0" or not SOURCES or DESCRIBING & set(sys.argv):
        return []
    if why := obstacle():
        sentence = f"thence: {why}; {len(SOURCES)} modules stay plain Python, with the same answers but slower"
        if WANTED == "1":
            sys.exit(sentence)
        print(sentence, file=sys.stderr)
        return []
    from Cython.Build import cythonize
    from Cython.Compiler import Options

    Options.buffer_max_dims = MOST_DIMENSIONS + 1
    macros = [("Py_LIMITED_API", "0x030B0000"), ("CYTHON_LIMITED_API", "1")] if ABI3 else []
    found = [
        Extension(
            ".".join(source.relative_to("src").with_suffix("").parts),
            [str(source)],
            optional=WANTED != "1",
            define_macros=macros,
            py_limited_api=ABI3,
            extra_compile_args=FLAGS if os.name == "posix" else [],
        )
        for source in SOURCES
    ]
    # A module is compiled again when its source is newer than its C. Declarations (.pxd) and this file concern all.
    shared = max(path.stat().st_mtime for path in [Path(__file__), *Path("src").rglob("*_cy.pxd")])
    made_before = [path.stat().st_mtime for path in Path("build/cython").rglob("*_cy.c")]
    # Hints about bounds checks that stay on for a reason are not for the person who installs.
    made: list[Extension] = cythonize(
        found,
        force=ABI3 or min(made_before, default=0) < shared,
        language_level=3,
        build_dir="build/cython",
        quiet=True,
        compiler_directives={"show_performance_hints": False},
    )
    return made


EXTENSIONS = extensions()
OPTIONS: dict[str, dict[str, object]] = {"build_ext": {"parallel": os.cpu_count()}}
if ABI3 and EXTENSIONS:
    OPTIONS["bdist_wheel"] = {"py_limited_api": "cp311"}
setup(ext_modules=EXTENSIONS, options=OPTIONS)
