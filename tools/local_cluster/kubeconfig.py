"""Self-contained kubeconfig files."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any

import yaml

from tools.files import write_atomically
from tools.local_cluster import control_plane
from tools.local_cluster.layout import API_SERVER_PORT

if TYPE_CHECKING:
    from pathlib import Path

    from tools.local_cluster.layout import Layout, Network
    from tools.local_cluster.pki import Identity


def for_identity(layout: Layout, network: Network, identity: Identity) -> dict[str, Any]:
    """Return a kubeconfig for the cluster, for the holder of the certificate."""
    return kubeconfig(
        server=f"https://{network.node}:{API_SERVER_PORT}",
        authority=control_plane.authority(layout).certificate,
        identity=identity,
        context=layout.context,
    )


def kubeconfig(*, server: str, authority: Path, identity: Identity, context: str) -> dict[str, Any]:
    """Return a kubeconfig with one context, whose certificates are embedded."""
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [
            {"name": context, "cluster": {"server": server, "certificate-authority-data": _embedded(authority)}}
        ],
        "users": [
            {
                "name": context,
                "user": {
                    "client-certificate-data": _embedded(identity.certificate),
                    "client-key-data": _embedded(identity.key),
                },
            }
        ],
        "contexts": [{"name": context, "context": {"cluster": context, "user": context}}],
        "current-context": context,
    }


def write(file: Path, content: dict[str, Any]) -> None:
    """Write a kubeconfig that only its owner can read; leaves an equal one untouched."""
    text = yaml.safe_dump(content, sort_keys=False)
    if not file.exists() or file.read_text(encoding="utf-8") != text:
        write_atomically(file, text)


def _embedded(file: Path) -> str:
    return base64.b64encode(file.read_bytes()).decode()
