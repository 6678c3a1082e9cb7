"""The versions of a model that answer requests.

Lives on the event loop: a swap happens between two requests, never within one.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from trainer.serve.batcher import Batcher
from trainer.serve.errors import RequestError, unavailable
from trainer.serve.loader import UNLOADED, Snapshot
from trainer.serve.metrics import VersionMetrics
from trainer.serve.repository import is_version_name

if TYPE_CHECKING:
    from trainer.serve.metrics import ServerMetrics
    from trainer.serve.servable import Servable

logger = logging.getLogger(__name__)


class ModelRegistry:
    """Finds the version for a request; every method belongs to the event loop's thread."""

    def __init__(self, model_name: str, metrics: ServerMetrics, max_queue_size: int) -> None:
        self.model_name = model_name
        self._metrics = metrics
        self._max_queue_size = max_queue_size
        self._batchers: dict[int, Batcher] = {}
        self._retiring: set[Batcher] = set()
        self._snapshot = Snapshot(models={}, unavailable={}, problem="starting")

    @property
    def versions(self) -> list[int]:
        """Versions that answer, in ascending order."""
        return sorted(self._batchers)

    @property
    def is_unloaded(self) -> bool:
        """Whether somebody asked for it to be out of service."""
        return not self._batchers and self._snapshot.problem == UNLOADED

    def apply(self, snapshot: Snapshot) -> None:
        """Serve what a snapshot says from the next request on; what it lacks finishes its queue and goes."""
        before = self._batchers
        self._batchers = {
            version: self._kept_or_new(before.get(version), loaded) for version, loaded in snapshot.models.items()
        }
        self._snapshot = snapshot
        self._metrics.loads[self.model_name] = snapshot.load_success, snapshot.load_failure
        for version, batcher in before.items():
            if self._batchers.get(version) is not batcher:
                self._retire(batcher)
        if self._batchers.keys() != before.keys():
            logger.info("%s: serving versions %s", self.model_name, self.versions or "none")

    def find(self, version: str | None = None) -> Batcher:
        """Return the version asked for, the latest without one.

        Raises:
            RequestError: 404 for an unknown version, 503 while none is loaded.
        """
        model_name = self.model_name
        if version is not None and not is_version_name(version):
            raise RequestError(404, f"version {version[:40]!r} of {model_name!r}: versions are numbers from 1")
        if not self._batchers:
            message = f"model {model_name!r} is not ready: {self._snapshot.problem or self._reasons()}"
            raise unavailable(message)
        number = max(self._batchers) if version is None else int(version)
        batcher = self._batchers.get(number)
        if batcher is None:
            raise RequestError(404, f"model {model_name!r} has no version {number}; serving: {self.versions}")
        return batcher

    def index(self) -> list[dict[str, str]]:
        """Return the entries of the repository index: name, version, state and reason."""
        loaded = [
            {
                "name": self.model_name,
                "version": str(version),
                "state": "UNAVAILABLE" if why else "READY",
                "reason": why,
            }
            for version, why in ((version, self._batchers[version].model.problem) for version in self.versions)
        ]
        unavailable = [
            {"name": self.model_name, "version": str(version), "state": "UNAVAILABLE", "reason": reason}
            for version, reason in sorted(self._snapshot.unavailable.items())
        ]
        if loaded or unavailable:
            return loaded + unavailable
        return [{"name": self.model_name, "version": "", "state": "UNAVAILABLE", "reason": self._snapshot.problem}]

    def numbers(self) -> list[VersionMetrics]:
        """Return the statistics of each serving version, in ascending order."""
        return [self._batchers[version].numbers for version in self.versions]

    def _reasons(self) -> str:
        reasons = sorted(self._snapshot.unavailable.items())
        return "; ".join(f"version {version}: {reason}" for version, reason in reasons) or "no version"

    def _kept_or_new(self, batcher: Batcher | None, loaded: Servable) -> Batcher:
        if batcher is not None and batcher.model is loaded:
            return batcher
        numbers = VersionMetrics(
            model=self.model_name,
            version=loaded.version,
            load_seconds=loaded.load_seconds,
            warmup_seconds=loaded.warmup_seconds,
        )
        self._metrics.add_version(numbers)
        return Batcher(loaded, numbers, self._max_queue_size)

    def _retire(self, batcher: Batcher) -> None:
        self._retiring.add(batcher)

        def on_drained() -> None:
            self._retiring.discard(batcher)
            self._metrics.remove_version(batcher.numbers)
            batcher.model.release()
            logger.info("%s version %d: released", self.model_name, batcher.model.version)

        batcher.retire(on_drained)
