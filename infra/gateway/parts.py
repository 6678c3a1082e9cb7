"""What the parts of the gateway share: labels and who may reach whom."""

from __future__ import annotations

from typing import TYPE_CHECKING

from infra.gateway import NAMESPACE, PART_OF
from infra.kubernetes.access import role_manifests

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from infra.manifests import Manifest


def labels(name: str) -> dict[str, str]:
    """Return the labels of a part."""
    return {"app.kubernetes.io/name": name, **PART_OF}


def metadata(name: str, namespace: str | None = NAMESPACE, *, part: str | None = None) -> Manifest:
    """Return an object's metadata. `namespace` None: the whole cluster's; `part`: whose it is, if not of `name`."""
    return {"name": name, **({"namespace": namespace} if namespace else {}), "labels": labels(part or name)}


def grant(name: str, rules: Sequence[Manifest], namespace: str | None) -> dict[str, Manifest]:
    """Return a role and its binding to the account `name`, by kind. `namespace`: where it holds; None: everywhere."""
    return role_manifests(metadata(f"athanor-{name}", namespace, part=name), rules, (name, NAMESPACE))


def peer(selector: Mapping[str, str], namespace: str = NAMESPACE) -> Manifest:
    """Return the peer of a network policy that is the pods with these labels."""
    return {
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
        "podSelector": {"matchLabels": dict(selector)},
    }


def network_policy(
    name: str, selector: Mapping[str, str], ingress: Mapping[int, Sequence[Manifest]], egress: Sequence[Manifest]
) -> Manifest:
    """Return the policy of a part's pods.

    Args:
        name: The part.
        selector: Labels of its pods.
        ingress: Who may come in, by port; `{}` is anybody.
        egress: Where it may connect to in addition to DNS; `{}` is anywhere.
    """
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": metadata(name),
        "spec": {
            "podSelector": {"matchLabels": dict(selector)},
            "policyTypes": ["Ingress", "Egress"],
            "ingress": [
                {"ports": [{"protocol": "TCP", "port": port}], **({"from": list(peers)} if {} not in peers else {})}
                for port, peers in ingress.items()
            ],
            "egress": list(egress),
        },
    }
