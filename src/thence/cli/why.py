"""`thence why`: the messages that a live endpoint holds, the causes they wait for, its links and its journal."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer

from thence.cli._common import SHOWN, JsonFile, console, write_json
from thence.cli._console import table
from thence.core.model.plain import Row
from thence.errors import MisuseError

EXAMPLE = "thence why trio/c.toml"


def command(
    config: Annotated[Path, typer.Argument(help="The configuration of a running endpoint.")],
    give_up: Annotated[
        str | None, typer.Option("--give-up", metavar="PROCESS", help="Give up a process that is gone for good.")
    ] = None,
    json_file: JsonFile = None,
) -> None:
    """Ask a running endpoint, over its local admin socket, which messages it holds and why."""
    from thence.live.admin import ask
    from thence.live.config import load

    read = load(config)
    if read.admin is None:
        raise MisuseError(f"{config}: admin is missing; it names the socket to ask")
    if give_up is not None:
        ask(read.admin, {"ask": "abandon", "process": give_up})
    answer = ask(read.admin, {"ask": "why"})
    _show(answer, json_file)
    write_json(json_file, answer)


def _show(answer: Row, json_file: str | None) -> None:
    out, now = console(json_file), time.time()
    held = [
        (row["message"], row["sender"], ", ".join(row["waits_for"]) or row["reason"], _ago(row["since"], now))
        for row in answer["held"]
    ]
    for root in answer["roots"]:
        away = "connected" if root["reachable"] else "away"
        since = "" if root["since"] is None else f", the first for {_ago(root['since'], now)}"
        count = root["messages"]
        which = f"All {count}" if count == len(held) > 1 else f"{count} of {len(held)}" if len(held) > 1 else "1"
        verb = "waits" if count == 1 else "wait"
        noun = f"held message{'s' * (len(held) > 1)}"
        out.print(f"{which} {noun} {verb} for {root['process']}, which is {away}{since}.")
    if held:
        more = f" (the first {SHOWN} of {len(held)})" if len(held) > SHOWN else ""
        title = f"Messages that wait for their causes{more}"
        out.print(table("held", "from", "waits for", "since", rows=held[:SHOWN], title=title))
    else:
        out.print(f"{answer['process']} holds nothing back.")
    for row in answer["deferred"]:
        out.print(f"A send waits: {row['reason']} ({', '.join(row['processes'])}).")
    links = [
        (
            link["process"],
            "given up" if link["abandoned"] else "connected" if link["connected"] else "away",
            link["sent"] - link["acknowledged"],
            link["received"],
            link["refusal"],
        )
        for link in answer["links"]
    ]
    out.print(table("peer", "link", "on their way", "received", "refused because", rows=links))
    journal = answer["journal"]
    out.print(
        f"Journal {journal['path']} ({journal['synchronous']}): {journal['inputs']:,} inputs, "
        f"{journal['deliveries']:,} deliveries, {answer['inbox']:,} of them not done, {journal['bytes'] / 1e6:.1f} MB."
    )


def _ago(since: float | None, now: float) -> str | None:
    return None if since is None else f"{max(0.0, now - since):.1f} s"
