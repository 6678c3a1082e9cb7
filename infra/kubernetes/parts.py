"""The common part of the objects of a component: labels, metadata and network policies."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from infra.manifests import Manifest

PART_OF = {"app.kubernetes.io/part-of": "athanor"}
"""Label of every object of ours."""


def labels(name: str) -> dict[str, str]:
    """Return the labels of a part."""
    return {"app.kubernetes.io/name": name, **PART_OF}


def part_metadata(name: str, namespace: str | None, part: str | None = None) -> Manifest:
    """Return an object's metadata. `namespace` None: the whole cluster's; `part`: whose it is, if not of `name`."""
    return {"name": name, **({"namespace": namespace} if namespace else {}), "labels": labels(part or name)}


def network_policy(
    metadata: Manifest,
    selector: Mapping[str, str],
    ingress: Mapping[int, Sequence[Manifest]],
    egress: Sequence[Manifest],
) -> Manifest:
    """Return the policy of a part's pods.

    People come in by `kubectl port-forward`, through the kubelet of the pod's node, which no policy keeps out.

    Args:
        metadata: Of the policy.
        selector: Labels of the pods.
        ingress: Who may come in, by port; nobody listed is everybody.
        egress: Where it may connect to in addition to DNS; `{}` is anywhere, for what reads targets or the API server,
            which may be nodes, whose addresses no policy can name. For all else: `infra.closed_addresses.ANYWHERE`.
    """
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": metadata,
        "spec": {
            "podSelector": {"matchLabels": dict(selector)},
            "policyTypes": ["Ingress", "Egress"],
            "ingress": [
                {"from": list(peers), "ports": [{"protocol": "TCP", "port": port}]} for port, peers in ingress.items()
            ],
            "egress": list(egress),
        },
    }
