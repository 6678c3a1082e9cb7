"""Creates a self-signed certificate for the gateway, as a Secret, unless one is provided.

`python3 -m trainer.helpers.gateway_certificate --domain … --namespace … --secret … --folder …`. It is valid for all
names below the domain. Clients that are to trust it get it from the Secret. An existing one is kept.
"""

from __future__ import annotations

import base64
import sys
from dataclasses import dataclass
from pathlib import Path  # noqa: TC003  the command line parser reads the annotation at run time
from typing import TYPE_CHECKING

from trainer.common import command_line
from trainer.helpers.certificates import CERTIFICATE, KEY, create_and_publish

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trainer.helpers.kubernetes_api import KubernetesApi


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

    def publish(api: KubernetesApi) -> None:
        outcome = api.create(f"/api/v1/namespaces/{config.namespace}/secrets", secret_manifest(config))
        print(f"Secret {config.secret}: {outcome}", flush=True)

    return create_and_publish("gateway_certificate", f"*.{config.domain}", config.folder, publish)


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


if __name__ == "__main__":
    sys.exit(main())
