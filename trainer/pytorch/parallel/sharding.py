"""Shards a model over the ranks, and initialises parameters that were built without memory."""

from __future__ import annotations

import fnmatch
import itertools
import logging
import warnings
import zlib
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import nn
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, distribute_tensor
from torch.distributed.tensor.parallel import parallelize_module

from trainer.common.validation import SettingsError, listed
from trainer.pytorch.parallel.replicated import compute_whole, replicate
from trainer.pytorch.parallel.tied import tied_parameters

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from torch.distributed.device_mesh import DeviceMesh
    from torch.distributed.fsdp import MixedPrecisionPolicy

    from trainer.pytorch.models.model_config import ModelConfig, ShardingPlan

_WRAPPER = "_checkpoint_wrapped_module."
"""Prefix that torch's checkpoint wrapper adds to the names of parameters."""


def silence_torch() -> None:
    """Keep what torch 2.15 says of every run that divides or shards a model out of its log: nobody can act on it."""
    # the logits of divided layers are a view, which the loss reads and does not change
    warnings.filterwarnings("ignore", message="FSDP2-wrapped module .* returned a view tensor")
    # the norm of a gradient is one number, summed over the shards and then over the divided layers
    logging.getLogger("torch.distributed.tensor._redistribute").setLevel(logging.ERROR)


def refuse_misnamed(model: nn.Module, name: str, plan: ShardingPlan) -> None:
    """Refuse a plan with modules that the model does not have: torch would continue without them.

    Args:
        model: The whole model, as it was built.
        name: Of the model.
        plan: Its own.

    Raises:
        SettingsError: naming them.
    """
    modules = list(dict[str, nn.Module](model.named_modules()))  # pyright: ignore[reportUnknownArgumentType]
    planned = dict.fromkeys((*plan.blocks, *plan.tensor, *plan.replicated))
    if unknown := [each for each in planned if not fnmatch.filter(modules, each)]:
        known = listed([each for each in modules if each])
        raise SettingsError(f"model={name}: its plan has {listed(unknown)}, the network has {known}. Fix: those names")


def divide_layers(model: nn.Module, name: str, plan: ShardingPlan, mesh: DeviceMesh) -> None:
    """Divide the layers of a model over a tensor-parallel group, in place; see `compute_whole` for the model itself.

    Args:
        model: The whole model, as it was built.
        name: Of the model.
        plan: Its own.
        mesh: The group.

    Raises:
        SettingsError: naming parameters of which the plan does not say what each rank has.
    """
    parallelize_module(model, mesh, dict(plan.tensor))
    for module in (each for kept in plan.replicated for each in model.get_submodule(kept).modules()):
        replicate(module, mesh)
        compute_whole(module)
    replicate(model, mesh)
    if left := [each for each, parameter in model.named_parameters() if not isinstance(parameter, DTensor)]:
        limit = f"the plan of {name} does not say what each rank has of {listed(left)}"
        fix = "Fix: in the plan, a style in `tensor`, or `replicated` for a module that each rank computes whole"
        raise SettingsError(f"tensor_parallel={mesh.size()}: {limit}. {fix}")


def shard(
    stages: Sequence[nn.Module], plan: ShardingPlan, mesh: DeviceMesh, policy: MixedPrecisionPolicy, *, pipelined: bool
) -> None:
    """Shard the parameters of the stages of this rank over `mesh`, in place: each block on its own, then the rest.

    What is in no block stays gathered after the forward pass, for the backward pass begins with it. In a pipeline all
    parameters do, or each microbatch would gather them twice.
    """
    for stage in stages:
        present: dict[str, nn.Module] = dict(stage.named_modules())  # pyright: ignore[reportUnknownArgumentType]
        for name in plan.blocks:
            if name in present:
                fully_shard(present[name], mesh=mesh, mp_policy=policy, reshard_after_forward=not pipelined)
        fully_shard(stage, mesh=mesh, mp_policy=policy, reshard_after_forward=False)


def refuse_what_meta_loses(model: nn.Module, name: str) -> None:
    """Refuse a model on the device meta that would silently be another one once it has memory.

    Args:
        model: As it was built, before it is divided.
        name: Of the model.

    Raises:
        SettingsError: it has buffers, which would be uninitialised, or one parameter under several names, which would
            become several.
    """
    if tied := tied_parameters(model):
        shared = "; ".join(" and ".join(names) for names in tied)
        limit = f"{shared} share a parameter, which building on meta does not keep"
        raise SettingsError(f"model={name}: {limit}. Fix: built_on_meta = False, or a parameter for each")
    buffers = [each for each, _ in model.named_buffers()]
    if buffers:
        limit = f"{', '.join(buffers)}: buffers have no values after building on meta"
        raise SettingsError(f"model={name}: {limit}. Fix: built_on_meta = False, or compute them in forward")


def draw(model: nn.Module, config: ModelConfig, seed: int, device: torch.device) -> None:
    """Give the parameters of a model that was built on the device meta their first values, once it has memory.

    The value of a parameter depends on the seed and its name alone, so every layout begins with the same model. Only
    one whole parameter is in memory at a time. GPUs draw by themselves, other numbers than a CPU: of a model with 7
    billion parameters each rank's CPU would draw for minutes.
    """
    with torch.no_grad(), torch.device(device):
        for name, parameter in model.named_parameters():
            clean = name.replace(_WRAPPER, "")
            mixed = int(np.random.SeedSequence((seed, zlib.crc32(clean.encode()))).generate_state(1, np.uint64)[0])
            value = config.initial_value(clean, parameter.shape, torch.Generator(device).manual_seed(mixed >> 1))
            parameter.copy_(_like(value.to(device), parameter))


def assign(module: nn.Module, weights: Mapping[str, torch.Tensor]) -> None:
    """Copy whole weights into what a rank has of a model, by the names that they have in the whole model."""
    with torch.no_grad():
        for name, own in itertools.chain(module.named_parameters(), module.named_buffers()):
            value = weights.get(name.replace(_WRAPPER, ""))
            if value is not None:
                own.copy_(_like(value.to(own.device, own.dtype), own))


def _like(value: torch.Tensor, parameter: torch.Tensor) -> torch.Tensor:
    if not isinstance(parameter, DTensor):
        return value
    # every rank has the whole value: nothing to send
    return distribute_tensor(value, parameter.device_mesh, parameter.placements, src_data_rank=None)
