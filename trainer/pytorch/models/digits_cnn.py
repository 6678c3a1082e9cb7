"""A small convolutional network for handwritten digits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

from torch import nn

from trainer.common.validation import at_least, between
from trainer.pytorch.models.model_config import ModelConfig, ShardingPlan
from trainer.training.digits import IMAGE_SHAPE, NUM_CLASSES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor


_NORM_GROUPS = 4


@dataclass(frozen=True, kw_only=True)
class DigitsCnnConfig(ModelConfig):
    """The size of the convolutional network for 8x8 digits."""

    model: Literal["digits_cnn"] = "digits_cnn"
    """Name of the model; `--model NAME --help` explains the arguments of another."""
    width: int = 16
    """Channels of the first convolution, a multiple of 4; the others have twice as many. Work grows with its square."""
    dropout: float = 0.3
    """Share of the features before the last layer that training drops, 0 to below 1."""

    reads_images: ClassVar[bool] = True

    def __post_init__(self) -> None:
        at_least("width", self.width, _NORM_GROUPS)
        if self.width % _NORM_GROUPS:
            raise ValueError(f"width={self.width}: must be a multiple of {_NORM_GROUPS}")
        between("dropout", self.dropout, 0.0, 0.99)

    @property
    def input_shape(self) -> tuple[int, ...]:
        """See `ModelConfig.input_shape`."""
        return IMAGE_SHAPE

    def build(self) -> DigitsClassifier:
        """Build the network with weights from torch's current random state."""
        return DigitsClassifier(width=self.width, dropout=self.dropout)

    def plan(self) -> ShardingPlan:
        """Return the plan: two parts, for the whole network is smaller than a message is worth."""
        return ShardingPlan(blocks=("features", "classifier"))

    def check_data(self, sample_shape: Sequence[int], classes: int) -> None:
        """Refuse anything but the digits; see `ModelConfig.check_data`."""
        if (tuple(sample_shape), classes) != (self.input_shape, NUM_CLASSES):
            limit = (
                f"reads images {IMAGE_SHAPE} of {NUM_CLASSES} classes, the data has {tuple(sample_shape)}, {classes}"
            )
            raise ValueError(f"model={self.model}: {limit}. Fix: --model resnet for other images, gpt for tokens")


class DigitsClassifier(nn.Module):
    """Three normalised convolutions, two poolings and one linear layer.

    Group normalisation, because batch normalisation would make results depend on how many ranks share a batch.
    Input: images float32 [N, 1, 8, 8], values 0..1. Output: logits float32 [N, 10].
    """

    def __init__(self, *, width: int, dropout: float) -> None:
        super().__init__()
        self.features = nn.Sequential(
            *_convolution(1, width),
            *_convolution(width, 2 * width),
            nn.MaxPool2d(2),
            *_convolution(2 * width, 2 * width),
            nn.MaxPool2d(2),
            nn.Flatten(),
        )
        self.classifier = nn.Sequential(nn.Dropout(dropout), nn.Linear(2 * width * 4, NUM_CLASSES))

    def forward(self, image: Tensor) -> Tensor:
        """Return the logits of a batch."""
        return self.classifier(self.features(image))


def _convolution(channels_in: int, channels_out: int) -> tuple[nn.Module, ...]:
    convolution = nn.Conv2d(channels_in, channels_out, kernel_size=3, padding=1)
    return convolution, nn.GroupNorm(_NORM_GROUPS, channels_out), nn.ReLU()
