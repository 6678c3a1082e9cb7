"""All models by name. To add one: its file next to this one, and its line here."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

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


def model_of(settings: dict[str, Any]) -> ModelConfig:
    """Return the model of a run, from the settings that its checkpoints and its result have.

    Raises:
        KeyError: a run of other code, whose model is not registered here.
    """
    kind: Any = MODELS[settings.get("model", DEFAULT_MODEL)]
    known = {each.name for each in dataclasses.fields(kind)}
    return kind(**{name: value for name, value in settings.items() if name in known})
