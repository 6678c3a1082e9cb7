"""Self-signed certificates: created in a pod, and published to the cluster through its service account."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

from trainer.helpers.kubernetes_api import ApiAddress, ApiError, KubernetesApi

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

CERTIFICATE, KEY = "tls.crt", "tls.key"
_VALIDITY_DAYS = 3650
"""Far longer than any pod lives."""


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


def create_and_publish(program: str, host: str, folder: Path, publish: Callable[[KubernetesApi], None]) -> int:
    """Create a certificate for `host` in `folder` and make it known; return the exit status of `program`.

    Returns:
        0 when the certificate is there and known, 1 when something failed, which is on standard error.
    """
    try:
        create_certificate(host, folder)
        api = KubernetesApi(ApiAddress.in_cluster())
        try:
            publish(api)
        finally:
            api.close()
    except subprocess.CalledProcessError as error:
        return _failed(program, f"openssl: {error.stderr.strip()}")
    except OSError as error:
        return _failed(program, f"{error}. Fix: use an image with openssl (Debian package openssl)")
    except ApiError as error:
        return _failed(program, str(error))
    return 0


def _failed(program: str, reason: str) -> int:
    print(f"{program}: {reason}", file=sys.stderr, flush=True)
    return 1
