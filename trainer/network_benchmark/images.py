"""The throughput of a small training step whose gradients cross the network: images per second."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, relu
from torch.nn.parallel import DistributedDataParallel

from trainer.network_benchmark.all_reduce import median_seconds

if TYPE_CHECKING:
    from trainer.pytorch.distributed import Distributed

_CLASSES = 10
_IMAGE = (3, 32, 32)
_WARM_UP_STEPS = 3


class ResidualBlock(nn.Module):
    """Two convolutions with a shortcut.

    Source: He et al., "Deep Residual Learning for Image Recognition", CVPR 2016, figure 2 and section 3.3.
    """

    def __init__(self, channels_in: int, channels_out: int, *, stride: int) -> None:
        super().__init__()
        self.first = _convolution(channels_in, channels_out, kernel_size=3, stride=stride)
        self.second = _convolution(channels_out, channels_out, kernel_size=3, stride=1)
        self.shortcut = _convolution(channels_in, channels_out, kernel_size=1, stride=stride)

    def forward(self, features: Tensor) -> Tensor:
        """Return features of half the height and width for stride 2."""
        return relu(self.second(relu(self.first(features))) + self.shortcut(features))


def build_model(width: int) -> nn.Module:
    """Return a network of three residual blocks for images float32 [N, 3, 32, 32]; logits float32 [N, 10]."""
    return nn.Sequential(
        ResidualBlock(_IMAGE[0], width, stride=1),
        ResidualBlock(width, 2 * width, stride=2),
        ResidualBlock(2 * width, 4 * width, stride=2),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(4 * width, _CLASSES),
    )


def images_per_second(*, steps: int, batch_size: int, width: int, distributed: Distributed) -> float:
    """Train on made-up images and return the images per second of one rank, mean over the ranks."""
    device = distributed.device
    model = DistributedDataParallel(build_model(width).to(device), gradient_as_bucket_view=True)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    images = torch.randn(batch_size, *_IMAGE, device=device)
    labels = torch.randint(_CLASSES, (batch_size,), device=device)

    def step() -> None:
        optimizer.zero_grad()
        cross_entropy(model(images), labels).backward()  # pyright: ignore[reportUnknownMemberType]
        optimizer.step()  # pyright: ignore[reportUnknownMemberType]

    for _ in range(_WARM_UP_STEPS):
        step()
    return batch_size / median_seconds(step, steps, distributed)


def _convolution(channels_in: int, channels_out: int, *, kernel_size: int, stride: int) -> nn.Module:
    convolution = nn.Conv2d(channels_in, channels_out, kernel_size, stride=stride, padding=kernel_size // 2, bias=False)
    return nn.Sequential(convolution, nn.BatchNorm2d(channels_out))
