"""Creates the certificate of an extension API server, and makes the cluster's API server trust it.

`python3 -m trainer.helpers.serving_certificate --host … --folder … --api_services …`, before that server starts. The
certificate signs itself and is its own authority; its key never leaves the pod. Every start creates another one.
"""

from __future__ import annotations

import base64
import sys
from dataclasses import dataclass
from pathlib import Path  # noqa: TC003  the command line parser reads the annotation at run time
from typing import TYPE_CHECKING

from trainer.common import command_line
from trainer.helpers.certificates import CERTIFICATE, create_and_publish

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trainer.helpers.kubernetes_api import KubernetesApi

_API_SERVICES = "/apis/apiregistration.k8s.io/v1/apiservices"


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


def publish_certificate(api: KubernetesApi, certificate: bytes, api_services: Sequence[str]) -> None:
    """Make the cluster's API server trust a certificate for these APIServices, and no other one.

    Raises:
        ApiError: the server did not answer, or did not accept it.
    """
    change = {"spec": {"caBundle": base64.b64encode(certificate).decode()}}
    for name in api_services:
        api.merge(f"{_API_SERVICES}/{name}", change)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return 0 when the certificate is there and trusted, 1 when something failed."""
    config = parse(arguments)

    def publish(api: KubernetesApi) -> None:
        publish_certificate(api, (config.folder / CERTIFICATE).read_bytes(), config.api_services)

    return create_and_publish("serving_certificate", config.host, config.folder, publish)


if __name__ == "__main__":
    sys.exit(main())
