"""Reader of torch.distributed.checkpoint's files that runs no code named in them.

torch unpickles the metadata and each value that is not a tensor, which calls whatever they name: anyone who may write
to the volume could run code in every process that resumes, publishes or compares a run.
"""

from __future__ import annotations

import io
import pickle
import re
import warnings
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, cast

import torch
from torch.distributed.checkpoint import filesystem
from torch.distributed.checkpoint import metadata as dcp
from torch.distributed.checkpoint._traverse import set_element  # pyright: ignore[reportUnknownVariableType]
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.default_planner import DefaultLoadPlanner
from torch.distributed.checkpoint.state_dict_loader import load  # pyright: ignore[reportUnknownVariableType]

if TYPE_CHECKING:
    from torch import Tensor
    from torch.distributed.checkpoint.planner import ReadItem

_CLASSES = (
    dcp.Metadata,
    dcp.TensorStorageMetadata,
    dcp.BytesStorageMetadata,
    dcp.ChunkStorageMetadata,
    dcp.TensorProperties,
    dcp._MEM_FORMAT_ENCODING,  # noqa: SLF001 # pyright: ignore[reportPrivateUsage]
    dcp.MetadataIndex,
    dcp.StorageMeta,
    filesystem._StorageInfo,  # noqa: SLF001 # pyright: ignore[reportPrivateUsage]
    torch.Size,
    cast("Any", torch.serialization)._get_layout,  # noqa: SLF001
)


def _member(kind: object, name: object) -> object:
    """Return a member of the one enumeration in torch's metadata, which Python 3.11.0 to 3.11.3 pickles by `getattr`.

    Raises:
        UnpicklingError: it is an attribute of something else, or no member.
    """
    encodings = dcp._MEM_FORMAT_ENCODING  # noqa: SLF001 # pyright: ignore[reportPrivateUsage]
    if kind is not encodings or not isinstance(name, str) or name not in encodings.__members__:
        raise pickle.UnpicklingError(_refusal(f"builtins.getattr({kind!r}, {name!r})", "what describes its tensors"))
    return encodings[name]


_KNOWN: dict[tuple[str, str], object] = {
    **{(each.__module__, each.__qualname__): each for each in _CLASSES},
    **{("torch", name): each for name, each in vars(torch).items() if isinstance(each, torch.dtype)},
    ("builtins", "getattr"): _member,
    # the folder that it was written to; of Python to 3.12, and later
    ("pathlib", "PosixPath"): PurePosixPath,
    ("pathlib._local", "PosixPath"): PurePosixPath,
}
"""Classes and values in torch's metadata, by module and name."""


class CheckpointReader(filesystem.FileSystemReader):
    """A storage reader of torch.distributed.checkpoint."""

    def read_metadata(self, *_arguments: Any, **_words: Any) -> dcp.Metadata:  # noqa: ANN401  as torch's
        """Return what is in the checkpoint. Were a parameter named `kwargs`, torch would try other files, too.

        Raises:
            UnpicklingError: it is not such metadata, or names what does not belong in it.
        """
        path = Path(cast("str", self.path)) / ".metadata"
        content = path.read_bytes()
        try:
            metadata = _checked(_Unpickler(io.BytesIO(content)).load())
        except Exception as error:  # whatever a damaged pickle raises
            fix = "Fix: remove its folder to use the checkpoint before"
            raise pickle.UnpicklingError(f"{path}: {error}. {fix}") from error
        metadata.storage_meta = dcp.StorageMeta(load_id=self.load_id)
        return metadata


def _checked(metadata: object) -> dcp.Metadata:
    if not isinstance(metadata, dcp.Metadata):
        raise TypeError(f"holds a {type(metadata).__name__} in place of a checkpoint's metadata")
    for place in metadata.storage_data.values():
        if place.relative_path != PurePosixPath(place.relative_path).name:
            raise ValueError(f"names a file of another folder: {place.relative_path}")
    return metadata


class _Unpickler(pickle.Unpickler):
    def find_class(self, module_name: str, global_name: str, /) -> object:
        """Return a class of torch's metadata.

        Raises:
            UnpicklingError: it is something else.
        """
        known = _KNOWN.get((module_name, global_name))
        if known is None:
            raise pickle.UnpicklingError(_refusal(f"{module_name}.{global_name}", "what describes its tensors"))
        return known


class _Planner(DefaultLoadPlanner):
    def load_bytes(self, read_item: ReadItem, value: io.BytesIO) -> None:
        """Take a value that is not a tensor: numbers, text and what torch takes for safe.

        Raises:
            UnpicklingError: it names something else.
        """
        name = read_item.dest_index.fqn
        try:
            loaded = torch.load(value, weights_only=True)
        except pickle.UnpicklingError as error:
            named = re.search(r"GLOBAL (\S+)", str(error))
            read = "tensors, numbers, text and what torch.serialization.add_safe_globals has named"
            raise pickle.UnpicklingError(f"{name}: {_refusal(named[1], read) if named else error}") from None
        set_element(cast("dict[str, Any]", self.original_state_dict), self.mappings[name], loaded)


def _refusal(name: str, read: str) -> str:
    return f"holds {name}, which could run code; must be {read}"


def load_state(checkpoint: Path, state: dict[str, Any], *, alone: bool = False) -> None:
    """Read a checkpoint into a state of the same structure, tensors in place.

    Args:
        checkpoint: Its folder.
        state: Nested dictionaries of tensors and plain values.
        alone: By this process, else by all ranks together.

    Raises:
        CheckpointException: it does not fit the state, cannot be read, or names what could run code. Alone, it is the
            exception that this is made of.
    """
    reader = CheckpointReader(checkpoint)
    if not alone:
        load(state, storage_reader=reader, planner=_Planner())
        return
    reader.read_metadata()  # where it cannot be read, torch would go on and log a traceback
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="torch.distributed is disabled")
        try:
            load(state, storage_reader=reader, planner=_Planner(), no_dist=True)
        except CheckpointException as error:  # which `except Exception` does not catch
            raise next(failure for failure, _ in error.failures.values()) from error


def outline(checkpoint: Path, prefix: str = "") -> dict[str, Tensor | None]:
    """Return the values of a checkpoint whose names begin so, to load into: tensors of any content, None for others.

    Raises:
        OSError: its metadata cannot be read.
        UnpicklingError: it is not such metadata.
    """
    return {
        name: torch.empty(entry.size, dtype=entry.properties.dtype)
        if isinstance(entry, dcp.TensorStorageMetadata)
        else None
        for name, entry in CheckpointReader(checkpoint).read_metadata().state_dict_metadata.items()
        if name.startswith(prefix)
    }
