"""Certificates that kwokctl does not create: of the kubelet, of kube-proxy, and of the front proxy with its CA."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from ipaddress import IPv4Address
from pathlib import Path

from tools.files import write_atomically
from tools.process import CommandError, run

VALIDITY_DAYS = 3650
_NEW_KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")


@dataclass(frozen=True)
class Authority:
    """A certificate authority's files."""

    certificate: Path
    key: Path


@dataclass(frozen=True)
class Identity:
    """A certificate and its private key, both PEM files."""

    certificate: Path
    key: Path


def identity(folder: Path, name: str) -> Identity:
    """Return where a certificate and its key are kept."""
    return Identity(folder / f"{name}.crt", folder / f"{name}.key")


def ensure_authority(folder: Path, name: str) -> Authority:
    """Return the authority in `<name>.crt` and `<name>.key` of a folder, creating it where it is missing."""
    authority = Authority(folder / f"{name}.crt", folder / f"{name}.key")
    if authority.certificate.exists() and authority.key.exists():
        return authority
    with tempfile.TemporaryDirectory() as temporary:
        key = Path(temporary) / "key"
        about = ["-subj", f"/CN={name}", "-days", str(VALIDITY_DAYS), "-sha256"]
        # The default configuration adds the extensions of an authority, but not what its key may be used for.
        usage = ["-addext", "keyUsage=critical,digitalSignature,keyCertSign"]
        certificate = run(["openssl", "req", "-x509", *_NEW_KEY, "-keyout", key, *about, *usage])
        write_atomically(authority.key, key.read_text(encoding="utf-8"))
        # the certificate last: a key without it is replaced
        write_atomically(authority.certificate, certificate)
    return authority


def issue(
    authority: Authority, folder: Path, name: str, *, subject: str, server_address: IPv4Address | str | None = None
) -> Identity:
    """Return a certificate of the authority, issuing it where it is missing or the authority is another by now.

    Args:
        authority: who signs.
        folder: where `<name>.crt` and `<name>.key` are kept.
        name: what the files are called.
        subject: distinguished name as OpenSSL writes it ("/O=system:nodes/CN=system:node:n").
        server_address: for a server's certificate, the address or host name it is reached at; without it, it is a
            client's.
    """
    issued = identity(folder, name)
    if _is_signed_by(issued, authority):
        return issued
    usage = "serverAuth" if server_address else "clientAuth"
    extensions = f"keyUsage=critical,digitalSignature\nextendedKeyUsage={usage}\n"
    if server_address:
        kind = "IP" if isinstance(server_address, IPv4Address) else "DNS"
        extensions += f"subjectAltName={kind}:{server_address}\n"
    with tempfile.TemporaryDirectory() as temporary:
        key, request, extension_file = (Path(temporary) / file for file in ("key", "request", "extensions"))
        extension_file.write_text(extensions, encoding="utf-8")
        run(["openssl", "req", "-new", *_NEW_KEY, "-keyout", key, "-out", request, "-subj", subject])
        signer = ["-CA", authority.certificate, "-CAkey", authority.key, "-set_serial", f"0x{_serial()}"]
        sign = ["openssl", "x509", "-req", "-in", request, *signer, "-days", str(VALIDITY_DAYS), "-sha256"]
        certificate = run([*sign, "-extfile", extension_file])
        write_atomically(issued.key, key.read_text(encoding="utf-8"))
        # the certificate last: a key without it is replaced
        write_atomically(issued.certificate, certificate)
    return issued


def _serial() -> str:
    return run(["openssl", "rand", "-hex", "16"]).strip()


def _is_signed_by(issued: Identity, authority: Authority) -> bool:
    if not (issued.certificate.exists() and issued.key.exists()):
        return False
    try:
        run(["openssl", "verify", "-CAfile", authority.certificate, issued.certificate])
    except CommandError:
        return False
    return True
