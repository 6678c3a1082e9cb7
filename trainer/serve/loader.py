"""The loader of models: new versions are loaded and warmed up while the old ones serve.

Runs on a thread of its own, since hashing and loading take seconds, and hands over immutable snapshots. A version that
cannot be served is recorded, counted and left alone until its files change or somebody asks for it; it never replaces
one that works.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING

from trainer.serve import model_config, repository
from trainer.serve.errors import ModelLoadError
from trainer.serve.labels import with_labels

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from trainer.serve.repository import Candidate, Signature
    from trainer.serve.servable import Load, Servable

logger = logging.getLogger(__name__)

UNLOADED = "unloaded on request"
"""The problem of a snapshot that somebody asked for."""


@dataclass(frozen=True, kw_only=True)
class Snapshot:
    """The versions that answer requests from now on, and the outcome of all others."""

    models: Mapping[int, Servable]
    """Models by version."""
    unavailable: Mapping[int, str]
    """Versions that could not be loaded, or lack a file, with the reason."""
    problem: str = ""
    """Reason why nothing can be read: no model, no readable configuration."""
    load_success: int = 0
    """Since the start."""
    load_failure: int = 0
    """Since the start."""


class ModelLoader:
    """The state of one model; all methods belong to one thread."""

    def __init__(
        self,
        folder: Path,
        load: Load,
        publish: Callable[[Snapshot], None],
        version: int | None = None,
        variant: str | None = None,
    ) -> None:
        self._folder = folder
        self._version = version
        self._variant = variant
        self._load = load
        self._publish = publish
        self._loaded: dict[int, tuple[Signature, Servable]] = {}
        self._broken: dict[int, tuple[Signature, str]] = {}
        self._incomplete: dict[int, str] = {}
        self._problem = ""
        self._broken_config = ""
        self._successes = 0
        self._failures = 0
        self._published: Snapshot | None = None

    def sync(self) -> Snapshot:
        """Look at the repository once, load what is new, publish what changed, and return it."""
        try:
            text = repository.read_config_text(self._folder)
            spec = self._parse(text)
            candidates = repository.find_versions(self._folder, text, spec)
            incomplete = repository.incomplete_versions(self._folder, spec, candidates)
        except FileNotFoundError as error:
            self._note_problem(f"waiting for a model: {error.filename} does not exist")
        except (OSError, ModelLoadError) as error:
            self._note_problem(str(error))
        else:
            awaited = "a version" if self._version is None else f"version {self._version}"
            lacks = "".join(f"; {version} {reason}" for version, reason in incomplete.items())
            self._note_problem("" if candidates else f"waiting for {awaited} in {self._folder}{lacks}")
            self._select(candidates, spec)
            self._note_incomplete(incomplete, spec)
        return self._publish_changes()

    def load(self) -> Snapshot:
        """Look at the repository on request: a version that failed is tried again.

        Its files may be the same and the reason gone, such as memory that something else took.
        """
        self._broken = {}
        self._broken_config = ""
        return self.sync()

    def unload(self) -> Snapshot:
        """Take all versions out of service."""
        self._loaded = {}
        self._incomplete = {}
        self._note_problem(UNLOADED)
        return self._publish_changes()

    def _parse(self, text: str) -> model_config.ModelSpec:
        try:
            spec = model_config.parse(text, self._folder.name, self._version, self._variant)
            return with_labels(spec, self._folder)
        except ModelLoadError:
            if text != self._broken_config:
                self._broken_config = text
                self._failures += 1
            raise

    def _select(self, candidates: list[Candidate], spec: model_config.ModelSpec) -> None:
        """Make the version policy true with versions that work; what was served before stays until one does."""
        on_disk = {candidate.version for candidate in candidates}
        self._loaded = {version: entry for version, entry in self._loaded.items() if not entry[1].lost}
        self._broken = {version: why for version, why in self._broken.items() if version in on_disk}
        served: dict[int, tuple[Signature, Servable]] = {}
        for candidate in candidates:
            if spec.version_policy.latest is not None and len(served) >= spec.version_policy.latest:
                break
            entry = self._ensure_loaded(candidate, spec)
            if entry is not None:
                served[candidate.version] = entry
        if served:
            self._loaded = served

    def _ensure_loaded(self, candidate: Candidate, spec: model_config.ModelSpec) -> tuple[Signature, Servable] | None:
        """Return the loaded version, an older load of it where the files on disk are broken now, or None."""
        present = self._loaded.get(candidate.version)
        broken = self._broken.get(candidate.version)
        if (present and present[0] == candidate.signature) or (broken and broken[0] == candidate.signature):
            return present
        try:
            fresh = (candidate.signature, self._load(candidate, spec))
        except OSError as error:
            # storage comes back: tried again at the next look
            self._note_broken(candidate, (), f"cannot be read: {error}")
            return present
        except Exception as error:  # noqa: BLE001  whatever a file makes torch raise, the others serve on
            self._note_broken(candidate, candidate.signature, str(error) or type(error).__name__)
            return present
        self._broken.pop(candidate.version, None)
        self._successes += 1
        return fresh

    def _note_broken(self, candidate: Candidate, signature: Signature, reason: str) -> None:
        self._failures += 1
        before = self._broken.get(candidate.version)
        self._broken[candidate.version] = (signature, reason)
        if before is None or before[1] != reason:
            logger.error("%s version %d: not served: %s", self._folder.name, candidate.version, reason)

    def _note_incomplete(self, incomplete: dict[int, str], spec: model_config.ModelSpec) -> None:
        """Remember which versions would be served if they had all their files; the log has each once."""
        latest = spec.version_policy.latest
        oldest = min(self._loaded, default=0) if latest is None or len(self._loaded) >= latest else 0
        awaited = {version: why for version, why in incomplete.items() if latest is None or version > oldest}
        for version, why in awaited.items() if not self._problem else ():
            if self._incomplete.get(version) != why:
                logger.warning("%s version %d: not served: %s", self._folder.name, version, why)
        self._incomplete = awaited

    def _note_problem(self, problem: str) -> None:
        if problem and problem != self._problem:
            kept = f"; still serving {sorted(self._loaded)}" if self._loaded else ""
            logger.warning("%s: %s%s", self._folder.name, problem, kept)
        self._problem = problem

    def _publish_changes(self) -> Snapshot:
        reasons = self._incomplete | {version: reason for version, (_, reason) in self._broken.items()}
        snapshot = Snapshot(
            models={version: loaded for version, (_, loaded) in self._loaded.items()},
            unavailable={version: reason for version, reason in reasons.items() if version not in self._loaded},
            problem=self._problem,
            load_success=self._successes,
            load_failure=self._failures,
        )
        if snapshot != self._published:
            self._published = snapshot
            self._publish(snapshot)
        return snapshot
