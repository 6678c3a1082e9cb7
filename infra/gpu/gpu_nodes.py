"""The component with everything that the platform itself runs on GPU nodes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pulumi

from infra.gpu.dcgm_exporter import dcgm_exporter_manifests
from infra.gpu.device_plugin import device_plugin_manifests
from infra.gpu.nodes import NAMESPACE
from infra.images import DCGM_EXPORTER_IMAGE, DEVICE_PLUGIN_IMAGE
from infra.manifests import Manifest, resource
from infra.namespaces import namespace_manifest

if TYPE_CHECKING:
    from infra.settings.gpu import ClusterGpuSettings


@dataclass(frozen=True, kw_only=True)
class GpuNodesArgs:
    """Arguments of GpuNodes."""

    settings: ClusterGpuSettings


class GpuNodes(pulumi.ComponentResource):
    """NVIDIA's device plugin and metrics exporter, as far as the settings ask for them."""

    parts: tuple[pulumi.CustomResource, ...]
    """All objects; workloads that need GPUs depend on them."""

    def __init__(self, name: str, args: GpuNodesArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("athanor:infra:GpuNodes", name, None, opts)
        manifests: dict[str, Manifest] = {}
        if args.settings.device_plugin:
            manifests |= device_plugin_manifests(DEVICE_PLUGIN_IMAGE, args.settings)
        if args.settings.dcgm_exporter:
            manifests |= dcgm_exporter_manifests(DCGM_EXPORTER_IMAGE, args.settings)
        self.parts = self._declare(manifests) if manifests else ()
        self.register_outputs({"parts": sorted(manifests)})

    def _declare(self, manifests: dict[str, Manifest]) -> tuple[pulumi.CustomResource, ...]:
        namespace = resource(
            "gpu-namespace", namespace_manifest(NAMESPACE, "privileged"), pulumi.ResourceOptions(parent=self)
        )
        declared = [namespace]
        for logical_name, manifest in manifests.items():
            # In order: a part's pods mount its configuration.
            opts = pulumi.ResourceOptions(parent=self, depends_on=list(declared))
            declared.append(resource(logical_name, manifest, opts))
        return tuple(declared)
