"""Compile the modules whose names end in `_cy` where Cython and a C compiler are there; else they run as plain Python.

THENCE_COMPILE=0 leaves all of them uncompiled (the pure wheel); THENCE_COMPILE=1 makes a failure an error.
"""

from __future__ import annotations

import os
from pathlib import Path

from setuptools import Extension, setup

WANTED = os.environ.get("THENCE_COMPILE", "auto")
ABI3 = os.environ.get("THENCE_ABI3") == "1"
SOURCES = sorted(Path("src").rglob("*_cy.py"))


def extensions() -> list[Extension]:
    """Return one extension per module; an empty list where nothing can or should be compiled."""
    if WANTED == "0" or not SOURCES:
        return []
    try:
        from Cython.Build import cythonize
    except ModuleNotFoundError:
        if WANTED == "1":
            raise
        return []
    macros = [("Py_LIMITED_API", "0x030B0000"), ("CYTHON_LIMITED_API", "1")] if ABI3 else []
    found = [
        Extension(
            ".".join(source.relative_to("src").with_suffix("").parts),
            [str(source)],
            optional=WANTED != "1",  # without a C compiler the build goes on, and the module stays plain Python
            define_macros=macros,
            py_limited_api=ABI3,
            extra_compile_args=["-O2", "-g0"] if os.name == "posix" else [],
        )
        for source in SOURCES
    ]
    made: list[Extension] = cythonize(found, language_level=3, build_dir="build/cython", quiet=True)
    return made


setup(ext_modules=extensions(), options={"bdist_wheel": {"py_limited_api": "cp311"}} if ABI3 else {})
