"""The models of the server, by name; every method belongs to the event loop's thread."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trainer.serve.errors import RequestError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from trainer.serve.batcher import Batcher
    from trainer.serve.registry import ModelRegistry


class Models:
    """Finds the model, and its version, for a request."""

    def __init__(self, registries: Iterable[ModelRegistry]) -> None:
        self._registries = {registry.model_name: registry for registry in registries}

    def __iter__(self) -> Iterator[ModelRegistry]:
        return iter(self._registries.values())

    def find(self, model_name: str, version: str | None = None) -> Batcher:
        """Return the version asked for, the latest without one.

        Raises:
            RequestError: 404 for an unknown model or version, 503 while none is loaded.
        """
        return self.of(model_name).find(version)

    def of(self, model_name: str) -> ModelRegistry:
        """Return the versions of a model.

        Raises:
            RequestError: 404 with the names that are served.
        """
        registry = self._registries.get(model_name)
        if registry is None:
            served = ", ".join(map(repr, self._registries))
            raise RequestError(404, f"unknown model {model_name[:80]!r}; serving: {served}")
        return registry

    def required(self) -> list[ModelRegistry]:
        """Return the models that a ready server has: all but those that somebody unloaded, unless those are all."""
        registries = list(self._registries.values())
        return [registry for registry in registries if not registry.is_unloaded] or registries
