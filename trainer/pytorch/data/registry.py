"""All data sets by name. To add one: its file next to this one, and its line here."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from trainer.pytorch.data.cifar10 import Cifar10Config
from trainer.pytorch.data.digits import DigitsConfig
from trainer.pytorch.data.image_folder import ImageFolderConfig
from trainer.pytorch.data.tokens import TokensConfig

if TYPE_CHECKING:
    from pathlib import Path

    from trainer.pytorch.data.dataset import DataConfig

DATASETS: dict[str, type[DataConfig]] = {
    "digits": DigitsConfig,
    "cifar10": Cifar10Config,
    "image_folder": ImageFolderConfig,
    "tokens": TokensConfig,
}

DEFAULT_DATASET = "digits"


def dataset_of(settings: dict[str, Any], data_dir: Path) -> DataConfig:
    """Return the data set of a run, from the settings that its checkpoints and its result have.

    Raises:
        KeyError: a run of other code, whose data set is not registered here.
    """
    kind: Any = DATASETS[settings.get("dataset", DEFAULT_DATASET)]
    known = {each.name for each in dataclasses.fields(kind)}
    return kind(**{name: value for name, value in settings.items() if name in known}, data_dir=data_dir)
