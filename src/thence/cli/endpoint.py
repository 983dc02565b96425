"""`thence endpoint`: runs one live process (JSON lines in and out), or writes a working set of configurations."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from pathlib import Path
from shlex import quote
from typing import Annotated

import typer

from thence.cli._common import JsonFile, console, detail, options_of, write_json
from thence.cli._console import Console
from thence.cli._packages import require_packages
from thence.errors import MisuseError

EXAMPLE = "thence endpoint --init trio --processes a,b,c"


def command(
    words: Annotated[
        list[str] | None,
        typer.Argument(metavar="[join|leave] CONFIG", help="The configuration of one endpoint, a TOML file."),
    ] = None,
    through: Annotated[
        str | None, typer.Option("--through", metavar="PEER", help="With join and leave: the process to contact.")
    ] = None,
    init: Annotated[
        Path | None,
        typer.Option(
            "--init", metavar="DIR", help="Write the configurations of a set of local processes to a new folder."
        ),
    ] = None,
    processes: Annotated[str, typer.Option(help="With --init: names of the processes, separated by commas.")] = "a,b,c",
    protocol: Annotated[str, typer.Option(help="With --init: the protocol.")] = "ks",
    option: Annotated[
        list[str] | None, typer.Option("--option", metavar="NAME=VALUE", help="With --init: an option of the protocol.")
    ] = None,
    plain: Annotated[bool, typer.Option("--plain", help="With --init: without TLS and certificates.")] = False,
    nats: Annotated[
        str | None,
        typer.Option(
            "--nats",
            metavar="STREAM",
            help="With --init: talk through a NATS server, whose configuration is written too.",
        ),
    ] = None,
    add: Annotated[
        str | None,
        typer.Option("--add", metavar="NAME", help="With --init: add a process to an existing set; see join."),
    ] = None,
    keep_authority: Annotated[
        bool,
        typer.Option("--keep-authority", help="With --init: keep the authority's key, so that members can be added."),
    ] = False,
    manual: Annotated[
        bool, typer.Option("--manual", help='Count a delivery as done only after the line {"done": NUMBER}.')
    ] = False,
    linger: Annotated[
        float | None, typer.Option(help="Stop this many seconds after the end of standard input.", min=0.0)
    ] = None,
    log: Annotated[
        str, typer.Option(metavar="text|json", help="Logs on standard error: sentences, or JSON lines.")
    ] = "text",
    json_file: JsonFile = None,
) -> None:
    """Run one live process: it sends the lines it reads and writes what is delivered, in causal order.

    With --init, write configurations, a throw-away authority and certificates instead. With join or leave, let a
    process join or leave the others while they run, and wait until each of them has accepted.
    """
    verb, config = _words(words or [])
    if (config is None) == (init is None):
        raise MisuseError("either a configuration file or --init DIR is expected")
    if (verb is None) != (through is None):
        raise MisuseError("join and leave need --through PEER; other uses do not take it")
    if verb is not None and config is not None and through is not None:
        _change(config, through, verb == "join", json_file)
        return
    if init is not None and add is not None:
        _add(init, add, json_file)
        return
    if init is not None:
        from thence.live.init import initialise

        if not plain:
            _needs_certificates()
        names = [name.strip() for name in processes.split(",") if name.strip()]
        files = initialise(
            init, names, protocol=protocol, plain=plain, options=options_of(option), nats=nats,
            keep_authority=keep_authority,
        )  # fmt: skip
        _show_set(init, names, files, console(json_file), kept=keep_authority and not plain, nats=nats is not None)
        write_json(json_file, {"configurations": [str(file) for file in files]})
        return
    from thence.live import Endpoint
    from thence.live.stdio import converse

    _speak(log)

    async def run() -> None:
        assert config is not None
        await converse(Endpoint(config), manual=manual, linger=linger)

    _runner()(run())


def _words(words: list[str]) -> tuple[str | None, Path | None]:
    """Return join, leave or None, and the configuration."""
    verb = words[0] if words and words[0] in ("join", "leave") else None
    rest = words[1:] if verb else words
    if len(rest) > 1 or (verb and not rest):
        raise MisuseError(f"{' '.join(words)!r}; CONFIG, join CONFIG or leave CONFIG is expected")
    return verb, Path(rest[0]) if rest else None


def _change(config: Path, through: str, joins: bool, json_file: str | None) -> None:
    import asyncio

    from thence.live.changes import change
    from thence.live.config import load

    read, out = load(config), console(json_file)
    verb = "join" if joins else "leave"

    def waiting(names: list[str]) -> None:
        out.print(f"{read.name} can {verb} when {', '.join(names)} {'has' if len(names) == 1 else 'have'} accepted it.")

    roster = asyncio.run(change(read, through, joins=joins, waiting=waiting))
    if joins:
        out.print(f"{read.name} has joined {', '.join(roster[:-1])}. Start it: thence endpoint {quote(str(config))}")
    else:
        out.print(f"{read.name} has left. Stop it when it has delivered what is on its way: thence why shows it.")
    write_json(json_file, {verb: read.name, "processes": roster})


def _add(folder: Path, name: str, json_file: str | None) -> None:
    from thence.live.config import load
    from thence.live.init import USERS, add_member

    file, out = add_member(folder, name), console(json_file)
    out.print(f"{file} is written. Let it join: thence endpoint join {quote(str(file))} --through PEER")
    if load(file).nats is not None:
        out.print(f"{folder / USERS} has its user; before it joins: nats-server --signal reload, for each server.")
    write_json(json_file, {"configurations": [str(file)]})


def _runner() -> Callable[[Coroutine[None, None, None]], None]:
    """Return the function that runs a coroutine: uvloop's where it is installed, asyncio's otherwise."""
    try:
        import uvloop
    except ImportError:
        import asyncio

        return asyncio.run
    return uvloop.run


def _speak(form: str) -> None:
    """Send logs to standard error: sentences (warnings, and more with --verbose), or JSON lines."""
    import logging

    from thence.live.logs import JsonFormatter

    class Sentences(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if record.levelno >= logging.WARNING:
                typer.echo(f"thence: {record.getMessage()}", err=True)
            else:
                detail(record.getMessage())

    if form not in ("text", "json"):
        raise MisuseError(f"--log is {form!r}; text or json is expected")
    handler: logging.Handler = Sentences()
    if form == "json":
        handler = logging.StreamHandler()
        handler.setFormatter(JsonFormatter())
    logging.basicConfig(level=logging.INFO, handlers=[handler], force=True)


def _needs_certificates() -> None:
    try:
        require_packages("cryptography")
    except MisuseError as error:
        raise MisuseError(f"{error}; or --plain makes a set without certificates") from None


def _show_set(folder: Path, names: list[str], files: list[Path], out: Console, *, kept: bool, nats: bool) -> None:
    """Print how to start the endpoints of a new set; `kept`: the authority's key is kept, `nats`: with a server."""
    from thence.live.init import AUTHORITY_KEY, SERVER

    if kept:
        out.print(f"{folder / AUTHORITY_KEY} can vouch for any name: keep it away from the endpoints.")
    if nats:
        out.print(f"Start the server first: nats-server -c {quote(str(folder / SERVER))}")
    out.print(f"{len(files)} endpoint{'s' * (len(files) != 1)}. Start each in a terminal of its own:")
    for file in files:
        out.print(f"  thence endpoint {quote(str(file))}")
    others = ", ".join(f'"{name}"' for name in names[1:3] or names)
    out.print("and type into the first:")
    out.print(f'  {{"send": [{others}], "payload": "hello"}}')
    out.print(
        f"Afterwards: thence audit {quote(str(folder))}/*.jsonl, and while they run: thence why {quote(str(files[-1]))}"
    )
