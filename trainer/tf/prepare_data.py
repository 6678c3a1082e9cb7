"""Creates a small data set in CIFAR-10's format: `python -m trainer.tf.prepare_data --data_dir /data/data`."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path  # noqa: TC003  the command line parser reads the annotation at run time

from trainer.common import command_line
from trainer.training import cifar, cifar_digits, digits


@dataclass(frozen=True, kw_only=True)
class PrepareDataConfig:
    """Write the handwritten digits as 32x32 colour images in CIFAR-10's files, unless a usable data set is there."""

    data_dir: Path
    """Folder of the input data; the data set gets a folder of its own in it."""


def main(arguments: list[str] | None = None) -> int:
    """Run the command line; 0 when the data set is in place."""
    config = command_line.parse(PrepareDataConfig, "trainer.tf.prepare_data", arguments)
    try:
        folder = cifar_digits.prepare(config.data_dir)
        counts = [len(cifar.load_records(config.data_dir, split)) for split in cifar.SPLITS]
    except digits.DataError as error:
        print(f"prepare_data: {error}", file=sys.stderr)
        return 1
    print(f"{folder}: {counts[0]} training and {counts[1]} test images")
    return 0


if __name__ == "__main__":
    sys.exit(main())
