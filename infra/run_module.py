"""The modules that users' programs may import, as a ConfigMap that every job's pods mount."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pulumi

    from infra.manifests import Manifest

RUN_MODULE_OBJECT = "athanor-run"
"""Name of the ConfigMap in the workloads' namespace."""
_FOLDER = Path(__file__).parents[1] / "trainer" / "pod_modules"


def run_module_manifest(namespace: pulumi.Input[str]) -> Manifest:
    """Return the ConfigMap. One for all jobs: in each of their pods, the text would be half of the object."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": RUN_MODULE_OBJECT, "namespace": namespace},
        "data": {file.name: file.read_text(encoding="utf-8") for file in sorted(_FOLDER.glob("athanor_*.py"))},
    }
