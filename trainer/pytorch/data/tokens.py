"""Text as files of tokens, for language models."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
import torch
from numpy.lib.stride_tricks import sliding_window_view

from trainer.pytorch.data.dataset import Batch, DamagedSampleError, Dataset, FileDataConfig
from trainer.pytorch.data.token_files import DESCRIPTION, open_file, read_description
from trainer.pytorch.task import Task
from trainer.training.digits import DataError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray
    from torch import Tensor

    from trainer.pytorch.data.token_files import TokenFile
    from trainer.training.digits import SplitName


@dataclass(frozen=True, kw_only=True)
class TokensConfig(FileDataConfig):
    """Tokens of any length in <data_dir>/train.bin and val.bin, described by tokens.json.

    A sample is as many tokens as the model reads, and its targets are the same tokens one place further. Samples follow
    each other in the file and do not overlap. The files are mapped into memory, not loaded.
    """

    dataset: Literal["tokens"] = "tokens"
    """Name of the data set; `--dataset NAME --help` explains the arguments of another."""

    task: ClassVar[Task] = Task.LANGUAGE_MODELLING
    takes_cores: ClassVar[bool] = False

    def open(self, split: SplitName, input_shape: Sequence[int]) -> TokenDataset:
        """Return a split; see `DataConfig.open`."""
        return TokenDataset(open_file(self.data_dir, split), context=input_shape[0])

    def fingerprint(self) -> str:
        """Return a SHA-256 of the description, which has those of the files; see `DataConfig.fingerprint`."""
        content = json.dumps(read_description(self.data_dir), sort_keys=True)
        return hashlib.sha256(content.encode()).hexdigest()


class TokenDataset(Dataset):
    """Windows of a file of tokens."""

    def __init__(self, file: TokenFile, *, context: int) -> None:
        """Map nothing yet.

        Args:
            file: All tokens.
            context: Tokens of a sample.

        Raises:
            DataError: the file is shorter than a sample.
        """
        self._file = file
        self._context = context
        self.sample_shape = (context,)
        self.classes = file.vocabulary
        self.tokens_per_sample = context
        if not len(self):
            fix = "Fix: more tokens" + (f", or --context {file.tokens - 1}" if file.tokens > 1 else "")
            raise DataError(f"{file.path}: has {file.tokens} tokens, a sample is {context} and one more. {fix}")

    def __len__(self) -> int:
        return max(0, self._file.tokens - 1) // self._context

    def name(self, number: int) -> str:
        """See `Dataset.name`: the file and its tokens."""
        begin = number * self._context
        return f"{self._file.path}: tokens {begin} to {begin + self._context}"

    def __getstate__(self) -> dict[str, Any]:
        """Return the state for another process, which maps the file itself: the tokens would be copied."""
        return {name: value for name, value in vars(self).items() if name != "_windows"}

    @cached_property
    def _windows(self) -> NDArray[Any]:
        """All samples with the token that follows each, [samples, context + 1], in the mapped file."""
        return sliding_window_view(self._file.map(), self._context + 1)[:: self._context]

    def batch(self, indices: Tensor) -> Batch:
        """See `Dataset.batch`; inputs and targets int64 [N, context]."""
        # one call for all rows, and the check before the tokens take four times as much memory
        rows = self._windows[indices.numpy()]
        if int(rows.max()) >= self.classes:
            # a GPU would end the process without a word of the file
            row, column = (int(each) for each in np.argwhere(rows >= self.classes)[0])
            number = int(indices[row])
            what = f"token {rows[row, column]} at {number * self._context + column}"
            limit = f"{DESCRIPTION} says 0 to {self.classes - 1}"
            message = f"{self._file.path}: {what}, {limit}. Fix: write and describe the file again"
            raise DamagedSampleError(number, message)
        both: Tensor = torch.from_numpy(rows)  # pyright: ignore[reportUnknownMemberType]
        return Batch(inputs=both[:, :-1].to(torch.int64), targets=both[:, 1:].to(torch.int64))
