"""Calls between the server and a model's process, over a Unix socket: a JSON document, then the bytes of arrays.

One message: the length of the document (4 bytes, little-endian), the document, and the arrays that its `arrays` lists
one after another. Nothing is unpickled, so neither side can run code of the other's.
"""

from __future__ import annotations

import math
import socket
from typing import TYPE_CHECKING, Any

import numpy as np
import orjson

from trainer.serve.protocol import tensors

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trainer.serve.protocol.tensors import Array

_LENGTH_BYTES = 4
_MAX_DOCUMENT_BYTES = 16 << 20
_NUMBER_KINDS, _TEXT_KIND = "biuf", "O"


def send(connection: socket.socket, document: dict[str, Any], arrays: Sequence[Array] = ()) -> None:
    """Send one message.

    Raises:
        OSError: the other side has ended.
    """
    contents = [_bytes_of(array) for array in arrays]
    listed = [
        {"dtype": array.dtype.str, "shape": array.shape, "size": content.nbytes}
        for array, content in zip(arrays, contents, strict=True)
    ]
    text = orjson.dumps({**document, "arrays": listed})
    parts = [memoryview(len(text).to_bytes(_LENGTH_BYTES, "little") + text)]
    parts += [content for content in contents if content.nbytes]
    while parts:
        sent = connection.sendmsg(parts)
        while parts and sent >= len(parts[0]):
            sent -= len(parts.pop(0))
        if sent:
            parts[0] = parts[0][sent:]


def receive(connection: socket.socket) -> tuple[dict[str, Any], list[Array]]:
    """Return the next message; its arrays are writable and aligned.

    Raises:
        OSError: the other side has ended, or what it sent is not a message.
    """
    length = int.from_bytes(_bytes(connection, _LENGTH_BYTES), "little")
    if length > _MAX_DOCUMENT_BYTES:
        raise OSError(f"a document of {length} bytes; limit: {_MAX_DOCUMENT_BYTES}")
    document: dict[str, Any] = orjson.loads(_bytes(connection, length))
    return document, [_array(connection, each["dtype"], each["shape"], each["size"]) for each in document.pop("arrays")]


def _bytes_of(array: Array) -> memoryview:
    if array.dtype.kind == _TEXT_KIND:
        return memoryview(tensors.to_binary(array))
    # an array without values has no view of bytes
    return np.ascontiguousarray(array).data.cast("B") if array.nbytes else memoryview(b"")


def _array(connection: socket.socket, dtype_name: str, shape: list[int], size: int) -> Array:
    dtype = np.dtype(dtype_name)
    if dtype.kind == _TEXT_KIND:
        try:
            return tensors.texts(memoryview(_bytes(connection, size)), tuple(shape))
        except ValueError as error:
            raise OSError(f"text: {error}") from error
    if dtype.kind not in _NUMBER_KINDS:
        raise OSError(f"an array of {dtype_name}: must be numbers or text")
    content = np.empty(math.prod(shape), dtype)
    if content.nbytes:
        _fill(connection, content.data.cast("B"))
    return content.reshape(shape)


def _bytes(connection: socket.socket, count: int) -> bytearray:
    content = bytearray(count)
    _fill(connection, memoryview(content))
    return content


def _fill(connection: socket.socket, room: memoryview) -> None:
    while room:
        count = connection.recv_into(room, flags=socket.MSG_WAITALL)
        if count == 0:
            raise ConnectionResetError("the other side has ended")
        room = room[count:]
