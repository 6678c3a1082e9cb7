"""Builds the variants of a trained model.

torch.ao is deprecated in favour of torchao, whose quantised models are torch.export programs that need a compiler where
they are served; those of torch.ao are TorchScript with quantised kernels (docs/decisions/0020). The pinned torch has
it, and its warnings end here.
"""

from __future__ import annotations

import copy
import warnings
from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING, Any, cast

import torch
import torch_pruning
from torch import nn
from torch.ao import quantization
from torch.ao.quantization import quantize_fx
from torch.nn.functional import cross_entropy
from torch.nn.utils import prune

from trainer.pytorch.deterministic import any_kernel

if TYPE_CHECKING:
    from collections.abc import Generator

    from torch import Tensor

    from trainer.pytorch.compression.config import CompressionConfig, Variant
    from trainer.pytorch.compression.samples import Samples

_BATCH_SIZE = 64


def without_channels(model: nn.Module, example: Tensor, sparsity: float) -> nn.Module:
    """Return a copy without the channels of smallest norm, in each layer the same share of them.

    The layer that computes the model's output keeps its size. Which channels must go together is found by
    torch-pruning (Fang et al., "DepGraph: Towards Any Structural Pruning", CVPR 2023).

    Args:
        model: On the CPU.
        example: An input of one sample or more.
        sparsity: Share of the channels to remove, rounded where layers are normalised in groups.

    Raises:
        ValueError: no channel could be removed.
    """
    smaller = copy.deepcopy(model).eval().requires_grad_(requires_grad=True)
    pruner: Any = cast("Any", torch_pruning).pruner.MagnitudePruner(
        smaller,
        example,
        importance=cast("Any", torch_pruning).importance.GroupMagnitudeImportance(p=2),
        pruning_ratio=sparsity,
        ignored_layers=[_last_layer(smaller, example)],
    )
    pruner.step()
    before, after = (sum(parameter.numel() for parameter in each.parameters()) for each in (model, smaller))
    if after == before:
        raise ValueError(f"sparsity={sparsity}: removes no channel of any layer. Fix: a higher sparsity")
    return smaller


def with_masks(model: nn.Module, sparsity: float) -> nn.Module:
    """Return a copy that computes with the smallest weights as zeros, over all layers together; see `without_masks`."""
    sparse = copy.deepcopy(model).requires_grad_(requires_grad=True)
    weights = [(layer, "weight") for layer in sparse.modules() if isinstance(layer, (nn.Conv2d, nn.Linear))]
    prune.global_unstructured(weights, prune.L1Unstructured, amount=sparsity)  # pyright: ignore[reportUnknownMemberType]
    return sparse


def without_masks(sparse: nn.Module) -> nn.Module:
    """Make the zeros of `with_masks` weights like others, in place."""
    for layer in sparse.modules():
        if isinstance(layer, (nn.Conv2d, nn.Linear)):
            prune.remove(layer, "weight")  # pyright: ignore[reportUnknownMemberType]
    return sparse


def fine_tune(model: nn.Module, training: Samples, config: CompressionConfig) -> nn.Module:
    """Train a pruned model for some epochs, in place; the same on every run. Return it in evaluation mode."""
    generator = torch.Generator().manual_seed(0)
    optimizer = torch.optim.AdamW(model.parameters(), lr=config.fine_tune_learning_rate)
    model.train()
    with torch.random.fork_rng(devices=[]):  # pyright: ignore[reportUnknownMemberType]
        torch.manual_seed(0)  # pyright: ignore[reportUnknownMemberType]  dropout
        for _ in range(config.fine_tune_epochs):
            for batch in training.shuffled(generator).batches(_BATCH_SIZE):
                optimizer.zero_grad()
                cross_entropy(model(batch.inputs), batch.labels).backward()  # pyright: ignore[reportUnknownMemberType]
                optimizer.step()  # pyright: ignore[reportUnknownMemberType]
    return model.eval()


def _last_layer(model: nn.Module, example: Tensor) -> nn.Module:
    """Return the layer with weights that runs last."""
    run: list[nn.Module] = []
    layers = [layer for layer in model.modules() if isinstance(layer, (nn.Conv2d, nn.Linear))]
    hooks = [layer.register_forward_hook(lambda layer, _inputs, _output: run.append(layer)) for layer in layers]
    with torch.inference_mode():
        model(example)
    for hook in hooks:
        hook.remove()
    if not run:
        raise ValueError("the model has no convolution and no linear layer: nothing can be pruned")
    return run[-1]


_X86 = "x86"
_CALIBRATION_BATCH = 64


def quantize_static(model: nn.Module, calibration: Tensor) -> nn.Module:
    """Return a copy whose weights and activations are int8; what has no such kernel stays float32.

    Args:
        model: In evaluation mode, on the CPU; its forward must not branch on values (torch.fx).
        calibration: Real inputs, float32 [N, …], which decide the range of each activation.
    """
    with _quantized_kernels() as engine:
        mapping = quantization.get_default_qconfig_mapping(engine)
        prepared = cast("Any", quantize_fx).prepare_fx(copy.deepcopy(model).eval(), mapping, (calibration[:2],))
        with torch.inference_mode():
            for begin in range(0, len(calibration), _CALIBRATION_BATCH):
                prepared(calibration[begin : begin + _CALIBRATION_BATCH])
        return cast("nn.Module", cast("Any", quantize_fx).convert_fx(prepared)).eval()


def quantize_dynamic(model: nn.Module) -> nn.Module:
    """Return a copy whose linear layers have int8 weights and find the range of their input in each call.

    Raises:
        ValueError: the model has no linear layer.
    """
    if not any(isinstance(layer, nn.Linear) for layer in model.modules()):
        raise ValueError("the model has no linear layer, and dynamic quantisation changes no other. Fix: use int8")
    with _quantized_kernels():
        quantized = cast("Any", quantization).quantize_dynamic(copy.deepcopy(model), {nn.Linear}, dtype=torch.qint8)
        return cast("nn.Module", quantized).eval()


@contextmanager
def _quantized_kernels() -> Generator[str]:
    """Choose the kernels for this machine's CPU, and yield their name."""
    backend = cast("Any", torch.backends.quantized)
    before = backend.engine
    backend.engine = _X86 if _X86 in backend.supported_engines else "qnnpack"
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=r"torch\.ao\.quantization is deprecated")
            warnings.filterwarnings("ignore", message=r"Please use quant_min and quant_max")
            warnings.filterwarnings("ignore", message=r"torch\.quantize_per_tensor")
            yield backend.engine
    finally:
        backend.engine = before


class VariantBuilder:
    """Builds the variants of one model; what two of them share is done once."""

    def __init__(self, model: nn.Module, training: Samples, config: CompressionConfig) -> None:
        """Keep what the variants are built from.

        Args:
            model: On the CPU, in evaluation mode; left as it is.
            training: What calibrates and fine-tunes.
            config: How much.
        """
        self._model = model
        self._training = training
        self._config = config

    def build(self, variant: Variant) -> nn.Module:
        """Return the model of a variant, in evaluation mode.

        Raises:
            Exception: whatever torch raises for an architecture that it cannot compress; ValueError with a fix where
                the reason is known.
        """
        with any_kernel():
            match variant:
                case "int8":
                    return quantize_static(self._model, self._calibration)
                case "int8-dynamic":
                    return quantize_dynamic(self._model)
                case "pruned":
                    return self._pruned
                case "pruned-int8":
                    return quantize_static(self._pruned, self._calibration)
                case "sparse":
                    sparse = with_masks(self._model, self._config.sparsity)
                    return without_masks(fine_tune(sparse, self._training, self._config))
                case "pt2" | "compiled":
                    return self._model

    @cached_property
    def _calibration(self) -> Tensor:
        """Samples of all classes, whatever the order of the data."""
        samples = self._training.shuffled(torch.Generator().manual_seed(0))
        return samples.inputs[: self._config.calibration_samples]

    @cached_property
    def _pruned(self) -> nn.Module:
        smaller = without_channels(self._model, self._training.inputs[:2], self._config.sparsity)
        return fine_tune(smaller, self._training, self._config)
