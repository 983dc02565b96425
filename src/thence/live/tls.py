"""TLS of a live endpoint: contexts for both roles, read again when their files change, and names in certificates.

Invariant: a peer's name is the URI `thence:<name>` among the alternative names of its certificate,
which the configured authority has signed.
"""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from pathlib import Path

from thence.errors import MisuseError, PeerError
from thence.live.config import Tls
from thence.live.logs import Warnings

URI = "thence:"


class Contexts:
    """TLS for both roles, from files that may change."""

    def __init__(self, tls: Tls, warnings: Warnings) -> None:
        self.tls, self._warnings = tls, warnings
        self.server, self.client = context(tls, ssl.PROTOCOL_TLS_SERVER), context(tls, ssl.PROTOCOL_TLS_CLIENT)
        self._seen = self._times()

    def _times(self) -> list[int]:
        return [path.stat().st_mtime_ns for path in (self.tls.certificate, self.tls.key, self.tls.authority)]

    def renew(self) -> bool:
        """Take changed files for the connections to come; files that do not fit yet are left for the next time."""
        try:
            now = self._times()
            if now == self._seen:
                return False
            for each in (self.server, self.client):
                each.load_cert_chain(self.tls.certificate, self.tls.key)
                each.load_verify_locations(self.tls.authority)
        except (OSError, ssl.SSLError) as error:
            sentence = f"changed certificates cannot be used yet: {error}"
            self._warnings.say("unusable", "", sentence, certificate=str(self.tls.certificate), reason=str(error))
            return False
        self._seen = now
        return True


def context(tls: Tls, role: int) -> ssl.SSLContext:
    """Return TLS for one role: both ends show a certificate of the same authority."""
    made = ssl.SSLContext(role)
    made.minimum_version = ssl.TLSVersion.TLSv1_3
    made.check_hostname = False  # the URI in the certificate identifies a peer, not its host name
    made.verify_mode = ssl.CERT_REQUIRED
    for what, path in (("certificate", tls.certificate), ("key", tls.key), ("authority", tls.authority)):
        _readable(what, path)
    try:
        made.load_cert_chain(tls.certificate, tls.key)
        made.load_verify_locations(tls.authority)
    except (ssl.SSLError, OSError) as error:
        raise MisuseError(f"tls: {tls.certificate}, {tls.key} and {tls.authority} do not fit: {error}") from error
    return made


def check_own(tls: Tls, name: str) -> None:
    """Refuse a certificate that names another process: every peer would turn this one away.

    It is read as a peer reads it, in a handshake with itself. One that the authority does not vouch for (any more) is
    left for a renewal.
    """
    there, back = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = [
        context(tls, ssl.PROTOCOL_TLS_CLIENT).wrap_bio(back, there),
        context(tls, ssl.PROTOCOL_TLS_SERVER).wrap_bio(there, back, server_side=True),
    ]
    for each in (ends * 2)[:3]:
        try:
            each.do_handshake()
        except ssl.SSLWantReadError:
            continue
        except ssl.SSLError:
            return
    try:
        found = proven_name(ends[0])
    except PeerError as error:
        raise MisuseError(f"tls.certificate is {tls.certificate}: {error}") from error
    if found != name:
        raise MisuseError(f"tls.certificate is {tls.certificate}: it names {URI}{found}; {URI}{name} is expected")


def client_context(tls: Tls) -> ssl.SSLContext:
    """Return TLS towards servers that are identified by their address, such as those of NATS."""
    made = context(tls, ssl.PROTOCOL_TLS_CLIENT)
    made.check_hostname = True
    return made


def _readable(what: str, path: Path) -> None:
    try:
        path.read_bytes()
    except OSError as error:
        raise MisuseError(f"tls.{what} is {path}: {error.strerror}") from error


def proven_name(ssl_object: ssl.SSLObject | None) -> str | None:
    """Return the name that a certificate proves; None without TLS."""
    if ssl_object is None:
        return None
    certificate: Mapping[str, object] = ssl_object.getpeercert() or {}
    alternatives = certificate.get("subjectAltName", ())
    assert isinstance(alternatives, tuple)
    names = [value[len(URI) :] for kind, value in alternatives if kind == "URI" and value.startswith(URI)]
    if len(names) != 1:
        raise PeerError(f"the certificate holds {len(names)} names of the form {URI}NAME; exactly one is expected")
    return str(names[0])


def tls_problem(error: ssl.SSLError) -> str:
    """Return the reason of a TLS failure, with the certificate's problem if there is one."""
    reason = str(error.reason or error)
    return f"{reason}, {error.verify_message}" if isinstance(error, ssl.SSLCertVerificationError) else reason
