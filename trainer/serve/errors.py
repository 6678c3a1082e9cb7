"""What goes wrong, in the terms of the one who has to act: the client, or the publisher of the model."""

from __future__ import annotations


class RequestError(Exception):
    """A request that is answered with an error; the message holds the value, the limit and the fix."""

    def __init__(self, status: int, message: str, *, retry_after_seconds: int | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.retry_after_seconds = retry_after_seconds
        self.request_id: str | None = None
        """The `id` of the request's body, where that much of it could be read."""


class BodyNotReadError(RequestError):
    """Refused before its body was read: the connection cannot carry another request."""


class ClientDisconnectedError(Exception):
    """Nobody waits for the answer any more."""


class ModelLoadError(RuntimeError):
    """A version, or the model's configuration, cannot be served as it is on disk."""


class WorkerDiedError(OSError):
    """The process of a model ended during a call; the message says how."""


def last_line(error: BaseException) -> str:
    """Return the reason from an error of TorchScript, which comes after its many lines of trace."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[-1][:300] if lines else type(error).__name__
