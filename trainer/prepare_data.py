"""Put the training data on the volume: `python -m trainer.prepare_data --data_dir /data/data`."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path  # noqa: TC003  the command line parser reads the annotation at run time

from trainer.common import command_line
from trainer.training import digits


@dataclass(frozen=True, kw_only=True)
class PrepareDataConfig:
    """Write the handwritten digits and their manifest, unless they are there and intact."""

    data_dir: Path
    """Folder of the input data; the data set gets a folder of its own in it."""


def main(arguments: list[str] | None = None) -> int:
    """Run the command line; 0 when the data set is in place."""
    config = command_line.parse(PrepareDataConfig, "trainer.prepare_data", arguments)
    try:
        folder = digits.prepare(config.data_dir)
    except digits.DataError as error:
        print(f"prepare_data: {error}", file=sys.stderr)
        return 1
    counts = {split: len(digits.load(config.data_dir, split)) for split in digits.SPLITS}
    print(f"{folder}: {counts['train']} training and {counts['held_out']} held-out digits")
    return 0


if __name__ == "__main__":
    sys.exit(main())
