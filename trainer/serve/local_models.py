"""Versions in this process: verified, loaded and warmed up."""

from __future__ import annotations

import gc
import importlib
import logging
import sys
import time
from typing import TYPE_CHECKING

from trainer.model_repository import model_file
from trainer.serve import model, repository, warmup

if TYPE_CHECKING:
    from trainer.serve.model import LoadedModel
    from trainer.serve.model_config import ModelSpec
    from trainer.serve.repository import Candidate

logger = logging.getLogger(__name__)

_EXPORTED = "trainer.model_repository.exported"


class LocalModels:
    """Loads versions of one model; `load` may run on any thread."""

    def __init__(self, warmup_budget_seconds: float, variant: str | None) -> None:
        self._warmup_budget_seconds = warmup_budget_seconds
        self._variant = variant

    def load(self, candidate: Candidate, spec: ModelSpec) -> LoadedModel:
        """Return a version that is ready to answer.

        Raises:
            ModelLoadError: it cannot be served as it is on disk.
            OSError: a file cannot be read.
        """
        begin = time.monotonic()
        if self._variant is not None:
            repository.require_variant(candidate, self._variant)
        repository.verify(candidate)
        if model_file.is_exported(candidate.model_file) and _EXPORTED not in sys.modules:
            importlib.import_module(_EXPORTED)
            gc.freeze()  # else each collection looks at all of torch's compiler
        is_optimized = repository.is_optimized(candidate)
        loaded = model.load(candidate.model_file, spec, candidate.version, is_optimized=is_optimized)
        loaded_at = time.monotonic()
        warmup.warm_up(loaded, candidate.folder.parent, self._warmup_budget_seconds)
        ready_at = time.monotonic()
        loaded.load_seconds, loaded.warmup_seconds = ready_at - begin, ready_at - loaded_at
        logger.info("%s version %d: loaded in %.2f s", spec.name, candidate.version, loaded.load_seconds)
        if spec.ignored:
            logger.warning("%s: no effect in this server: %s", spec.name, ", ".join(spec.ignored))
        return loaded
