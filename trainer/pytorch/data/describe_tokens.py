"""Describes files of tokens: `python -m trainer.pytorch.data.describe_tokens --data_dir … --vocabulary 50257`."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path  # noqa: TC003  the command line parser reads the annotation at run time
from typing import Literal

from trainer.common import command_line
from trainer.common.validation import between
from trainer.pytorch.data import token_files
from trainer.training.digits import DataError


@dataclass(frozen=True, kw_only=True)
class DescribeTokensConfig:
    """Write tokens.json for train.bin and val.bin, after reading both and checking every token."""

    data_dir: Path
    """Folder of the two files."""
    vocabulary: int
    """How many values a token may have: the size of the tokenizer's vocabulary."""
    dtype: Literal["uint16", "uint32"] = "uint16"
    """How a token is stored."""

    def __post_init__(self) -> None:
        between("vocabulary", self.vocabulary, 2, 1 << 32)


def main(arguments: list[str] | None = None) -> int:
    """Run the command line; 0 when the description is written."""
    config = command_line.parse(DescribeTokensConfig, "trainer.pytorch.data.describe_tokens", arguments)
    try:
        description = token_files.describe(config.data_dir, dtype=config.dtype, vocabulary=config.vocabulary)
    except (DataError, OSError) as error:
        print(f"describe_tokens: {error}", file=sys.stderr)
        return 1
    for name, entry in description["files"].items():
        print(f"{config.data_dir / name}: {entry['tokens']:,} tokens")
    return 0


if __name__ == "__main__":
    sys.exit(main())
