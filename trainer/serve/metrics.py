"""Prometheus metrics under Triton's names, so that one dashboard and one set of alerts serve both servers.

Source: Triton Inference Server, "Metrics". Its counters have no `_total` suffix, which prometheus_client would add:
hence the text format is written here (Prometheus, "Exposition formats", version 0.0.4). All of it lives on the event
loop's thread; numbers of a version end with the version.
"""

from __future__ import annotations

import time
from bisect import bisect_left
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, get_args

from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

REJECTED = "REJECTED"
"""Failure reason: the queue was full, or the request waited in it for too long."""
BACKEND = "BACKEND"
"""Failure reason: the model raised."""
CANCELED = "CANCELED"
"""Failure reason: the client left, or the server stopped."""
OTHER = "OTHER"
"""Failure reason: the request did not fit the model."""

RejectionCause = Literal["queue_full", "timeout"]
REJECTION_CAUSES: tuple[RejectionCause, ...] = get_args(RejectionCause)

REQUEST_SECONDS_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
BATCH_SIZE_BUCKETS = (1, 2, 4, 8, 16, 32, 64, 128, 256)


class Histogram:
    """Counts of values up to each of some bounds, and their sum; one thread's, and cheap enough for every request."""

    __slots__ = ("_bounds", "_counts", "_sum")

    def __init__(self, bounds: Sequence[float]) -> None:
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self._sum = 0.0

    def observe(self, value: float) -> None:
        """Count a value."""
        self._counts[bisect_left(self._bounds, value)] += 1
        self._sum += value

    def samples(self, name: str, labels: Mapping[str, str]) -> Iterable[str]:
        """Return the lines of the text format; every bound counts all that is not above it."""
        so_far = 0
        for bound, count in zip([*map(str, self._bounds), "+Inf"], self._counts, strict=True):
            so_far += count
            yield _sample(f"{name}_bucket", {**labels, "le": bound}, so_far)
        yield _sample(f"{name}_sum", labels, self._sum)
        yield _sample(f"{name}_count", labels, so_far)


@dataclass(kw_only=True, slots=True)
class BatchMetrics:
    """Calls of a model with batches of one size."""

    calls: int = 0
    duration_us: int = 0
    input_us: int = 0
    """Time to decode the requests that succeeded; and to encode their answers."""
    output_us: int = 0


@dataclass(kw_only=True)
class VersionMetrics:
    """Statistics of one version of a model since it was loaded."""

    model: str
    version: int
    request_success: int = 0
    request_failure: Counter[str] = field(
        default_factory=lambda: Counter({REJECTED: 0, BACKEND: 0, CANCELED: 0, OTHER: 0})
    )
    """Failures by reason."""
    rejected: Counter[tuple[RejectionCause, int]] = field(default_factory=Counter[tuple[RejectionCause, int]])
    """Failures with the reason REJECTED, by cause and priority."""
    load_seconds: float = 0.0
    """Time from the file on disk to the first request, the warm-up included."""
    warmup_seconds: float = 0.0
    inference_count: int = 0
    """Rows of the batch dimension."""
    execution_count: int = 0
    """Calls of the model."""
    request_duration_us: int = 0
    """Time from a request's first byte to its answer, summed over requests that succeeded."""
    request_seconds: Histogram = field(default_factory=lambda: Histogram(REQUEST_SECONDS_BUCKETS))
    """The same times, for quantiles."""
    batch_size: Histogram = field(default_factory=lambda: Histogram(BATCH_SIZE_BUCKETS))
    """Rows that one call of the model got."""
    failure_duration_us: int = 0
    """The same, summed over requests that failed."""
    queue_duration_us: int = 0
    """This, and what follows, summed over requests that succeeded."""
    compute_input_duration_us: int = 0
    """Time from the encoded request to arrays."""
    compute_infer_duration_us: int = 0
    compute_output_duration_us: int = 0
    """Time from arrays to the encoded answer."""
    batches: defaultdict[int, BatchMetrics] = field(default_factory=lambda: defaultdict(BatchMetrics))
    """Batches by rows of one model call."""
    last_inference_ms: int = 0
    """Time of the latest answer, in ms since the epoch."""
    pending_requests: Callable[[], int] = int
    """Requests that wait for the model now."""
    running_batches: Callable[[], int] = int
    """Batches that the model computes now."""

    def succeed(self, seconds: float) -> None:
        """Count a request that was answered after so long."""
        self.request_success += 1
        self.request_duration_us += round(seconds * 1e6)
        self.request_seconds.observe(seconds)
        self.last_inference_ms = time.time_ns() // 1_000_000


class ServerMetrics:
    """All metrics of the process."""

    def __init__(self, *models: str) -> None:
        self._versions: dict[tuple[str, int], VersionMetrics] = {}
        self._process = CollectorRegistry()
        ProcessCollector(registry=self._process)
        self.loads: dict[str, tuple[int, int]] = dict.fromkeys(models, (0, 0))
        """Versions that were loaded, and that could not be, by model."""
        self.worker_restarts: dict[str, Callable[[], int]] = {}
        """How often each model's process was started again, where models have one."""
        self.responses: Counter[int] = Counter()
        """HTTP responses by status."""
        self.grpc_responses: Counter[str] = Counter()
        """gRPC calls by the name of their status code."""
        self.shadow_lines: Callable[[], Iterable[str]] = tuple
        """Returns the lines about the shadow, where there is one."""

    def add_version(self, version: VersionMetrics) -> None:
        """Show the numbers of a version."""
        self._versions[version.model, version.version] = version

    def remove_version(self, version: VersionMetrics) -> None:
        """Stop showing them, unless the version has been loaded again."""
        if self._versions.get((version.model, version.version)) is version:
            del self._versions[version.model, version.version]

    def render(self) -> bytes:
        """Return the text that Prometheus scrapes."""
        versions = list(self._versions.values())

        def each(value: Callable[[VersionMetrics], float]) -> list[tuple[Mapping[str, str], float]]:
            return [(_labels(version), value(version)) for version in versions]

        failures = [
            ({**_labels(version), "reason": reason}, count)
            for version in versions
            for reason, count in version.request_failure.items()
        ]
        rejected = [
            ({**_labels(version), "cause": cause, "priority": str(priority)}, count)
            for version in versions
            for (cause, priority), count in version.rejected.items()
        ]
        loads = [({"model": model}, *numbers) for model, numbers in self.loads.items()]
        restarts = [({"model": model}, number()) for model, number in self.worker_restarts.items()]
        lines = [
            *family(
                "nv_inference_request_success", "counter", "Successful requests", each(lambda v: v.request_success)
            ),
            *family("nv_inference_request_failure", "counter", "Failed requests", failures),
            *family("athanor_rejected_requests", "counter", "Requests that the queue rejected", rejected),
            *family("nv_inference_count", "counter", "Inferences (rows)", each(lambda v: v.inference_count)),
            *family("nv_inference_exec_count", "counter", "Model calls", each(lambda v: v.execution_count)),
            *family(
                "nv_inference_request_duration_us", "counter", "Request time", each(lambda v: v.request_duration_us)
            ),
            *family("nv_inference_queue_duration_us", "counter", "Queue time", each(lambda v: v.queue_duration_us)),
            *family(
                "nv_inference_compute_input_duration_us",
                "counter",
                "Time to decode requests",
                each(lambda v: v.compute_input_duration_us),
            ),
            *family(
                "nv_inference_compute_infer_duration_us",
                "counter",
                "Model time, counted for each request of a batch",
                each(lambda v: v.compute_infer_duration_us),
            ),
            *family(
                "nv_inference_compute_output_duration_us",
                "counter",
                "Time to encode answers",
                each(lambda v: v.compute_output_duration_us),
            ),
            *family(
                "nv_inference_pending_request_count", "gauge", "Queued requests", each(lambda v: v.pending_requests())
            ),
            *family("athanor_running_batches", "gauge", "Batches in the model", each(lambda v: v.running_batches())),
            *_histograms(
                "athanor_request_duration_seconds",
                "Time from a request's first byte to its answer, of requests that succeeded",
                versions,
                lambda v: v.request_seconds,
            ),
            *_histograms("athanor_batch_size", "Rows of one model call", versions, lambda v: v.batch_size),
            *family("athanor_model_load_seconds", "gauge", "Time to load the version", each(lambda v: v.load_seconds)),
            *family("athanor_model_warmup_seconds", "gauge", "Of that, the warm-up", each(lambda v: v.warmup_seconds)),
            *family("athanor_model_load_success", "counter", "Versions loaded", [(m, good) for m, good, _ in loads]),
            *family(
                "athanor_model_load_failure", "counter", "Versions not loadable", [(m, bad) for m, _, bad in loads]
            ),
            *family("athanor_model_worker_restarts", "counter", "Restarts of a model's process", restarts),
            *family(
                "athanor_http_responses",
                "counter",
                "HTTP responses by status",
                [({"status": str(status)}, count) for status, count in sorted(self.responses.items())],
            ),
            *family(
                "athanor_grpc_responses",
                "counter",
                "gRPC calls by status code",
                [({"code": code}, count) for code, count in sorted(self.grpc_responses.items())],
            ),
            *self.shadow_lines(),
        ]
        return "\n".join([*lines, ""]).encode() + generate_latest(self._process)


def _labels(version: VersionMetrics) -> dict[str, str]:
    return {"model": version.model, "version": str(version.version)}


def _histograms(
    name: str, text: str, versions: Iterable[VersionMetrics], of: Callable[[VersionMetrics], Histogram]
) -> Iterable[str]:
    yield from family_head(name, "histogram", text)
    for version in versions:
        yield from of(version).samples(name, _labels(version))


def family(name: str, kind: str, text: str, samples: Iterable[tuple[Mapping[str, str], float]]) -> Iterable[str]:
    """Return the lines of a counter or gauge."""
    yield from family_head(name, kind, text)
    for labels, value in samples:
        yield _sample(name, labels, value)


def family_head(name: str, kind: str, text: str) -> Iterable[str]:
    """Return the lines before the samples of a metric."""
    yield f"# HELP {name} {text}"
    yield f"# TYPE {name} {kind}"


def _sample(name: str, labels: Mapping[str, str], value: float) -> str:
    # no escaping: model names are checked, the rest are numbers and our own words
    pairs = ",".join(f'{key}="{label}"' for key, label in labels.items())
    return f"{name}{{{pairs}}} {value}"
