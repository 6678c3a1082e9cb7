"""Create the certificate of an API server that extends the cluster's, and have the cluster's trust it.

`python3 -m trainer.helpers.serving_certificate --host … --folder … --api_services …`, before that server starts. The
certificate signs itself and is its own authority; its key never leaves the pod. Every start creates another one.
"""

from __future__ import annotations

import base64
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path  # noqa: TC003  the command line parser reads the annotation at run time
from typing import TYPE_CHECKING

from trainer.common import command_line
from trainer.helpers.kubernetes_api import ApiAddress, ApiError, KubernetesApi

if TYPE_CHECKING:
    from collections.abc import Sequence

CERTIFICATE, KEY = "tls.crt", "tls.key"
_API_SERVICES = "/apis/apiregistration.k8s.io/v1/apiservices"
_VALIDITY_DAYS = 3650
"""Far longer than any pod lives."""


@dataclass(frozen=True, kw_only=True)
class CertificateConfig:
    """Create the certificate of an API server that extends the cluster's, and have the cluster's trust it."""

    host: str
    """Name by which the cluster's API server calls this one: `<service>.<namespace>.svc`."""
    folder: Path
    """Folder for tls.crt and tls.key."""
    api_services: tuple[str, ...]
    """Names of the APIServices that this server answers for."""


def parse(arguments: Sequence[str] | None = None) -> CertificateConfig:
    """Read the command line; see `command_line.parse`."""
    return command_line.parse(CertificateConfig, "trainer.helpers.serving_certificate", arguments)


def create_certificate(host: str, folder: Path) -> bytes:
    """Write a key and a certificate that it signed itself into a folder; return the certificate as PEM.

    Raises:
        OSError: the image has no openssl.
        subprocess.CalledProcessError: openssl failed; `stderr` says why.
    """
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    # A common name has 64 characters at most (RFC 5280); clients look at the alternative name.
    names = [
        "-subj",
        f"/CN={host[:64]}",
        "-addext",
        f"subjectAltName=DNS:{host}",
        "-addext",
        "extendedKeyUsage=serverAuth",
    ]
    files = ["-keyout", str(folder / KEY), "-out", str(folder / CERTIFICATE)]
    subprocess.run([*command, *names, *files, "-days", str(_VALIDITY_DAYS)], check=True, capture_output=True, text=True)
    return (folder / CERTIFICATE).read_bytes()


def publish_certificate(api: KubernetesApi, certificate: bytes, api_services: Sequence[str]) -> None:
    """Have the cluster's API server trust a certificate for these APIServices, and no other one.

    Raises:
        ApiError: the server did not answer, or did not accept it.
    """
    change = {"spec": {"caBundle": base64.b64encode(certificate).decode()}}
    for name in api_services:
        api.merge(f"{_API_SERVICES}/{name}", change)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return 0 when the certificate is there and trusted, 1 when something failed."""
    config = parse(arguments)
    try:
        certificate = create_certificate(config.host, config.folder)
        api = KubernetesApi(ApiAddress.in_cluster())
        try:
            publish_certificate(api, certificate, config.api_services)
        finally:
            api.close()
    except subprocess.CalledProcessError as error:
        return _failed(f"openssl: {error.stderr.strip()}")
    except OSError as error:
        return _failed(f"{error}. Fix: use an image with openssl (Debian package openssl)")
    except ApiError as error:
        return _failed(str(error))
    return 0


def _failed(reason: str) -> int:
    print(f"serving_certificate: {reason}", file=sys.stderr, flush=True)
    return 1


if __name__ == "__main__":
    sys.exit(main())
