"""Errors of serving, in terms of the person who has to act: the client, or the publisher of the model."""

from __future__ import annotations

RETRY_ELSEWHERE = ("x-athanor-retry", "elsewhere")
"""Header of HTTP answers, and metadata of gRPC's, whose request another server may answer."""


class RequestError(Exception):
    """A request that is answered with an error; the message holds the value, the limit and the fix."""

    def __init__(
        self,
        status: int,
        message: str,
        *,
        retry_after_seconds: int | None = None,
        retry_elsewhere: bool = False,
        allowed_method: str | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.retry_after_seconds = retry_after_seconds
        self.retry_elsewhere = retry_elsewhere
        """Another server may answer it, and a proxy may ask one: the cause is this server's, not the request's."""
        self.allowed_method = allowed_method
        """The one that the path takes, of a 405."""
        self.request_id: str | None = None
        """The `id` of the request's body, where that much of it could be read."""


def unavailable(message: str) -> RequestError:
    """Return the error of a server that cannot answer now, where another one may."""
    return RequestError(503, message, retry_after_seconds=1, retry_elsewhere=True)


class BodyNotReadError(RequestError):
    """Refused before its body was read: the connection cannot carry another request."""


class ClientDisconnectedError(Exception):
    """Nobody waits for the answer any more."""


class ModelLoadError(RuntimeError):
    """A version, or the model's configuration, cannot be served as it is on disk."""


class WorkerDiedError(OSError):
    """The process of a model ended during a call; the message says how."""
