"""Residual networks for images: ResNet-18 and ResNet-50.

Source: He et al., "Deep Residual Learning for Image Recognition", CVPR 2016, table 1 and figure 5; the stride of a
bottleneck is in its 3x3 convolution (v1.5), as in torchvision, whose names of modules are used as well.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

from torch import nn

from trainer.common.validation import at_least
from trainer.pytorch.models.model_config import ModelConfig, ShardingPlan

if TYPE_CHECKING:
    from torch import Tensor

_BLOCKS = {18: (2, 2, 2, 2), 50: (3, 4, 6, 3)}
_EXPANSION = {18: 1, 50: 4}
_GROUPS = 32
_WIDEST_SMALL_IMAGE = 64

Norm = Callable[[int], nn.Module]


@dataclass(frozen=True, kw_only=True)
class ResNetConfig(ModelConfig):
    """Which residual network, and for which images."""

    model: Literal["resnet"] = "resnet"
    """Name of the model; `--model NAME --help` explains the arguments of another."""
    depth: Literal[18, 50] = 18
    """Layers with weights."""
    channels: int = 3
    """Channels of an image."""
    image_size: int = 32
    """Height and width of an image; up to 64 the network begins with a 3x3 convolution and without pooling, as usual
    for CIFAR-10, else with those of ImageNet."""
    classes: int = 10
    """Values of a label."""
    norm: Literal["batch", "group"] = "batch"
    """`batch` normalises over the samples of a rank, so results depend on the number of ranks; `group` over groups of
    32 channels of one sample."""

    reads_images: ClassVar[bool] = True

    def __post_init__(self) -> None:
        at_least("channels", self.channels, 1)
        at_least("image_size", self.image_size, 8)
        at_least("classes", self.classes, 2)

    @property
    def input_shape(self) -> tuple[int, ...]:
        """See `ModelConfig.input_shape`."""
        return self.channels, self.image_size, self.image_size

    def build(self) -> ResNet:
        """Build the network with weights from torch's current random state."""
        return ResNet(self)

    def plan(self) -> ShardingPlan:
        """Return the plan: each residual block on its own."""
        blocks = [f"layer{stage + 1}.{index}" for stage, n in enumerate(_BLOCKS[self.depth]) for index in range(n)]
        return ShardingPlan(blocks=blocks, averages_over_batch=self.norm == "batch")

    def check_data(self, sample_shape: Sequence[int], classes: int) -> None:
        """Refuse other images than the configured ones; see `ModelConfig.check_data`."""
        if (tuple(sample_shape), classes) == (self.input_shape, self.classes):
            return
        own = f"is set up for images {self.input_shape} of {self.classes} classes"
        limit = f"{own}, the data has {tuple(sample_shape)}, {classes}"
        if len(sample_shape) != 3:
            raise ValueError(f"model=resnet: {limit}. Fix: --model gpt for tokens")
        fix = f"--channels {sample_shape[0]} --image_size {sample_shape[1]} --classes {classes}"
        raise ValueError(f"model=resnet: {limit}. Fix: {fix}")


class ResNet(nn.Module):
    """Input: images float32 [N, channels, H, W]. Output: logits float32 [N, classes]."""

    def __init__(self, config: ResNetConfig) -> None:
        super().__init__()
        norm = nn.BatchNorm2d if config.norm == "batch" else _group_norm
        small = config.image_size <= _WIDEST_SMALL_IMAGE
        kernel, stride = (3, 1) if small else (7, 2)
        self.conv1 = nn.Conv2d(config.channels, 64, kernel, stride, padding=kernel // 2, bias=False)
        self.bn1 = norm(64)
        self.relu = nn.ReLU(inplace=True)
        self.maxpool = nn.Identity() if small else nn.MaxPool2d(3, stride=2, padding=1)
        expansion = _EXPANSION[config.depth]
        block = BasicBlock if expansion == 1 else Bottleneck
        channels = 64
        stages: list[nn.Module] = []
        for stage, count in enumerate(_BLOCKS[config.depth]):
            width = 64 * 2**stage
            blocks: list[nn.Module] = []
            for index in range(count):
                blocks.append(block(channels, width, stride=2 if stage and not index else 1, norm=norm))
                channels = width * expansion
            stages.append(nn.Sequential(*blocks))
        self.layer1, self.layer2, self.layer3, self.layer4 = stages
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.fc = nn.Linear(channels, config.classes)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")

    def forward(self, image: Tensor) -> Tensor:
        """Return the logits of a batch."""
        x = self.maxpool(self.relu(self.bn1(self.conv1(image))))
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return self.fc(self.avgpool(x).flatten(1))


class BasicBlock(nn.Module):
    """Two 3x3 convolutions and the shortcut around them."""

    def __init__(self, channels: int, width: int, *, stride: int, norm: Norm) -> None:
        super().__init__()
        self.conv1, self.bn1 = _convolution(channels, width, 3, stride), norm(width)
        self.conv2, self.bn2 = _convolution(width, width, 3), norm(width)
        self.relu = nn.ReLU(inplace=True)
        self.downsample = _shortcut(channels, width, stride, norm)

    def forward(self, x: Tensor) -> Tensor:
        """Return the block's output."""
        out = self.relu(self.bn1(self.conv1(x)))
        return self.relu(self.bn2(self.conv2(out)) + self.downsample(x))


class Bottleneck(nn.Module):
    """A 3x3 convolution between two of 1x1, the last four times as wide, and the shortcut around them."""

    def __init__(self, channels: int, width: int, *, stride: int, norm: Norm) -> None:
        super().__init__()
        self.conv1, self.bn1 = _convolution(channels, width, 1), norm(width)
        self.conv2, self.bn2 = _convolution(width, width, 3, stride), norm(width)
        self.conv3, self.bn3 = _convolution(width, 4 * width, 1), norm(4 * width)
        self.relu = nn.ReLU(inplace=True)
        self.downsample = _shortcut(channels, 4 * width, stride, norm)

    def forward(self, x: Tensor) -> Tensor:
        """Return the block's output."""
        out = self.relu(self.bn1(self.conv1(x)))
        out = self.relu(self.bn2(self.conv2(out)))
        return self.relu(self.bn3(self.conv3(out)) + self.downsample(x))


def _convolution(channels: int, width: int, kernel: int, stride: int = 1) -> nn.Conv2d:
    return nn.Conv2d(channels, width, kernel, stride, padding=kernel // 2, bias=False)


def _shortcut(channels: int, width: int, stride: int, norm: Norm) -> nn.Module:
    if stride == 1 and channels == width:
        return nn.Identity()
    return nn.Sequential(_convolution(channels, width, 1, stride), norm(width))


def _group_norm(width: int) -> nn.Module:
    return nn.GroupNorm(_GROUPS, width)
