"""Create the certificate that clients of the gateway see, where nobody brings one, as a Secret of the cluster.

`python3 -m trainer.helpers.gateway_certificate --domain … --namespace … --secret … --folder …`. It is for all names
below the domain and signs itself: clients that are to trust it get it from the Secret. One that exists stays.
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
from trainer.helpers.serving_certificate import CERTIFICATE, KEY, create_certificate

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True, kw_only=True)
class GatewayCertificateConfig:
    """Create the certificate that clients of the gateway see, as a Secret of the cluster."""

    domain: str
    """Domain of the hosts that it is for."""
    namespace: str
    """Namespace of the Secret."""
    secret: str
    """Name of the Secret, of type kubernetes.io/tls."""
    folder: Path
    """Folder for the key until it is in the Secret: one in memory."""


def parse(arguments: Sequence[str] | None = None) -> GatewayCertificateConfig:
    """Read the command line; see `command_line.parse`."""
    return command_line.parse(GatewayCertificateConfig, "trainer.helpers.gateway_certificate", arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return 0 when the Secret is there, 1 when something failed."""
    config = parse(arguments)
    try:
        create_certificate(f"*.{config.domain}", config.folder)
        api = KubernetesApi(ApiAddress.in_cluster())
        try:
            outcome = api.create(f"/api/v1/namespaces/{config.namespace}/secrets", secret_manifest(config))
        finally:
            api.close()
    except subprocess.CalledProcessError as error:
        return _failed(f"openssl: {error.stderr.strip()}")
    except OSError as error:
        return _failed(f"{error}. Fix: use an image with openssl (Debian package openssl)")
    except ApiError as error:
        return _failed(str(error))
    print(f"Secret {config.secret}: {outcome}", flush=True)
    return 0


def secret_manifest(config: GatewayCertificateConfig) -> dict[str, object]:
    """Return the Secret with the key and the certificate that are in the folder."""
    data = {name: base64.b64encode((config.folder / name).read_bytes()).decode() for name in (CERTIFICATE, KEY)}
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "type": "kubernetes.io/tls",
        "metadata": {"name": config.secret, "namespace": config.namespace},
        "data": data,
    }


def _failed(reason: str) -> int:
    print(f"gateway_certificate: {reason}", file=sys.stderr, flush=True)
    return 1


if __name__ == "__main__":
    sys.exit(main())
