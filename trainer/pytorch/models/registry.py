"""All models by name, and those of users' own code. To add one: its file next to this one, and its line here."""

from __future__ import annotations

import dataclasses
from typing import Any

from trainer.pytorch.models.digits_cnn import DigitsCnnConfig
from trainer.pytorch.models.gpt import GptConfig
from trainer.pytorch.models.model_config import ModelConfig
from trainer.pytorch.models.resnet import ResNetConfig
from trainer.pytorch.user_code import configuration

MODELS: dict[str, type[ModelConfig]] = {
    "digits_cnn": DigitsCnnConfig,
    "resnet": ResNetConfig,
    "gpt": GptConfig,
}

DEFAULT_MODEL = "digits_cnn"


def model_named(name: str) -> type[ModelConfig]:
    """Return the configuration of a model: by its name here or in a package, or of a file, FILE.py:NAME.

    Raises:
        SettingsError: there is none, or it cannot be used.
    """
    return configuration("model", name, MODELS, ModelConfig)


def model_of(settings: dict[str, Any]) -> ModelConfig:
    """Return the model of a run, from the settings that its checkpoints and its result have.

    Raises:
        SettingsError: a run of other code, whose model is not here.
    """
    kind: Any = model_named(settings.get("model", DEFAULT_MODEL))
    known = {each.name for each in dataclasses.fields(kind)}
    return kind(**{name: value for name, value in settings.items() if name in known})
