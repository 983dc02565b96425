"""Certificates for a set of endpoints: a throw-away authority and one certificate for each process.

Needs the package `cryptography` (`pip install "thence[live]"`); a running endpoint needs only the standard library.
A certificate identifies its process by the URI `thence:<name>`.
"""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import NameOID

from thence.errors import MisuseError
from thence.live.private import make_private

DAYS = 365


@dataclass(frozen=True)
class Authority:
    """A certificate authority for the processes of one set."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey

    def write(self, path: Path) -> None:
        """Write the certificate that peers are to trust."""
        path.write_bytes(self.certificate.public_bytes(Encoding.PEM))

    def write_key(self, path: Path) -> None:
        """Write the key, readable by its owner only: its holder can issue a certificate for any name."""
        _write_key(self.key, path)


def load_authority(certificate: Path, key: Path) -> Authority:
    """Read an authority whose key was kept."""
    try:
        found = load_pem_private_key(key.read_bytes(), None)
        made = x509.load_pem_x509_certificate(certificate.read_bytes())
    except (OSError, ValueError) as error:
        raise MisuseError(f"{key}: {error}; a set made with --init --keep-authority has it") from error
    if not isinstance(found, ec.EllipticCurvePrivateKey):
        raise MisuseError(f"{key} is not a key that --init --keep-authority wrote")
    return Authority(made, found)


def authority(name: str = "thence throw-away authority") -> Authority:
    """Make an authority; its key exists in memory only."""
    key, subject = ec.generate_private_key(ec.SECP256R1()), _name(name)
    return Authority(_signed(subject, subject, key.public_key(), key, DAYS, signs=True), key)


def issue(
    by: Authority,
    names: Sequence[str],
    certificate: Path,
    key_file: Path,
    *,
    hosts: Sequence[str] = (),
    days: float = DAYS,
) -> None:
    """Write a certificate for these processes (one, unless a test wants otherwise), or for hosts, and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    alternatives: list[x509.GeneralName] = [x509.UniformResourceIdentifier(f"thence:{name}") for name in names]
    for host in hosts:
        try:
            alternatives.append(x509.IPAddress(ip_address(host)))
        except ValueError:
            alternatives.append(x509.DNSName(host))
    extra = [(x509.SubjectAlternativeName(alternatives), False)] if alternatives else []
    subject = _name([*names, *hosts, "unnamed"][0])
    made = _signed(subject, by.certificate.subject, key.public_key(), by.key, days, signs=False, extra=extra)
    certificate.write_bytes(made.public_bytes(Encoding.PEM))
    _write_key(key, key_file)


def _write_key(key: ec.EllipticCurvePrivateKey, path: Path) -> None:
    make_private(path)
    path.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text[:64])])


def _signed(
    subject: x509.Name,
    issuer: x509.Name,
    public: ec.EllipticCurvePublicKey,
    key: ec.EllipticCurvePrivateKey,
    days: float,
    *,
    signs: bool,
    extra: Sequence[tuple[x509.ExtensionType, bool]] = (),
) -> x509.Certificate:
    """Return a certificate: of an authority if it `signs` others; `extra` are further extensions, critical or not."""
    now = datetime.datetime.now(datetime.UTC)
    end = now + datetime.timedelta(days=days)
    usage = x509.KeyUsage(
        digital_signature=True, key_cert_sign=signs, crl_sign=signs, content_commitment=False, key_encipherment=False,
        data_encipherment=False, key_agreement=False, encipher_only=False, decipher_only=False,
    )  # fmt: skip
    made = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .serial_number(x509.random_serial_number())
        .not_valid_before(min(now, end) - datetime.timedelta(hours=1))
        .not_valid_after(end)
        .public_key(public)
    )
    constraints = x509.BasicConstraints(ca=signs, path_length=0 if signs else None)
    for each, critical in ((constraints, True), (usage, True), *extra):
        made = made.add_extension(each, critical=critical)
    return made.sign(key, hashes.SHA256())
