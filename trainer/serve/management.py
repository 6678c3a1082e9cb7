"""The management API of server and models: status and commands, the same over HTTP and gRPC.

The answers are the protocol's own messages (tritonclient's `service_pb2`); HTTP sends them as JSON.
"""

from __future__ import annotations

import asyncio
from importlib import metadata
from typing import TYPE_CHECKING, Any, cast

from tritonclient.grpc import service_pb2

from trainer.serve.errors import RequestError, unavailable
from trainer.serve.model_config import PLATFORM

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from trainer.serve.metrics import VersionMetrics
    from trainer.serve.models import Models
    from trainer.serve.tensor_spec import TensorSpec
    from trainer.serve.watcher import RepositoryWatcher

messages = cast("Any", service_pb2)  # generated at run time from its descriptor: no types
_Message = Any

TRACE_REFUSAL = "trace settings are not supported"
LOG_REFUSAL = "log settings are not supported. Fix: set them when the server starts"
EXTENSIONS = (
    "binary_tensor_data",
    "classification",
    "model_configuration",
    "model_repository",
    "schedule_policy",
    "statistics",
)
_NANOSECONDS_PER_MICROSECOND = 1000


class Management:
    """Answers about what is served; every method belongs to the event loop's thread."""

    def __init__(self, models: Models, explicit_control: Mapping[str, RepositoryWatcher] | None) -> None:
        self._models = models
        self._explicit_control = explicit_control
        self.draining = False
        """The server is about to stop: not ready any more."""

    def check_ready(self, model: str | None = None, version: str | None = None) -> int:
        """Refuse unless a model's version answers requests; without a model, one version of each.

        Returns:
            The version; without a model, that of the last one.

        Raises:
            RequestError: 404 for an unknown model or version, 503 while none is loaded or the server stops.
        """
        registries = self._models.required() if model is None else [self._models.of(model)]
        batchers = [registry.find(version) for registry in registries]
        if self.draining:
            raise unavailable("shutting down")
        for batcher in batchers:
            if problem := batcher.model.problem:
                raise unavailable(f"model {batcher.model.spec.name!r} is not ready: {problem}")
        return batchers[-1].model.version

    def is_ready(self, model: str | None = None, version: str | None = None) -> bool:
        """Return whether `check_ready` refuses nothing."""
        try:
            self.check_ready(model, version)
        except RequestError:
            return False
        return True

    def server_metadata(self) -> _Message:
        """Return name, version and extensions (ServerMetadataResponse)."""
        version = f"torch-{metadata.version('torch')}"
        return messages.ServerMetadataResponse(name="athanor", version=version, extensions=EXTENSIONS)

    def model_metadata(self, model: str, version: str | None) -> _Message:
        """Return versions, inputs and outputs of a model (ModelMetadataResponse).

        Raises:
            RequestError: 404 or 503, as `Models.find`.
        """
        registry = self._models.of(model)
        spec = registry.find(version).model.spec
        return messages.ModelMetadataResponse(
            name=spec.name,
            versions=[str(number) for number in registry.versions],
            platform=PLATFORM,
            inputs=[_tensor_metadata(tensor) for tensor in spec.inputs],
            outputs=[_tensor_metadata(tensor) for tensor in spec.outputs],
        )

    def model_config(self, model: str, version: str | None) -> _Message:
        """Return config.pbtxt as it is served (ModelConfig).

        Raises:
            RequestError: 404 or 503, as `Models.find`.
        """
        return self._models.find(model, version).model.spec.config

    def statistics(self, model: str | None, version: str | None) -> _Message:
        """Return the statistics of versions since they were loaded (ModelStatisticsResponse); without a model, of all.

        Raises:
            RequestError: 404 or 503, as `Models.find`.
        """
        registries = self._models if model is None else [self._models.of(model)]
        if model is not None:
            self._models.find(model, version)
        numbers = [
            each
            for registry in registries
            for each in registry.numbers()
            if version is None or str(each.version) == version
        ]
        return messages.ModelStatisticsResponse(model_stats=[_statistics(each) for each in numbers])

    def index(self, *, ready_only: bool) -> _Message:
        """Return all versions with their state (RepositoryIndexResponse)."""
        entries = [entry for registry in self._models for entry in registry.index()]
        return messages.RepositoryIndexResponse(
            models=[entry for entry in entries if not ready_only or entry["state"] == "READY"]
        )

    async def load(self, model: str, parameters: Iterable[str] = ()) -> None:
        """Look at the repository now, and serve what it holds.

        Args:
            model: Its name.
            parameters: Names of the request's parameters.

        Raises:
            RequestError: 404 for another model; 400 where the repository is polled, or a version cannot be served; 501
                for a configuration or files in the request, which would stand in for those of the repository.
        """
        control = self._control(model, "load")
        for name in parameters:
            if name == "config" or name.startswith("file:"):
                fix = "Fix: change the files of the repository, then load"
                raise RequestError(501, f"load: parameter {name[:40]!r} is not supported. {fix}")
        snapshot = await asyncio.wrap_future(control.load())
        if snapshot.problem or snapshot.unavailable:
            reasons = {str(version): reason for version, reason in snapshot.unavailable.items()}
            raise RequestError(400, f"load: {snapshot.problem or reasons}")

    async def unload(self, model: str) -> None:
        """Take all versions out of service.

        Raises:
            RequestError: 404 for another model; 400 where the repository is polled.
        """
        await asyncio.wrap_future(self._control(model, "unload").unload())

    def _control(self, model: str, action: str) -> RepositoryWatcher:
        self._models.of(model)
        if self._explicit_control is None:
            raise RequestError(400, f"{action}: the repository is polled. Fix: start with --model_control=explicit")
        return self._explicit_control[model]


def _tensor_metadata(spec: TensorSpec) -> dict[str, Any]:
    return {"name": spec.name, "datatype": spec.datatype.name, "shape": spec.shape}


def _statistics(numbers: VersionMetrics) -> dict[str, Any]:
    """Return a ModelStatistics; an answer of the statistics extension counts requests, and sums their times."""
    succeeded = numbers.request_success
    return {
        "name": numbers.model,
        "version": str(numbers.version),
        "last_inference": numbers.last_inference_ms,
        "inference_count": numbers.inference_count,
        "execution_count": numbers.execution_count,
        "inference_stats": {
            "success": _duration(succeeded, numbers.request_duration_us),
            "fail": _duration(sum(numbers.request_failure.values()), numbers.failure_duration_us),
            "queue": _duration(succeeded, numbers.queue_duration_us),
            "compute_input": _duration(succeeded, numbers.compute_input_duration_us),
            "compute_infer": _duration(succeeded, numbers.compute_infer_duration_us),
            "compute_output": _duration(succeeded, numbers.compute_output_duration_us),
            # there is no cache of answers: as Triton without one, which has them all the same
            "cache_hit": _duration(0, 0),
            "cache_miss": _duration(0, 0),
        },
        "batch_stats": [
            {
                "batch_size": rows,
                "compute_input": _duration(batch.calls, batch.input_us),
                "compute_infer": _duration(batch.calls, batch.duration_us),
                "compute_output": _duration(batch.calls, batch.output_us),
            }
            for rows, batch in sorted(numbers.batches.items())
        ],
    }


def _duration(count: int, microseconds: int) -> dict[str, int]:
    return {"count": count, "ns": microseconds * _NANOSECONDS_PER_MICROSECOND}
