"""Files of tokens: what a tokenizer made of a text, as little-endian integers one after the other.

<data_dir> has `train.bin`, `val.bin` (held out) and `tokens.json`, which describes them:

    {"format_version": 1, "dtype": "uint16", "vocabulary": 50257,
     "files": {"train.bin": {"tokens": 9035582198, "sha256": "…"}, "val.bin": {"tokens": 4434897, "sha256": "…"}}}

`dtype` is uint16 or uint32; each token is less than `vocabulary`. The files have no header, so those of other projects
that store tokens in this way (nanoGPT, llm.c without its header) need only the description.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from trainer.common.files import read_json, sha256_of, write_atomically, write_json_atomically
from trainer.training.digits import SPLITS, DataError

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from trainer.training.digits import SplitName

DESCRIPTION = "tokens.json"
FORMAT_VERSION = 1
FILES: dict[SplitName, str] = {"train": "train.bin", "held_out": "val.bin"}
DTYPES = {"uint16": np.dtype("<u2"), "uint32": np.dtype("<u4")}

_TOKENS_AT_ONCE = 1 << 24


@dataclass(frozen=True, kw_only=True)
class TokenFile:
    """One file, and what its description says of it."""

    path: Path
    dtype: str
    tokens: int
    vocabulary: int

    def map(self) -> NDArray[Any]:
        """Return the tokens [tokens] without reading them: the kernel loads the pages that are used."""
        return np.memmap(self.path, dtype=DTYPES[self.dtype], mode="r", shape=(self.tokens,))


def open_file(data_dir: Path, split: SplitName) -> TokenFile:
    """Return the file of a split after comparing its size with the description.

    Raises:
        DataError: the description or the file is missing, or they do not fit.
    """
    description = read_description(data_dir)
    name = FILES[split]
    entry: dict[str, Any] = description["files"].get(name, {})
    path, tokens = data_dir / name, entry.get("tokens")
    if not path.is_file() or not isinstance(tokens, int):
        raise DataError(f"{path}: missing, or not in {DESCRIPTION}. {fix(data_dir)}")
    expected = tokens * DTYPES[description["dtype"]].itemsize
    size = path.stat().st_size
    if size != expected:
        limit = f"{DESCRIPTION} says {tokens} tokens of {description['dtype']}, {expected} bytes"
        raise DataError(f"{path}: has {size} bytes, {limit}. {fix(data_dir)}")
    return TokenFile(path=path, dtype=description["dtype"], tokens=tokens, vocabulary=description["vocabulary"])


def read_description(data_dir: Path) -> dict[str, Any]:
    """Return the content of the description.

    Raises:
        DataError: it is missing or says nothing usable.
    """
    path = data_dir / DESCRIPTION
    description = read_json(path)
    if description is None:
        raise DataError(f"{path} is missing or not JSON. {fix(data_dir)}")
    version, dtype = description.get("format_version"), description.get("dtype")
    if version != FORMAT_VERSION or dtype not in DTYPES:
        limit = f"must be {FORMAT_VERSION} and one of {', '.join(DTYPES)}"
        raise DataError(f"{path}: format_version {version} and dtype {dtype!r}, {limit}. {fix(data_dir)}")
    vocabulary, files = description.get("vocabulary"), description.get("files")
    if not isinstance(vocabulary, int) or vocabulary < 2 or not isinstance(files, dict):
        raise DataError(f"{path}: needs a vocabulary of at least 2, and files. {fix(data_dir)}")
    return description


def describe(data_dir: Path, *, dtype: str, vocabulary: int) -> dict[str, Any]:
    """Write the description of files that are there, after reading all of them; return it.

    Raises:
        DataError: a file is missing or ends within a token, has a token that is not in the vocabulary, or has tokens
            of another size.
    """
    most = np.iinfo(DTYPES[dtype]).max + 1
    if vocabulary > most:
        raise DataError(f"vocabulary = {vocabulary}: {dtype} holds up to {most}. Fix: --dtype uint32")
    files = {name: _describe_file(data_dir / name, dtype, vocabulary) for name in FILES.values()}
    description = {"format_version": FORMAT_VERSION, "dtype": dtype, "vocabulary": vocabulary, "files": files}
    write_json_atomically(data_dir / DESCRIPTION, description)
    return description


def write(data_dir: Path, splits: dict[SplitName, NDArray[Any]], *, vocabulary: int) -> None:
    """Write both files and their description, the description last.

    Args:
        data_dir: An existing folder.
        splits: Tokens of each split, integers [tokens].
        vocabulary: How many values a token may have; up to 65,536 are stored as uint16, more as uint32.

    Raises:
        DataError: a token is not in the vocabulary.
        OSError: the folder cannot be written.
    """
    for split in SPLITS:
        _check_tokens(data_dir / FILES[split], splits[split], vocabulary)
        write_atomically(data_dir / FILES[split], encode(splits[split], vocabulary=vocabulary))
    describe(data_dir, dtype=_dtype(vocabulary), vocabulary=vocabulary)


def encode(tokens: NDArray[Any], *, vocabulary: int) -> bytes:
    """Return the content of a file with these tokens, integers [tokens]; see `write`."""
    return tokens.astype(DTYPES[_dtype(vocabulary)]).tobytes()


def _dtype(vocabulary: int) -> str:
    return "uint16" if vocabulary <= 1 << 16 else "uint32"


def _describe_file(path: Path, dtype: str, vocabulary: int) -> dict[str, Any]:
    kind = DTYPES[dtype]
    size = path.stat().st_size if path.is_file() else 0
    if size == 0 or size % kind.itemsize:
        limit = f"must be a multiple of {kind.itemsize} ({dtype}) and not 0"
        raise DataError(f"{path}: size is {size} bytes, {limit}. Fix: write the tokens again, or another --dtype")
    tokens = np.memmap(path, dtype=kind, mode="r")
    may_be_wider = dtype == "uint16" and len(tokens) % 2 == 0
    for begin in range(0, len(tokens), _TOKENS_AT_ONCE):
        part = tokens[begin : begin + _TOKENS_AT_ONCE]
        _check_tokens(path, part, vocabulary)
        may_be_wider = may_be_wider and not part[1::2].any()
    if may_be_wider:
        limit = "every second token is 0, as where uint32 is read as uint16"
        raise DataError(f"{path}: {limit}. Fix: --dtype uint32, or write the tokens again")
    return {"tokens": len(tokens), "sha256": sha256_of(path)}


def _check_tokens(path: Path, tokens: NDArray[Any], vocabulary: int) -> None:
    smallest, largest = int(tokens.min(initial=0)), int(tokens.max(initial=0))
    if smallest < 0 or largest >= vocabulary:
        wrong = smallest if smallest < 0 else largest
        raise DataError(
            f"{path}: token {wrong}, must be 0 to {vocabulary - 1}. Fix: the vocabulary of the tokenizer, at least "
            f"{largest + 1}"
        )


def fix(data_dir: Path) -> str:
    """Say how files of tokens become usable."""
    command = f"python -m trainer.pytorch.data.describe_tokens --data_dir {data_dir} --dtype uint16 --vocabulary N"
    return f"Fix: put train.bin and val.bin there and run `{command}`"
