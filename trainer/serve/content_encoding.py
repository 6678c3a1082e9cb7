"""Compressed request bodies: decompressed as they arrive, so that limits apply to the decompressed size.

Sources: RFC 9110, section 8.4.1 (gzip and deflate, which is the zlib format); RFC 1950; RFC 1952.
"""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING

from trainer.serve.errors import BodyNotReadError, RequestError

if TYPE_CHECKING:
    from collections.abc import Iterator

_ENCODINGS = {"gzip": 16 + zlib.MAX_WBITS, "x-gzip": 16 + zlib.MAX_WBITS, "deflate": zlib.MAX_WBITS}
"""Formats for zlib by the encoding's name."""
_PART_BYTES = 1 << 18
"""Bytes of one step: a kilobyte can become a megabyte, and the body may be too large already."""


class Decompression:
    """One body on its way in."""

    def __init__(self, encoding: str) -> None:
        """Expect a body in this encoding, in lower case.

        Raises:
            BodyNotReadError: 415, it is another one than gzip and deflate.
        """
        if encoding not in _ENCODINGS:
            fix = "Fix: send the body as gzip, as deflate or uncompressed"
            raise BodyNotReadError(415, f"Content-Encoding {encoding[:40]!r} is not supported. {fix}")
        self._encoding = encoding
        self._stream = zlib.decompressobj(_ENCODINGS[encoding])
        self._began = False

    def parts(self, chunk: bytes) -> Iterator[bytes]:
        """Yield a decompressed chunk in small parts.

        Raises:
            BodyNotReadError: 400, it is damaged, or follows the end.
        """
        self._began = self._began or bool(chunk)
        part = self._decompress(chunk)
        while part:
            yield part
            part = self._decompress(self._stream.unconsumed_tail)

    def _decompress(self, chunk: bytes) -> bytes:
        try:
            part = self._stream.decompress(chunk, _PART_BYTES)
        except zlib.error as error:
            raise BodyNotReadError(400, self._damage(str(error))) from None
        if self._stream.unused_data:
            raise BodyNotReadError(400, self._damage("there are bytes after its end"))
        return part

    def end(self) -> None:
        """Refuse a body that is not whole; none at all is whole.

        Raises:
            RequestError: 400.
        """
        if self._began and not self._stream.eof:
            raise RequestError(400, self._damage("its end is missing"))

    def _damage(self, reason: str) -> str:
        return f"body is not valid {self._encoding}: {reason}. Fix: send it again, or uncompressed"
