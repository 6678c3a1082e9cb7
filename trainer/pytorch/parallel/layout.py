"""The position of this rank among the others: the device mesh of the degrees."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh

if TYPE_CHECKING:
    from torch.distributed.device_mesh import DeviceMesh

    from trainer.pytorch.parallel.degrees import Degrees

_NAMES = _PIPELINE, _REPLICATE, _SHARD, _TENSOR = "pipeline", "replicate", "shard", "tensor"


class Layout:
    """The ranks as a mesh of pipeline x replicate x shard x tensor; ranks that differ in the last are neighbours.

    Ranks that all have the whole model need no mesh and no groups besides the default one.

    Attributes:
        degrees: the sizes of the mesh.
        data_rank: which share of a batch this rank computes.
        loss_ranks: how many ranks know a loss: those of the last stage.
    """

    def __init__(self, degrees: Degrees, device_type: str) -> None:
        """Create the mesh; collective: every rank calls it after joining the default group."""
        self.degrees = degrees
        rank = dist.get_rank()
        self._mesh: DeviceMesh | None = None
        if not degrees.only_replicas:
            sizes = (degrees.pipeline, degrees.replicate, degrees.shard, degrees.tensor)
            self._mesh = init_device_mesh(device_type, sizes, mesh_dim_names=_NAMES)
        self.data_rank = rank // degrees.tensor % degrees.data
        self.tensor_rank = rank % degrees.tensor
        self.pipeline_rank = rank // (degrees.tensor * degrees.data)
        self.loss_ranks = degrees.data * degrees.tensor

    @property
    def is_last_stage(self) -> bool:
        """Whether this rank has the end of the model, so the logits and the loss."""
        return self.pipeline_rank == self.degrees.pipeline - 1

    @property
    def tensor_mesh(self) -> DeviceMesh | None:
        """The ranks that compute each layer with this one; None if there are none."""
        return self._mesh[_TENSOR] if self._mesh is not None and self.degrees.tensor > 1 else None

    @property
    def pipeline_group(self) -> dist.ProcessGroup | None:
        """The ranks that have the other layers; None if there are none."""
        return self._mesh.get_group(_PIPELINE) if self._mesh is not None and self.degrees.pipeline > 1 else None

    def data_mesh(self, device_type: str) -> DeviceMesh:
        """Return the ranks that see other samples: one dimension to shard over, or two to replicate and shard over."""
        if self._mesh is None:
            # copies of the model, each sharded over one rank
            sizes = (1, self.degrees.replicate, 1, 1)
            self._mesh = init_device_mesh(device_type, sizes, mesh_dim_names=_NAMES)
        return self._mesh[_SHARD] if self.degrees.replicate == 1 else self._mesh[_REPLICATE, _SHARD]

    def groups(self) -> list[dist.ProcessGroup]:
        """Return the groups of this rank besides the default one."""
        if self._mesh is None:
            return []
        return [self._mesh.get_group(name) for name in _NAMES]
