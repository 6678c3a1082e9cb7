"""The module athanor_run as an object of the cluster, which every job's pods mount."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pulumi

    from infra.manifests import Manifest

RUN_MODULE_OBJECT = "athanor-run"
"""Name of the ConfigMap in the workloads' namespace."""
RUN_MODULE_FILE = "athanor_run.py"


def run_module_manifest(namespace: pulumi.Input[str]) -> Manifest:
    """Return the ConfigMap. One for all jobs: in each of their pods, the text would be half of the object."""
    text = (Path(__file__).parent / RUN_MODULE_FILE).read_text(encoding="utf-8")
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": RUN_MODULE_OBJECT, "namespace": namespace},
        "data": {RUN_MODULE_FILE: text},
    }
