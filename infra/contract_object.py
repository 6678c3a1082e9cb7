"""The contract between stacks as an object of the cluster, for users with a kubeconfig but without Pulumi state."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from infra.errors import RefusalError

if TYPE_CHECKING:
    import pulumi

    from infra.manifests import Manifest
    from infra.outputs import PlatformOutputs

CONTRACT_OBJECT = "athanor-platform"
"""Name of the ConfigMap in the workloads' namespace."""
_ANNOTATION = "athanor.dev/outputs"
"""Not data: the Kubernetes provider replaces a ConfigMap whose data changes, so every edited pool would show one."""


def contract_manifest(namespace: pulumi.Input[str], outputs: pulumi.Input[str]) -> Manifest:
    """Return the ConfigMap with the outputs of the stack that owns the platform; none of them is secret.

    Args:
        namespace: The workloads' namespace.
        outputs: The outputs by their names, as JSON.
    """
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": CONTRACT_OBJECT,
            "namespace": namespace,
            "annotations": {_ANNOTATION: outputs},
        },
    }


def read_contract(config_map: dict[str, Any], namespace: str) -> PlatformOutputs:
    """Return the outputs that a ConfigMap of the cluster holds.

    Args:
        config_map: The object.
        namespace: Where it was read. Anyone who may write there could send others' jobs to another namespace by it.

    Raises:
        RefusalError: it holds none, those of a newer contract, or those of a platform in another namespace.
    """
    # With pydantic a tenth of a second, which every command would spend that only needs the name above.
    from infra.outputs import PlatformOutputs  # noqa: PLC0415

    try:
        outputs = json.loads(config_map["metadata"]["annotations"][_ANNOTATION])
    except (KeyError, TypeError, ValueError, RecursionError):
        limit = "does not hold a platform's outputs"
        fix = "name the platform's stack instead: `athanor run` with --platform, in a program with Platform.from_stack"
        raise RefusalError(f"ConfigMap {CONTRACT_OBJECT}", sorted(config_map), limit, fix) from None
    known = PlatformOutputs.parse(outputs, f"ConfigMap {CONTRACT_OBJECT}")
    if known.namespace != namespace:
        limit = f"says so in the namespace {namespace!r}, and a platform describes itself in its own"
        fix = "update the platform's stack, which writes its own again, and look who else may write ConfigMaps there"
        raise RefusalError(f"ConfigMap {CONTRACT_OBJECT}: namespace", known.namespace, limit, fix)
    return known
