"""The command `thence`: one file per verb, without logic of its own.

To add a verb: write `cli/<verb>.py` with a function `command` and a text `EXAMPLE`, and name it in `VERBS`.
A call loads only its own verb. A verb imports what it needs beyond typer inside its function, so that
`thence --help`, which loads all of them, stays fast.

Exit codes: 0 fine, 1 the data violates causal order or a check failed, 2 wrong usage or unreadable input, 70 a bug
in thence, 130 interrupted, 141 the reader of the output has gone (what a shell reports for a command ended by SIGPIPE).
"""

from __future__ import annotations

import errno
import gc
import inspect
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import TYPE_CHECKING

from thence import __version__
from thence.cli._packages import EXTRA_OF
from thence.errors import ThenceError

if TYPE_CHECKING:
    import typer

_NO_ROOM = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EROFS}
OK, FAILED, MISUSE, BUG, INTERRUPTED, UNREAD = 0, 1, 2, 70, 130, 141


GROUPS = {
    "Start": ("demo", "doctor"),
    "Events in tables, files and streams": (
        "audit", "explain", "show", "deliver", "waiting", "give-up", "reshard", "cost", "convert",
    ),
    "Live processes": ("endpoint", "why"),
    "Laboratory: simulations, exhaustive search, the papers": (
        "simulate", "explore", "reproduce", "sweep", "protocols", "conform",
    ),
}  # fmt: skip
"""The commands as `thence --help` groups them, in its order; those of the laboratory come last."""
VERBS = tuple(verb for verbs in GROUPS.values() for verb in verbs)


def build(verbs: Sequence[str] = VERBS) -> typer.Typer:
    """Return the command line with these verbs."""
    import typer

    from thence.cli._common import talking

    app = typer.Typer(
        name="thence",
        no_args_is_help=True,
        context_settings={"help_option_names": ["-h", "--help"]},
        pretty_exceptions_enable=False,
        rich_markup_mode="rich",
    )

    @app.callback()
    def thence(
        version: bool = typer.Option(
            False, "--version", help="Show the version and exit.", is_eager=True, callback=_show_version
        ),
    ) -> None:
        """Keep effects behind their causes: causal order for messages, streams and recorded executions."""

    panels = {verb: group for group, each in GROUPS.items() for verb in each}
    for name in verbs:
        verb = import_module(f"thence.cli.{name.replace('-', '_')}")
        example = verb.EXAMPLE.replace("[", r"\[")  # typer reads markup here
        paragraphs = inspect.cleandoc(verb.command.__doc__).split("\n\n")
        text = "\n\n".join(" ".join(each.split()) for each in paragraphs)  # typer would keep the lines of the source
        app.command(name, help=text, epilog=f"Example: {example}", rich_help_panel=panels[name])(talking(verb.command))
    return app


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code. Expected errors show no traceback."""
    if argv is None:  # no other code runs in this process
        # We compute nothing with BLAS, but numpy starts its threads, which spin: a fifth of a small audit.
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # the stream was closed before the command began
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115  # for as long as this process lives
    try:
        code = _run(argv)
    except BrokenPipeError:  # while an error was printed
        code = UNREAD
    code = _flushed(code)
    if argv is None:
        gc.freeze()  # the interpreter ends without looking for cycles among all that was imported: 40 ms
    return code


def _run(argv: Sequence[str] | None) -> int:
    words = list(sys.argv[1:] if argv is None else argv)
    if words == ["--version"]:  # without loading typer and every command
        print(f"thence {__version__}")
        return OK
    try:
        for word in words:
            if word != word.encode(errors="replace").decode():
                return _complain(f"{word} is not in UTF-8; rename the file, if it is the name of one")
        build([words[0]] if words and words[0] in VERBS else VERBS)(args=words, prog_name="thence")
    except SystemExit as ended:
        if isinstance(ended.__context__, BrokenPipeError):  # typer took it, and says 1, which means something else here
            return UNREAD
        if ended.code == INTERRUPTED:
            return _interrupted(leave=argv is None)
        return ended.code if isinstance(ended.code, int) else OK if ended.code is None else MISUSE
    except KeyboardInterrupt:
        return _interrupted(leave=argv is None)
    except Exception as error:
        return _explain(error)
    return OK


def _flushed(code: int) -> int:
    """Flush buffered output, and return the exit code: 141 where the reader of a pipe has gone."""
    for stream in filter(None, (sys.__stdout__, sys.__stderr__)):
        try:
            stream.flush()
        except OSError as error:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())  # otherwise Python prints an error as it ends
            code = UNREAD if isinstance(error, BrokenPipeError) else _explain(error)
    return code


def _interrupted(*, leave: bool) -> int:
    """Report the interruption; `leave` at once where Spark runs: a busy Java delays an orderly end by seconds."""
    on_spark = "thence.spark.session" in sys.modules
    if on_spark:
        from thence.tables.engines.spark.session import hush

        hush()
    print("thence: interrupted; unfinished results were not written", file=sys.stderr, flush=True)
    if on_spark and leave:
        os._exit(INTERRUPTED)
    return INTERRUPTED


def _explain(error: Exception) -> int:
    """Print the error on stderr, as one sentence if it is an expected one, and return the exit code."""
    if isinstance(error, ThenceError):
        return _complain(str(error))
    if isinstance(error, OSError) and error.filename is not None:
        return _complain(f"{error.filename}: {error.strerror}")
    if isinstance(error, OSError) and error.errno in _NO_ROOM:
        return _complain(f"the output could not be written: {error.strerror}")
    if isinstance(error, FileNotFoundError | PermissionError | IsADirectoryError | NotADirectoryError):
        return _complain(error.strerror or str(error))  # Arrow's errors name the file themselves
    if isinstance(error, ModuleNotFoundError) and (extra := EXTRA_OF.get((error.name or "").partition(".")[0])):
        return _complain(f'the package {error.name} is missing: pip install "thence[{extra}]"')
    if isinstance(error, ImportError) and (error.name or "").startswith("thence."):
        return _complain(str(error))  # a package of thence that does not work on this system
    if type(error).__name__ == "Py4JNetworkError" or (type(error) is ConnectionRefusedError and "py4j" in sys.modules):
        return _complain(
            "Spark's Java process has ended before its work was done; if it says OutOfMemoryError above, "
            "give it more memory with THENCE_MEMORY, as in THENCE_MEMORY=8g thence ..."
        )
    if "Python worker failed to connect back" in str(error):
        return _complain(
            "a Python worker did not answer Spark in time; the machine may be too busy: run the command again (a "
            "stream continues where it stopped), or run `thence doctor`"
        )
    sys.excepthook(type(error), error, error.__traceback__)
    print("thence: this is a bug in thence; the traceback above shows where", file=sys.stderr)
    return BUG


def _complain(message: str) -> int:
    from thence.core.model.escape import visible

    print(visible(" ".join(f"thence: {message}".split())), file=sys.stderr)
    return MISUSE


def _show_version(wanted: bool) -> None:
    if wanted:
        print(f"thence {__version__}")
        raise SystemExit(OK)
