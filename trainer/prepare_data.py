"""Writes training data to the volume: `python -m trainer.prepare_data --data_dir /data/data`."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path  # noqa: TC003  the command line parser reads the annotation at run time
from typing import Literal

from trainer.common import command_line
from trainer.pytorch.data import samples
from trainer.training import cifar, cifar_digits, digits


@dataclass(frozen=True, kw_only=True)
class PrepareDataConfig:
    """Write the handwritten digits and their manifest, unless they are there and intact.

    The other data sets are small ones for first steps and tests, in the formats that `trainer.train` reads.
    """

    data_dir: Path
    """Folder of the input data; digits and CIFAR-10 get a folder of their own in it."""
    dataset: Literal["digits", "cifar10", "image_folder", "tokens"] = "digits"
    """Which one: `cifar10` and `image_folder` are the digits as 32x32 and 8x8 pixels in these formats, `tokens` is sums
    such as "27+15=42" as bytes."""


def main(arguments: list[str] | None = None) -> int:
    """Run the command line; 0 when the data set is in place."""
    config = command_line.parse(PrepareDataConfig, "trainer.prepare_data", arguments)
    try:
        print(_prepare(config))
    except digits.DataError as error:
        print(f"prepare_data: {error}", file=sys.stderr)
        return 1
    return 0


def _prepare(config: PrepareDataConfig) -> str:
    """Write the data set and return what is in it, for people."""
    data_dir = config.data_dir
    if config.dataset == "cifar10":
        folder = cifar_digits.prepare(data_dir)
        train, test = (len(cifar.load_records(data_dir, split)) for split in cifar.SPLITS)
        return f"{folder}: {train} training and {test} test images"
    if config.dataset == "image_folder":
        train, held_out = samples.prepare_images(data_dir)
        return f"{data_dir}: {train} training and {held_out} held-out images"
    if config.dataset == "tokens":
        train, held_out = samples.prepare_tokens(data_dir)
        return f"{data_dir}: {train} training and {held_out} held-out tokens"
    folder = digits.prepare(data_dir)
    train, held_out = (len(digits.load(data_dir, split)) for split in digits.SPLITS)
    return f"{folder}: {train} training and {held_out} held-out digits"


if __name__ == "__main__":
    sys.exit(main())
