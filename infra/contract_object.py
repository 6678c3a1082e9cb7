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


def read_contract(config_map: dict[str, Any]) -> PlatformOutputs:
    """Return the outputs that a ConfigMap of the cluster holds.

    Raises:
        RefusalError: it holds none, or those of a newer contract.
    """
    # With pydantic a tenth of a second, which every command would spend that only needs the name above.
    from infra.outputs import PlatformOutputs  # noqa: PLC0415

    try:
        outputs = json.loads(config_map["metadata"]["annotations"][_ANNOTATION])
    except (KeyError, TypeError, ValueError):
        limit = "does not hold a platform's outputs"
        fix = "name the platform's stack instead: `athanor run` with --platform, in a program with Platform.from_stack"
        raise RefusalError(f"ConfigMap {CONTRACT_OBJECT}", sorted(config_map), limit, fix) from None
    return PlatformOutputs.parse(outputs, f"ConfigMap {CONTRACT_OBJECT}")
