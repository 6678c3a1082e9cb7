"""Batch normalisation over the samples of all replicas."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm  # pyright: ignore[reportPrivateUsage]

if TYPE_CHECKING:
    from torch import Tensor


class _SumOverRanks(torch.autograd.Function):
    """The sum of a tensor over all ranks: each rank's part has an influence on the losses of all."""

    @staticmethod
    def forward(_context: object, own: Tensor) -> Tensor:  # pyright: ignore[reportIncompatibleMethodOverride]
        return _summed(own)

    @staticmethod
    def backward(_context: object, *gradients: Tensor) -> Tensor:  # pyright: ignore[reportIncompatibleMethodOverride]
        return _summed(gradients[0])


def _summed(own: Tensor) -> Tensor:
    total = own.clone(memory_format=torch.contiguous_format)
    dist.all_reduce(total)
    return total


class _OnCpu(_BatchNorm):
    """A CPU version of `torch.nn.SyncBatchNorm`, for which torch 2.15 has no kernels for CPUs.

    All ranks have equally many samples.
    """

    def _check_input_dim(self, input: Tensor) -> None:  # noqa: A002  the name that torch gives it
        """Take any number of dimensions."""

    def forward(self, input: Tensor) -> Tensor:  # noqa: A002
        """Return normalised features [N, C, ...]; collective in training."""
        if not self.training:
            return super().forward(input)
        ranks, values = dist.get_world_size(), input.float()
        others, channels = [0, *range(2, input.ndim)], [1, -1] + [1] * (input.ndim - 2)

        def over_ranks(own: Tensor) -> Tensor:
            return cast("Tensor", _SumOverRanks.apply(own.mean(others))) / ranks  # pyright: ignore[reportUnknownMemberType]

        mean = over_ranks(values)
        centred = values - mean.view(channels)
        variance = over_ranks(centred.square())
        self._track(mean.detach(), variance.detach(), ranks * input.numel() // input.shape[1])
        normal = centred * (variance + self.eps).rsqrt().view(channels)
        if self.affine:
            normal = normal * self.weight.view(channels) + self.bias.view(channels)
        return normal.to(input.dtype)

    def _track(self, mean: Tensor, variance: Tensor, count: int) -> None:
        """Move the running statistics, that of the variance towards the unbiased one of `count` values."""
        if self.running_mean is None or self.running_var is None or self.num_batches_tracked is None:
            return
        self.num_batches_tracked.add_(1)
        weight = 1 / self.num_batches_tracked.item() if self.momentum is None else self.momentum
        with torch.no_grad():
            self.running_mean.lerp_(mean, weight)
            self.running_var.lerp_(variance * (count / (count - 1)), weight)


def synchronise(model: nn.Module, device: torch.device) -> nn.Module:
    """Return a model whose batch normalisations take their statistics from all ranks, with the parameters it had."""
    if device.type != "cpu":
        return cast("nn.Module", nn.SyncBatchNorm.convert_sync_batchnorm(model))  # pyright: ignore[reportUnknownMemberType]
    for module in model.modules():
        if isinstance(module, _BatchNorm):
            module.__class__ = _OnCpu
    return model
