"""Several models in one service: the options of each, and the pod resources of all together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from infra.descriptions import checked
from infra.errors import RefusalError
from infra.kubernetes.quantities import quantity_value
from infra.model_variants import ModelVariant
from workloads.canary import MAXIMUM_VERSION
from workloads.checks import ModelName, check_range

if TYPE_CHECKING:
    from collections.abc import Sequence

    from workloads.resources import Resources

MAXIMUM_QUEUE = 10_000
_MEBIBYTE = 1 << 20
_SERVER_MIB = 128
_PROCESS_MIB = 256
"""Python and torch in the process of a model, before it has loaded anything."""


@checked("models")
@dataclass(frozen=True, kw_only=True)
class ServedModel:
    """One of several models of a service. It runs in a process of its own, whose death the others do not notice."""

    model: ModelName
    """Model to serve: a folder of the repository, as `model` of the service."""
    version: int | None = None
    """Version to serve. Default: as the version_policy of the model's config.pbtxt says."""
    variant: ModelVariant | None = None
    """Compressed variant to serve. Default: the model itself."""
    max_queue_size: int | None = None
    """Requests that may wait for this model; more are refused with 429. Default: 256."""
    cpu_threads: int | None = None
    """Threads that compute. Default: an equal share of the pod's whole CPUs."""
    max_memory_mib: int | None = None
    """Memory of its process beyond what Python and torch take, for the model, its inputs and its results. A request
    that would take more fails alone. Default: no limit but the pod's, at which all models of the pod end."""

    def __post_init__(self) -> None:
        """Refuse numbers that the server would refuse in the pods."""
        limits = {
            "version": (1, MAXIMUM_VERSION),
            "max_queue_size": (1, MAXIMUM_QUEUE),
            "cpu_threads": (1, 1024),
            "max_memory_mib": (64, 1 << 20),
        }
        for name, (low, high) in limits.items():
            value: int | None = getattr(self, name)
            if value is not None:
                check_range(f"models.{name}", value, low, high)

    @property
    def options(self) -> str:
        """Options of the server in addition to the name; empty for the server's defaults."""
        given = {
            "version": self.version,
            "variant": self.variant,
            "max_queue_size": self.max_queue_size,
            "num_cpu_threads": self.cpu_threads,
            "max_memory_mib": self.max_memory_mib,
        }
        pairs = ",".join(f"{key}={value}" for key, value in given.items() if value is not None)
        return f"{self.model}:{pairs}" if pairs else ""


def check_models(models: Sequence[ServedModel], resources: Resources) -> None:
    """Refuse too few models, one twice, and more than a pod has.

    Raises:
        RefusalError: naming the field, its value and what to write instead.
    """
    names = [each.model for each in models]
    if len(names) == 1:
        limit = "lists only one model, which needs no separate process"
        raise RefusalError("models", names, limit, f"write model={names[0]!r} instead")
    if len(set(names)) < len(names):
        raise RefusalError("models", names, "names a model twice", "name each once; two versions are a canary")
    threads = sum(each.cpu_threads or 0 for each in models)
    if threads > resources.whole_cpus:
        limit = f"is less than the {threads} cpu_threads of all models"
        raise RefusalError("resources.cpu", resources.cpu, limit, f"write cpu={str(threads)!r}, or fewer cpu_threads")
    needed = _SERVER_MIB + sum(_PROCESS_MIB + (each.max_memory_mib or 0) for each in models)
    if quantity_value(resources.memory_size) < needed * _MEBIBYTE:
        limit = (
            f"is less than {needed}Mi: {_SERVER_MIB} for the server, and {_PROCESS_MIB} and max_memory_mib per model"
        )
        raise RefusalError("resources.memory", resources.memory_size, limit, f"write memory='{needed}Mi' or more")
