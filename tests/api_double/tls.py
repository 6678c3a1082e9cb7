"""The double's own certificate authority, and what a client must trust to speak to it."""

from __future__ import annotations

import ssl
import threading
from ipaddress import IPv4Address
from pathlib import Path

from tests.api_double.gate import is_cloud
from tools.files import write_atomically
from tools.local_cluster.pki import VALIDITY_DAYS, Authority, Identity, issue
from tools.process import run

LOOPBACK = IPv4Address("127.0.0.1")


def authority(folder: Path) -> Authority:
    """Return the certificate authority kept in a folder, made where it is missing."""
    made = Authority(folder / "ca.crt", folder / "ca.key")
    if not made.certificate.exists():
        folder.mkdir(parents=True, exist_ok=True)
        new_key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-keyout", made.key]
        subject = ["-subj", "/CN=athanor API double", "-days", str(VALIDITY_DAYS)]
        write_atomically(made.certificate, run(["openssl", "req", "-x509", *new_key, *subject]))
    return made


def server_context(folder: Path) -> ssl.SSLContext:
    """Return what a server on loopback needs for TLS, under its address and as any host of the cloud.

    Certificates are kept in the folder; a host's is issued when somebody first asks for it.
    """
    context = _context(folder, LOOPBACK)
    hosts: dict[str, ssl.SSLContext] = {}
    lock = threading.Lock()

    def choose(connection: ssl.SSLObject, name: str | None, _: ssl.SSLContext) -> None:
        if name is None or not is_cloud(name):
            return
        with lock:
            if name not in hosts:
                hosts[name] = _context(folder, name)
        connection.context = hosts[name]

    context.sni_callback = choose  # pyright: ignore[reportAttributeAccessIssue] - typed for SSLObject alone
    return context


def _context(folder: Path, at: IPv4Address | str) -> ssl.SSLContext:
    name = "server" if at == LOOPBACK else str(at)
    own: Identity = issue(authority(folder), folder, name, subject=f"/CN={at}", server_address=at)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(own.certificate, own.key)
    return context


def trusted_certificates(folder: Path) -> Path:
    """Return a file with the double's authority and the machine's own: SSL_CERT_FILE replaces the latter."""
    system = ssl.get_default_verify_paths().openssl_cafile
    bundled = Path("/etc/ssl/certs/ca-certificates.crt")
    texts = [path.read_text(encoding="utf-8") for path in dict.fromkeys([Path(system), bundled]) if path.is_file()]
    file = folder / "trusted.crt"
    write_atomically(file, "\n".join([authority(folder).certificate.read_text(encoding="utf-8"), *texts]))
    return file
