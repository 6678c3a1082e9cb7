"""The double's own certificate authority, and what a client must trust to speak to it."""

from __future__ import annotations

import ssl
from ipaddress import IPv4Address
from pathlib import Path

from tools.local_cluster.pki import VALIDITY_DAYS, Authority, Identity, issue
from tools.local_cluster.state import write_atomically
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
    """Return what a server on loopback needs for TLS; its certificate is kept in the folder."""
    own: Identity = issue(authority(folder), folder, "server", subject="/CN=127.0.0.1", server_address=LOOPBACK)
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
