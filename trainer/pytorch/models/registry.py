"""All models by name. To add one: its file next to this one, and its line here."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trainer.pytorch.models.digits_cnn import DigitsCnnConfig
from trainer.pytorch.models.gpt import GptConfig
from trainer.pytorch.models.resnet import ResNetConfig

if TYPE_CHECKING:
    from trainer.pytorch.models.model_config import ModelConfig

MODELS: dict[str, type[ModelConfig]] = {
    "digits_cnn": DigitsCnnConfig,
    "resnet": ResNetConfig,
    "gpt": GptConfig,
}

DEFAULT_MODEL = "digits_cnn"
