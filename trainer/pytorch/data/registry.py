"""All data sets by name, and those of users' own code. To add one: its file next to this one, and its line here."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from trainer.pytorch.data.cifar10 import Cifar10Config
from trainer.pytorch.data.dataset import DataConfig
from trainer.pytorch.data.digits import DigitsConfig
from trainer.pytorch.data.image_folder import ImageFolderConfig
from trainer.pytorch.data.tokens import TokensConfig
from trainer.pytorch.user_code import configuration

if TYPE_CHECKING:
    from pathlib import Path

DATASETS: dict[str, type[DataConfig]] = {
    "digits": DigitsConfig,
    "cifar10": Cifar10Config,
    "image_folder": ImageFolderConfig,
    "tokens": TokensConfig,
}

DEFAULT_DATASET = "digits"


def dataset_named(name: str) -> type[DataConfig]:
    """Return the configuration of a data set: by its name here or in a package, or of a file, FILE.py:NAME.

    Raises:
        SettingsError: there is none, or it cannot be used.
    """
    return configuration("dataset", name, DATASETS, DataConfig)


def dataset_of(settings: dict[str, Any], data_dir: Path) -> DataConfig:
    """Return the data set of a run, from the settings that its checkpoints and its result have.

    Raises:
        SettingsError: a run of other code, whose data set is not here.
    """
    kind: Any = dataset_named(settings.get("dataset", DEFAULT_DATASET))
    known = {each.name for each in dataclasses.fields(kind)}
    return kind(**{name: value for name, value in settings.items() if name in known}, data_dir=data_dir)
