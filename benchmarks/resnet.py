"""ResNet-18, which no installed package has.

He et al., "Deep Residual Learning for Image Recognition", 2015, table 1.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from torch import nn

if TYPE_CHECKING:
    from torch import Tensor

_CLASSES = 10


class _Block(nn.Module):
    """Two convolutions and the shortcut around them."""

    def __init__(self, channels_in: int, channels_out: int, stride: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(channels_in, channels_out, 3, stride, padding=1, bias=False),
            nn.BatchNorm2d(channels_out),
            nn.ReLU(),
            nn.Conv2d(channels_out, channels_out, 3, padding=1, bias=False),
            nn.BatchNorm2d(channels_out),
        )
        self.shortcut: nn.Module = nn.Identity()
        if stride != 1 or channels_in != channels_out:
            projection = nn.Conv2d(channels_in, channels_out, 1, stride, bias=False)
            self.shortcut = nn.Sequential(projection, nn.BatchNorm2d(channels_out))
        self.activation = nn.ReLU()

    def forward(self, images: Tensor) -> Tensor:
        return self.activation(self.body(images) + self.shortcut(images))


def resnet18() -> nn.Module:
    """Return the network: images float32 [N, 3, H, W] to logits [N, 10]; 11.2 million parameters."""
    stem = (nn.Conv2d(3, 64, 7, 2, padding=3, bias=False), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(3, 2, padding=1))
    channels = (64, 64, 128, 256, 512)
    stages = [
        block
        for number, (channels_in, channels_out) in enumerate(pairwise(channels))
        for block in (
            _Block(channels_in, channels_out, stride=1 if number == 0 else 2),
            _Block(channels_out, channels_out, stride=1),
        )
    ]
    return nn.Sequential(*stem, *stages, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, _CLASSES))
