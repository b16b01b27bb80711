"""A certificate that nobody trusts, for servers of tests."""

from __future__ import annotations

import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from channels.emulators.serving import LOOPBACK


def self_signed(folder: Path) -> ssl.SSLContext:
    """The TLS of a server whom nobody trusts."""
    key, name = ec.generate_private_key(ec.SECP256R1()), x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, LOOPBACK)])
    now = datetime.now(UTC).replace(tzinfo=None)
    builder = x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number(), now)
    certificate = builder.not_valid_after(now + timedelta(days=1)).sign(key, hashes.SHA256())
    path = folder / "server.pem"
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()) + certificate.public_bytes(Encoding.PEM)
    path.write_bytes(pem)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(path)
    return context
