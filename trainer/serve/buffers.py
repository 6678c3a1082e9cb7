"""The limit on the memory of all requests together, over HTTP and gRPC."""

from __future__ import annotations


class BufferBudget:
    """Bytes of the requests that are here; belongs to the event loop's thread."""

    def __init__(self, limit_bytes: int) -> None:
        self.limit_bytes = limit_bytes
        self._used_bytes = 0

    @property
    def exceeded(self) -> bool:
        """Whether the last bytes that were taken are too many."""
        return self._used_bytes > self.limit_bytes

    @property
    def refusal(self) -> str:
        """The message for the client whose bytes are too many."""
        return f"all request bodies together exceed {self.limit_bytes} bytes. Fix: retry later"

    def take(self, size: int) -> None:
        """Count bytes that came; to be released in any case."""
        self._used_bytes += size

    def release(self, size: int) -> None:
        """Give back what was taken."""
        self._used_bytes -= size
