"""The common part of the gateway's components: labels and network policies."""

from __future__ import annotations

from typing import TYPE_CHECKING

from infra.gateway import NAMESPACE
from infra.kubernetes import parts
from infra.kubernetes.access import role_manifests
from infra.kubernetes.parts import part_metadata

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from infra.manifests import Manifest


def metadata(name: str, namespace: str | None = NAMESPACE, *, part: str | None = None) -> Manifest:
    """Return an object's metadata. `namespace` None: the whole cluster's; `part`: whose it is, if not of `name`."""
    return part_metadata(name, namespace, part)


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
    """Return the policy of the pods with these labels; see `infra.kubernetes.parts.network_policy`."""
    return parts.network_policy(metadata(name), selector, ingress, egress)
