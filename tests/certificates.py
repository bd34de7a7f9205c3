"""Certificates of a private authority, for 127.0.0.1."""

from dataclasses import dataclass
from pathlib import Path

import trustme
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)


@dataclass(frozen=True)
class Certificates:
    """Where they are, each as PEM; the key as PKCS 8, which Java reads too."""

    authority: Path
    chain: Path
    key: Path


def issue(directory: Path) -> Certificates:
    """Fresh ones."""
    authority = trustme.CA()
    issued = authority.issue_cert("127.0.0.1")
    made = Certificates(directory / "ca.pem", directory / "server.pem", directory / "server.key")
    authority.cert_pem.write_to_path(made.authority)
    issued.cert_chain_pems[0].write_to_path(made.chain)
    key = load_pem_private_key(issued.private_key_pem.bytes(), None)
    made.key.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    return made
