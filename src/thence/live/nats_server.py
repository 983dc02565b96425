"""Names of subjects, streams and users on the NATS servers, the servers' configuration, and what they promise.

Invariant: a member's user may publish on subjects of its own name only, read its own consumer, and make the streams
but neither change nor remove them. So the sender in an item's subject is the user whose password was used.
"""

from __future__ import annotations

import json
import secrets
import ssl
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote_to_bytes

from thence.errors import MisuseError
from thence.live.config import Config, Nats, Tls

if TYPE_CHECKING:
    from nats.js.api import StreamConfig

ITEM_ROOM = 1 << 16
"""bytes of a message that stamp and header may take beside the payload"""
MAX_PAYLOAD = 1 << 23
_PLAIN = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-")
ANY = ""
"""stands for all processes, as `*` does in a subject; no process has this name, but one may be called `*`"""


class Subjects:
    """The names of the streams and subjects of one run."""

    def __init__(self, stream: str) -> None:
        self.stream, self.state_stream = stream, f"{stream}-state"

    @staticmethod
    def token(process: str) -> str:
        """Return a process name as part of a subject: other bytes than letters, digits, - and _ as =XX."""
        return "".join(chr(b) if chr(b) in _PLAIN else f"={b:02X}" for b in process.encode()) or "*"

    @staticmethod
    def name(token: str) -> str:
        """Return the process that a part of a subject names; one that no process of ours has written names none."""
        return unquote_to_bytes(token.replace("%", "%25").replace("=", "%")).decode("utf-8", "replace")

    def item(self, sender: str, destination: str) -> str:
        """Return the subject of items from one process to another; `ANY`: from any."""
        return f"{self.stream}.{self.token(sender)}.{self.token(destination)}"

    def beat(self, process: str) -> str:
        """Return the subject of heartbeats; `ANY`: of all."""
        return f"{self.stream}-beat.{self.token(process)}"

    def state(self, process: str) -> str:
        """Return the subject under which a process leaves how far it has come."""
        return f"{self.state_stream}.{self.token(process)}"

    def question(self, asker: str, asked: str) -> str:
        """Return the subject on which one process asks another for a change of membership; `ANY`: from any."""
        return f"{self.stream}-ask.{self.token(asker)}.{self.token(asked)}"

    def answer(self, asked: str, asker: str) -> str:
        """Return the subject of answers; `ANY`: from any.

        An answer has a subject of the answering process's own name instead of the question's reply subject. A user
        with `allow_responses` could name any subject in a question to itself, and publish there.
        """
        return f"{self.stream}-answer.{self.token(asked)}.{self.token(asker)}"

    def inbox(self, process: str) -> str:
        """Return where the servers answer a process; no other member may listen there."""
        return f"_INBOX_{self.token(process)}"


def read_password(nats: Nats) -> str:
    """Return the password of this member's user."""
    try:
        return nats.password.read_text(encoding="utf-8").strip()
    except OSError as error:
        raise MisuseError(f"nats.password is {nats.password}: {error.strerror}") from error


def connection_settings(config: Config, password: str, tls: ssl.SSLContext | None) -> dict[str, Any]:
    """Return how a member connects.

    With TLS, the handshake comes first: otherwise the client of nats-py sends the password in the clear to a server, or
    to an attacker in its place, that does not ask for TLS in its first line.
    """
    assert config.nats is not None
    return {
        "servers": list(config.nats.servers),
        "user": config.nats.user,
        "password": password,
        "name": config.name,
        "inbox_prefix": Subjects(config.nats.stream).inbox(config.name).encode(),
        "tls": tls,
        "tls_handshake_first": tls is not None,
    }


def stream_settings(nats: Nats) -> list[StreamConfig]:
    """Return the streams: items until they are acknowledged, and the latest state of each member."""
    from nats.js.api import DiscardPolicy, RetentionPolicy, StorageType, StreamConfig

    names = Subjects(nats.stream)
    shared = {"storage": StorageType.FILE, "num_replicas": nats.replicas}
    items = StreamConfig(
        name=names.stream,
        subjects=[f"{names.stream}.*.*"],
        retention=RetentionPolicy.WORK_QUEUE,
        discard=DiscardPolicy.NEW,
        **shared,  # type: ignore[arg-type]
    )
    states = StreamConfig(
        name=names.state_stream,
        subjects=[f"{names.state_stream}.*"],
        max_msgs_per_subject=1,
        **shared,  # type: ignore[arg-type]
    )
    return [items, states]


def check_stream(found: StreamConfig, wanted: StreamConfig) -> None:
    """Refuse a stream that keeps less than ours would."""
    for key in ("storage", "retention", "subjects", "num_replicas", "discard", "max_msgs_per_subject"):
        here, there = getattr(wanted, key), getattr(found, key)
        if here is not None and here != there and not (key == "discard" and wanted.max_msgs_per_subject):
            expected = getattr(here, "value", here)
            raise MisuseError(f"stream {wanted.name!r} has {key} {there!r}; {expected!r} is expected")
    for key in ("max_age", "max_msgs", "max_bytes"):
        limit = getattr(found, key)
        if key != "max_bytes" and limit is not None and limit > 0:
            raise MisuseError(f"stream {wanted.name!r} has {key} {limit}; items must stay until they are acknowledged")


def declared_interval(monitor: str) -> str:
    """Return the sync_interval of the server behind a monitoring port: `always`, or a duration as Go writes it."""
    try:
        with urllib.request.urlopen(f"{monitor}/varz", timeout=5) as answer:
            found = json.load(answer)
    except (OSError, ValueError) as error:
        raise MisuseError(f"nats.monitor is {monitor}, which does not answer: {error}") from error
    settings = found.get("jetstream", {}).get("config", {})
    if settings.get("sync_always"):
        return "always"
    seconds = int(settings.get("sync_interval", 120 * 10**9)) / 1e9
    for unit, size in (("h", 3600), ("m", 60), ("s", 1)):
        if seconds >= size and seconds % size == 0:
            return f"{seconds / size:g}{unit}"
    return f"{1000 * seconds:g}ms"


def permissions(names: Subjects, process: str) -> dict[str, dict[str, list[str]]]:
    """Return what a member may publish and subscribe to."""
    token, stream, state = names.token(process), names.stream, names.state_stream
    publish = [
        f"{stream}.{token}.*",
        names.beat(process),
        names.state(process),
        f"{stream}-ask.{token}.*",
        f"{stream}-answer.{token}.*",
        *(f"$JS.API.STREAM.{what}.{each}" for what in ("INFO", "CREATE") for each in (stream, state)),
        f"$JS.API.STREAM.MSG.GET.{state}",
        f"$JS.API.CONSUMER.CREATE.{stream}.{token}.{names.item(ANY, process)}",
        f"$JS.API.CONSUMER.INFO.{stream}.{token}",
        f"$JS.API.CONSUMER.MSG.NEXT.{stream}.{token}",
        f"$JS.ACK.{stream}.{token}.>",
    ]
    return {
        "publish": {"allow": publish},
        "subscribe": {
            "allow": [
                f"{names.inbox(process)}.>",
                names.beat(ANY),
                names.question(ANY, process),
                names.answer(ANY, process),
            ]
        },
    }


def users_configuration(stream: str, passwords: Mapping[str, str]) -> str:
    """Return the users, one for each process, as the server's configuration includes them."""
    names = Subjects(stream)
    users = [
        {"user": name, "password": password, "permissions": permissions(names, name)}
        for name, password in passwords.items()
    ]
    return f"users: {json.dumps(users, indent=1)}\n"


def server_configuration(
    *,
    port: int,
    store: Path,
    users: str,
    tls: Tls | None = None,
    monitor: int | None = None,
    cluster: tuple[str, int, Sequence[int]] | None = None,
) -> str:
    """Return the configuration of a server on this machine.

    `users` names a file beside it with what `users_configuration` gives: the server finds no other. With `tls`, clients
    show a certificate of the same authority, and TLS comes before anything else. `cluster`: the server's name, its port
    for the others, and theirs.
    """
    lines = [
        f"listen: 127.0.0.1:{port}",
        f"max_payload: {MAX_PAYLOAD}",
        f"jetstream {{ store_dir: {json.dumps(str(store))}, sync_interval: always }}",
        f"authorization {{ include {json.dumps(users)} }}",
    ]
    if tls is not None:
        files = {"cert_file": tls.certificate, "key_file": tls.key, "ca_file": tls.authority}
        named = ", ".join(f"{key}: {json.dumps(str(path))}" for key, path in files.items())
        lines.append(f"tls {{ {named}, verify: true, handshake_first: true }}")
    if monitor is not None:
        lines.append(f"http: 127.0.0.1:{monitor}")
    if cluster is not None:
        name, own, others = cluster
        routes = ", ".join(f"nats://127.0.0.1:{each}" for each in others)
        lines.append(f"server_name: {name}")
        lines.append(f"cluster {{ name: thence, listen: 127.0.0.1:{own}, routes: [{routes}] }}")
    return "\n".join(lines) + "\n"


def new_password() -> str:
    """Return a random password of 32 characters."""
    return secrets.token_urlsafe(24)
