"""The claims of the workloads' namespace, and the volumes behind them, as a component."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pulumi

from infra.create_only import CreateOnly, guard
from infra.manifests import resource
from infra.storage import DATA_CLAIM, OUTPUT_CLAIM, VolumeRequest, claim_manifest

if TYPE_CHECKING:
    from collections.abc import Sequence

    from infra.settings.storage import StorageSettings
    from infra.storage import Backing


@dataclass(frozen=True, kw_only=True)
class SharedStorageArgs:
    """Arguments of SharedStorage."""

    namespace: str
    settings: StorageSettings
    backing: Backing
    """Backing of the files: see `choose_backing`."""
    protected: bool = False
    """Whether the claims and their volumes refuse to be deleted or replaced.

    The files would survive (volumes are retained), but every job would lose them at once.
    """
    depends_on: Sequence[pulumi.Resource] = ()
    """Dependencies of the claims: their namespace. (A component's own option does not reach its children.)"""


FIXED_CLASS = CreateOnly(
    input="storage_class",
    setting="athanor:storage.storage_class",
    limit="a claim cannot change its class: the API server rejects it, and a replaced claim would be an empty volume",
    fix="restore it; for volumes of another class, create a stack with another athanor:namespace and copy the files",
    # Stacks of earlier releases do not record theirs.
    forbids=lambda old, new: old not in {None, new},
)


class SharedStorage(pulumi.ComponentResource):
    """The `data` and `output` claims of the workload namespace."""

    claims: tuple[pulumi.CustomResource, ...]
    """The claims; workloads depend on them."""

    def __init__(self, name: str, args: SharedStorageArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        # A component is registered before its children: the engine asks the guard before any claim is replaced.
        own = pulumi.ResourceOptions(hooks=guard(f"{name}-fixed-class", [FIXED_CLASS]))
        inputs = {"storage_class": args.settings.storage_class or ""}
        super().__init__("athanor:infra:SharedStorage", name, inputs, pulumi.ResourceOptions.merge(opts, own))
        sizes = {DATA_CLAIM: args.settings.data_size_gib, OUTPUT_CLAIM: args.settings.output_size_gib}
        self.claims = tuple(self._claim(claim, size, args) for claim, size in sizes.items())
        self.register_outputs({"data_claim": DATA_CLAIM, "output_claim": OUTPUT_CLAIM})

    def _claim(self, claim: str, size_gib: int, args: SharedStorageArgs) -> pulumi.CustomResource:
        request = VolumeRequest(
            claim=claim,
            volume=f"{args.namespace}-{claim}",
            size_gib=size_gib,
            access_mode=args.settings.access_mode,
        )
        depends_on = list(args.depends_on)
        protect = True if args.protected else None
        volume = args.backing.volume(request)
        if volume is not None:
            opts = pulumi.ResourceOptions(parent=self, protect=protect)
            depends_on.append(resource(f"{claim}-volume", volume, opts))
        source = args.backing.claim_source(request)
        manifest = claim_manifest(claim, args.namespace, size_gib, request.access_mode, source)
        opts = pulumi.ResourceOptions(parent=self, depends_on=depends_on, protect=protect)
        return resource(claim, manifest, opts)
