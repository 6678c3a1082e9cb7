"""Tensor datatypes: protocol name, Triton's enum and NumPy types.

Source: Open Inference Protocol, "Tensor Data Types"; Triton, model_config.proto `DataType`. BYTES and BF16 are left
out: TorchScript takes no strings, and NumPy has no bfloat16.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from tritonclient.grpc import model_config_pb2


@dataclass(frozen=True, kw_only=True)
class Datatype:
    """One element type in its spellings."""

    name: str
    numpy: np.dtype[Any]
    """Little-endian, as in binary tensors."""

    @property
    def json_kinds(self) -> str:
        """NumPy kinds that JSON values of this type may have: whole numbers are fine for floats, not the reverse."""
        return {"f": "fiu", "i": "iu", "u": "iu", "b": "b"}[self.numpy.kind]


def _datatype(name: str, numpy: str) -> Datatype:
    return Datatype(name=name, numpy=np.dtype(numpy))


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
    _datatype("FP32", "<f4"),
    _datatype("FP64", "<f8"),
)
_BY_TRITON_NAME = {f"TYPE_{datatype.name}": datatype for datatype in _DATATYPES}

SUPPORTED_NAMES = ", ".join(_BY_TRITON_NAME)


def triton_name(number: int) -> str:
    """Return the name of a `data_type`."""
    return cast("Any", model_config_pb2).DataType.Name(number)


def from_triton(name: str) -> Datatype | None:
    """Return the datatype of a `data_type` in config.pbtxt, or None for one that cannot be served."""
    return _BY_TRITON_NAME.get(name)
