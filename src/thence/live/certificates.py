"""Certificates for a set of endpoints: a throw-away authority and one certificate for each process.

Needs the package `cryptography` (`pip install "thence[live]"`); a running endpoint needs only the standard library.
Who a process is stands in its certificate as the URI `thence:<name>`.
"""

from __future__ import annotations

import datetime
import os
from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey

from thence.errors import MisuseError
from thence.live.private import make_private

DAYS = 365


@dataclass(frozen=True)
class Authority:
    """An authority that vouches for names."""

    certificate: x509.Certificate
    key: EllipticCurvePrivateKey

    def write(self, path: Path) -> None:
        """Write the certificate that peers are to trust."""
        from cryptography.hazmat.primitives.serialization import Encoding

        path.write_bytes(self.certificate.public_bytes(Encoding.PEM))

    def write_key(self, path: Path) -> None:
        """Write the key, readable by its owner only: its holder can issue a certificate for any name."""
        from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

        make_private(path)
        path.write_bytes(self.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))


def load_authority(certificate: Path, key: Path) -> Authority:
    """Read an authority whose key was kept."""
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    try:
        found = load_pem_private_key(key.read_bytes(), None)
        made = x509.load_pem_x509_certificate(certificate.read_bytes())
    except (OSError, ValueError) as error:
        raise MisuseError(f"{key}: {error}; a set made with --init --keep-authority has it") from error
    if not isinstance(found, EllipticCurvePrivateKey):
        raise MisuseError(f"{key} is not a key that --init --keep-authority wrote")
    return Authority(made, found)


def authority(name: str = "thence throw-away authority") -> Authority:
    """Make an authority; its key exists in memory only."""
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    subject = _name(name)
    made = (
        _builder(subject, subject, DAYS)
        .public_key(key.public_key())
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs=True), critical=True)
    )
    return Authority(_signed(made, key), key)


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
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    key = ec.generate_private_key(ec.SECP256R1())
    alternatives: list[x509.GeneralName] = [x509.UniformResourceIdentifier(f"thence:{name}") for name in names]
    for host in hosts:
        try:
            alternatives.append(x509.IPAddress(ip_address(host)))
        except ValueError:
            alternatives.append(x509.DNSName(host))
    made = (
        _builder(_name([*names, *hosts, "unnamed"][0]), by.certificate.subject, days)
        .public_key(key.public_key())
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs=False), critical=True)
    )
    if alternatives:
        made = made.add_extension(x509.SubjectAlternativeName(alternatives), critical=False)
    certificate.write_bytes(_signed(made, by.key).public_bytes(Encoding.PEM))
    secret = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    handle = os.open(key_file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(handle, "wb") as stream:
        stream.write(secret)


def _name(text: str) -> x509.Name:
    from cryptography import x509
    from cryptography.x509.oid import NameOID

    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text[:64])])


def _builder(subject: x509.Name, issuer: x509.Name, days: float) -> x509.CertificateBuilder:
    from cryptography import x509

    now = datetime.datetime.now(datetime.UTC)
    end = now + datetime.timedelta(days=days)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .serial_number(x509.random_serial_number())
        .not_valid_before(min(now, end) - datetime.timedelta(hours=1))
        .not_valid_after(end)
    )


def _usage(*, signs: bool) -> x509.KeyUsage:
    from cryptography import x509

    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs,
        crl_sign=signs,
        encipher_only=False,
        decipher_only=False,
    )


def _signed(builder: x509.CertificateBuilder, key: EllipticCurvePrivateKey) -> x509.Certificate:
    from cryptography.hazmat.primitives import hashes

    return builder.sign(key, hashes.SHA256())
