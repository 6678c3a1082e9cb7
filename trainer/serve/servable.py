"""The interface of a model's version to the server, whether it runs in this process or in its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trainer.serve.model_config import ModelSpec
    from trainer.serve.protocol.tensors import Array
    from trainer.serve.repository import Candidate


class Servable(Protocol):
    """A version that answers requests."""

    load_seconds: float
    """Seconds from the file on disk to the end of the warm-up."""
    warmup_seconds: float

    @property
    def spec(self) -> ModelSpec:
        """Its interface."""
        ...

    @property
    def version(self) -> int:
        """Its number in the repository."""
        ...

    @property
    def problem(self) -> str:
        """Reason why it answers nothing at the moment; empty while it does."""
        ...

    @property
    def lost(self) -> str:
        """Reason why it will not come back by itself, so that it has to be loaded again; empty while it is there."""
        ...

    def infer(self, inputs: Sequence[Array]) -> list[Array]:
        """Run the model on arrays in the order of the configuration; returns its outputs in that order.

        Raises:
            RequestError: 503, it cannot answer now.
            WorkerDiedError: its process ended during the call.
            RuntimeError: the model failed on these values.
        """
        ...

    def release(self) -> None:
        """Free it: nothing calls it any more."""
        ...


Load = Callable[["Candidate", "ModelSpec"], Servable]
"""Turns a version on disk into one that answers: verified, loaded and warmed up.

Raises ModelLoadError for a version that cannot be served, and OSError for what may work at the next attempt.
"""
