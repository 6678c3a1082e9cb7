"""Memory and traffic of two ranks in a step: `measure_memory.py OUTPUT`."""

from __future__ import annotations

import gc
import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist
from torch.autograd.graph import saved_tensors_hooks
from torch.distributed.tensor import DTensor
from torch.distributed.tensor.debug import CommDebugMode
from torch.utils.checkpoint import _VersionWrapper

from trainer.pytorch.models.gpt import GptConfig
from trainer.pytorch.parallel.blocks import BlocksConfig
from trainer.pytorch.parallel.build import Recipe
from trainer.pytorch.parallel.degrees import ParallelConfig
from trainer.pytorch.parallel.layout import Layout
from trainer.pytorch.precision import PrecisionConfig

if TYPE_CHECKING:
    from torch import Tensor

    from trainer.pytorch.parallel.parallel_model import ParallelModel

# few tokens and wide heads: else what normalisations and attention keep of each token would count
GPT = GptConfig(layers=2, heads=2, width=256, context=16, vocabulary=32)
SAMPLES = 2


def built(model: GptConfig, parallel: ParallelConfig, **recipe: Any) -> ParallelModel:
    layout = Layout(parallel.degrees(2), "cpu")
    return Recipe(model=model, parallel=parallel, **recipe).build(layout, torch.device("cpu"))


def tokens(model: GptConfig) -> Tensor:
    return torch.zeros(SAMPLES, model.shape.context, dtype=torch.int64)


def step(layers: int, mode: str) -> tuple[int, int]:
    """Return the bytes that a rank of a tensor-parallel group keeps after its forward pass, and its messages."""
    gc.collect()
    model = replace(GPT, layers=layers)
    blocks = BlocksConfig(activation_checkpointing=mode)
    trained = built(model, ParallelConfig(tensor_parallel=2), blocks=blocks)
    parameters = {_local(each).untyped_storage().data_ptr() for each in trained.module.parameters()}
    saved: list[Tensor] = []  # alive: what is freed could give its address to another

    def pack(tensor: Tensor) -> Tensor:
        saved.append(tensor)
        return tensor

    with CommDebugMode() as messages:
        with saved_tensors_hooks(pack, lambda tensor: tensor):
            logits = trained.module(tokens(model))
        storages = [_local(each).untyped_storage() for each in saved + cached()]
        kept = {each.data_ptr(): each.nbytes() for each in storages if each.data_ptr() not in parameters}
        logits.float().sum().backward()
    counts = {str(each): number for each, number in messages.get_comm_counts().items()}
    sent = sum(number for name, number in counts.items() if "all_gather" in name or "reduce_scatter" in name)
    return sum(kept.values()), sent


def cached() -> list[Tensor]:
    """Return what selective checkpointing keeps, which is not in autograd's graph."""
    return [each.val for each in gc.get_objects() if isinstance(each, _VersionWrapper)]


def _local(tensor: Tensor) -> Tensor:
    local = tensor.to_local() if isinstance(tensor, DTensor) else tensor
    return local.wait() if hasattr(local, "wait") else local


def whole_gradients(precision: str) -> int:
    """Return the bytes of gradients that FSDP has not scattered when the last of two microbatches begins."""
    parallel = ParallelConfig(data_parallel_shard=2, microbatches=2)
    trained = built(GPT, parallel, precision=PrecisionConfig(precision=precision))
    held: list[int] = []

    def look(*_: object) -> None:
        groups = [group for module in trained.module.modules() for group in _groups(module)]
        gradients = [each._unsharded_param.grad for group in groups for each in group.fsdp_params]
        held.append(sum(each.numel() * each.element_size() for each in gradients if each is not None))

    trained.forward_backward(tokens(GPT), tokens(GPT), look)
    return held[0]


def _groups(module: torch.nn.Module) -> list[Any]:
    state = getattr(module, "_get_fsdp_state", None)
    return list(state()._fsdp_param_groups) if state else []


def main() -> None:
    """Measure everything; rank 0 writes what it saw."""
    output = Path(sys.argv[1])
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    result: dict[str, Any] = {}
    for mode in ("none", "selective", "full"):
        # the difference is two blocks, without embedding and head
        shallow, deep = step(2, mode), step(4, mode)
        result[mode] = [(more - fewer) / 2 for fewer, more in zip(shallow, deep, strict=True)]
    result["gradients"] = {precision: whole_gradients(precision) for precision in ("fp32", "bf16")}
    if dist.get_rank() == 0:
        output.write_text(json.dumps(result))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
