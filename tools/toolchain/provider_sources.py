"""Completes the sources of Pulumi's Kubernetes provider with files from verified modules."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING

from tools.toolchain.catalogue import PROVIDER_MODULE, SDK_MODULE, TOOLS

if TYPE_CHECKING:
    from pathlib import Path

    from tools.toolchain.go_command import Go

_PROVIDER = "pulumi-resource-kubernetes"
_SDK_PARTS = ("go/kubernetes/customPulumiTypes.go", "go/kubernetes/utilities", "go/kubernetes/helm/v4")
"""Parts of the SDK that the provider uses, in addition to the package that is ours."""


def complete_provider_sources(go: Go, sources: Path) -> None:
    """Write what is missing in `sources`, a copy of the platform graph's folder, to compile the provider.

    Raises:
        ToolchainError: a module is not available or differs from go.sum.
    """
    _write_embedded_files(go, sources)
    _copy_sdk_parts(go, sources)


def _write_embedded_files(go: Go, sources: Path) -> None:
    """Write the two files that the provider's main embeds, as its upstream's `generate.go` does.

    Upstream keeps them out of its repository, hence out of its module, too.
    """
    upstream = go.module_folder(sources, PROVIDER_MODULE) / "cmd" / _PROVIDER
    for name, extra in (("schema.json", {"version": str(TOOLS[_PROVIDER].version)}), ("terraform-mapping.json", {})):
        content = {**json.loads((upstream / name).read_text(encoding="utf-8")), **extra}
        (sources / _PROVIDER / name).write_text(json.dumps(content, separators=(",", ":")), encoding="utf-8")


def _copy_sdk_parts(go: Go, sources: Path) -> None:
    sdk = sources / "kubernetes-sdk"
    upstream = go.module_folder(sdk / "upstream", SDK_MODULE)
    for part in _SDK_PARTS:
        target = sdk / part
        target.parent.mkdir(parents=True, exist_ok=True)
        if (upstream / part).is_dir():
            shutil.copytree(upstream / part, target, copy_function=shutil.copyfile)
        else:
            shutil.copyfile(upstream / part, target)
