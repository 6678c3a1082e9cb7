"""The state of a model and its optimizer, equal in form for every layout, so that another layout can load it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import torch
import torch.distributed as dist
from torch.distributed.checkpoint.state_dict import (
    get_model_state_dict,
    get_state_dict,
    set_state_dict,
)
from torch.distributed.tensor import DTensor

from trainer.pytorch.parallel import buffers

if TYPE_CHECKING:
    from torch import Tensor, nn

    from trainer.pytorch.models.model_config import ModelConfig
    from trainer.pytorch.parallel.layout import Layout
    from trainer.pytorch.parallel.parallel_model import ParallelModel


def state_dict(model: ParallelModel, optimizer: torch.optim.Optimizer) -> dict[str, Any]:
    """Return "model" and "optimizer", tensors by the names of the whole model's parameters; collective.

    Parameters and the optimizer's tensors are those in use; buffers, which a forward pass may change, are copies of
    rank 0's.

    Shards are DTensors. A stage of a pipeline has its own tensors alone, but the optimizer's list of parameters is that
    of the whole model on every rank: equal values are stored once.
    """
    buffers.take_from_main(model)
    own, optimizer_state = cast("tuple[dict[str, Any], dict[str, Any]]", get_state_dict(model.module, optimizer))
    for group in optimizer_state["param_groups"]:
        group["params"] = _of_all_stages(group["params"], model.layout)
    return {"model": _with_copies_of_buffers(own, model.module), "optimizer": optimizer_state}


def load_state_dict(model: ParallelModel, optimizer: torch.optim.Optimizer, state: dict[str, Any]) -> None:
    """Continue from what `state_dict` returned, in any layout."""
    own = set(get_model_state_dict(model.module))
    optimizer_state = dict(state["optimizer"])
    optimizer_state["param_groups"] = [
        {**group, "params": [name for name in group["params"] if name in own]}
        for group in optimizer_state["param_groups"]
    ]
    set_state_dict(model.module, optimizer, model_state_dict=state["model"], optim_state_dict=optimizer_state)


def whole_model(model: ParallelModel) -> dict[str, Tensor] | None:
    """Return the whole model's state on the CPU of rank 0, None on the other ranks; collective."""
    whole: dict[str, Tensor] = {}
    keeps = model.layout.data_rank == 0 and model.layout.tensor_rank == 0
    for name, tensor in cast("dict[str, Tensor]", get_model_state_dict(model.module)).items():
        full = tensor.full_tensor() if isinstance(tensor, DTensor) else tensor
        if keeps:
            whole[name] = full.detach().cpu()
    group = model.layout.pipeline_group
    if group is not None and keeps:
        parts: list[dict[str, Tensor] | None] = [None] * model.layout.degrees.pipeline
        dist.gather_object(whole, parts if model.layout.pipeline_rank == 0 else None, group_dst=0, group=group)
        whole = {name: tensor for part in parts if part for name, tensor in part.items()}
    return whole if keeps and model.layout.pipeline_rank == 0 else None


def module_with(config: ModelConfig, whole: dict[str, Tensor]) -> nn.Module:
    """Return a module of the whole model that has these parameters and buffers, on the CPU.

    Built on meta only if it is in training, too: else buffers that are not part of the state, such as constants, would
    have no values. One that is has none, and a rank may not have the memory for it twice.
    """
    module = config.outline()
    module.load_state_dict(whole, assign=True)
    return module


def _with_copies_of_buffers(own: dict[str, Any], module: nn.Module) -> dict[str, Any]:
    """Return a state whose tensors are copies unless they are a parameter's."""
    # not by name: what wraps the module changes names
    parameters = {_address(parameter) for parameter in module.parameters()}
    return {
        name: value.clone() if isinstance(value, torch.Tensor) and _address(value) not in parameters else value
        for name, value in own.items()
    }


def _address(tensor: Tensor) -> int:
    local = tensor.to_local() if isinstance(tensor, DTensor) else tensor
    return local.untyped_storage().data_ptr()


def _of_all_stages(names: list[str], layout: Layout) -> list[str]:
    if layout.pipeline_group is None:
        return names
    parts: list[list[str]] = [[] for _ in range(layout.degrees.pipeline)]
    dist.all_gather_object(parts, names, group=layout.pipeline_group)
    return sorted(name for part in parts for name in part)
