"""Tensor datatypes: protocol name, Triton's enum and NumPy types.

Source: Open Inference Protocol, "Tensor Data Types"; Triton, model_config.proto `DataType`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from tritonclient.grpc import model_config_pb2

if TYPE_CHECKING:
    from numpy.typing import NDArray

BF16, BYTES = "BF16", "BYTES"


@dataclass(frozen=True, kw_only=True)
class Datatype:
    """One element type in its spellings."""

    name: str
    numpy: np.dtype[Any]
    """Type of arrays: little-endian, as in binary tensors. Of BF16, which NumPy lacks, the bits; BYTES are bytes
    objects."""
    kind: str
    """NumPy's, of the values: f, i, u, b, or O of BYTES."""

    @property
    def triton_name(self) -> str:
        """Its `data_type` in config.pbtxt."""
        return "TYPE_STRING" if self.name == BYTES else f"TYPE_{self.name}"

    @property
    def json_kinds(self) -> str:
        """NumPy kinds that JSON values of this type may have: whole numbers are fine for floats, not the reverse."""
        return {"f": "fiu", "i": "iu", "u": "iu", "b": "b", "O": "O"}[self.kind]

    def zeros(self, shape: tuple[int, ...]) -> NDArray[Any]:
        """Return zeros, or empty BYTES."""
        return np.full(shape, b"" if self.name == BYTES else 0, self.numpy)

    def numbers(self, array: NDArray[Any]) -> NDArray[Any]:
        """Return an array in a type that NumPy computes with: float32 for BF16, whose bits are the first half of it."""
        return (array.astype(np.uint32) << 16).view(np.float32) if self.name == BF16 else array


def _datatype(name: str, numpy: str, kind: str = "") -> Datatype:
    dtype = np.dtype(numpy)
    return Datatype(name=name, numpy=dtype, kind=kind or dtype.kind)


_DATATYPES = (
    _datatype("BOOL", "|b1"),
    _datatype("UINT8", "|u1"),
    _datatype("UINT16", "<u2"),
    _datatype("UINT32", "<u4"),
    _datatype("UINT64", "<u8"),
    _datatype("INT8", "|i1"),
    _datatype("INT16", "<i2"),
    _datatype("INT32", "<i4"),
    _datatype("INT64", "<i8"),
    _datatype("FP16", "<f2"),
    _datatype(BF16, "<u2", kind="f"),
    _datatype("FP32", "<f4"),
    _datatype("FP64", "<f8"),
    _datatype(BYTES, "O"),
)
_BY_TRITON_NAME = {datatype.triton_name: datatype for datatype in _DATATYPES}

SUPPORTED_NAMES = ", ".join(_BY_TRITON_NAME)


def triton_name(number: int) -> str:
    """Return the name of a `data_type`."""
    return cast("Any", model_config_pb2).DataType.Name(number)


def from_triton(name: str) -> Datatype | None:
    """Return the datatype of a `data_type` in config.pbtxt, or None for one that cannot be served."""
    return _BY_TRITON_NAME.get(name)
