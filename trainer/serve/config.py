"""Settings of the server."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path  # noqa: TC003  the command line parser reads the annotation at run time
from typing import Literal

from trainer.common.validation import at_least, between, file_name, more_than
from trainer.serve.model_options import ModelOptions
from trainer.serve.request_log import Choice  # noqa: TC001  read at run time, too
from trainer.serve.shadow_config import MEBIBYTE, ShadowConfig


@dataclass(frozen=True, kw_only=True)
class LimitsConfig:
    """What clients may take of the server; what is beyond is refused, so that memory stays bounded."""

    max_body_bytes: int = 32 * MEBIBYTE
    """Largest request body, or gRPC message; 413 (RESOURCE_EXHAUSTED) beyond."""
    max_json_bytes: int = 8 * MEBIBYTE
    """Largest JSON part of a body; 413 beyond. Parsed JSON takes up to 25 times its size for a moment."""
    max_buffered_bytes: int = 256 * MEBIBYTE
    """All request bodies and gRPC messages held at one time; 503 (UNAVAILABLE) beyond."""
    max_head_bytes: int = 65536
    """Request line, headers, chunk framing and trailers of one request, or the metadata of a gRPC call; 431
    (RESOURCE_EXHAUSTED) beyond."""
    max_connections: int = 1024
    """Open connections per port; 503 beyond."""
    head_timeout_seconds: float = 10.0
    """For the request line and headers, from the first byte or the connection's start; 408 after it."""
    body_timeout_seconds: float = 60.0
    """For the body of one request; 408 after it."""
    write_timeout_seconds: float = 30.0
    """A client that reads nothing of its response for so long is cut off."""
    keep_alive_seconds: int = 75
    """Idle connections are closed after it."""
    max_grpc_calls: int = 256
    """gRPC calls at one time, each of which may have a message on its way; RESOURCE_EXHAUSTED beyond."""
    max_grpc_age_seconds: int = 300
    """gRPC clients are asked to connect again after it, so that new pods get their share, and streams end."""

    def __post_init__(self) -> None:
        at_least("max_json_bytes", self.max_json_bytes, 1024)
        at_least("max_body_bytes", self.max_body_bytes, self.max_json_bytes)
        at_least("max_buffered_bytes", self.max_buffered_bytes, self.max_body_bytes)
        at_least("max_head_bytes", self.max_head_bytes, 1024)
        at_least("max_connections", self.max_connections, 1)
        at_least("max_grpc_calls", self.max_grpc_calls, 1)
        at_least("max_grpc_age_seconds", self.max_grpc_age_seconds, 1)
        at_least("keep_alive_seconds", self.keep_alive_seconds, 1)
        more_than("head_timeout_seconds", self.head_timeout_seconds, 0)
        more_than("body_timeout_seconds", self.body_timeout_seconds, 0)
        more_than("write_timeout_seconds", self.write_timeout_seconds, 0)


@dataclass(frozen=True, kw_only=True)
class ServeConfig:
    """Serve TorchScript models, and those of torch.export, with the Open Inference Protocol v2 over HTTP and gRPC."""

    model_repository: Path
    """Folder in Triton's layout: <model_name>/config.pbtxt, <model_name>/<version>/{model.pt,manifest.json}."""
    model_name: tuple[str, ...]
    """Model to serve, or several, each in a process of its own. The server waits for them, alive but not ready."""
    model_version: int | None = None
    """Serve this version alone and wait for it, whatever else is published; None: as config.pbtxt's version_policy."""
    model_variant: str | None = None
    """Serve this variant, such as int8, of versions that have it; None: the file that config.pbtxt names."""
    model_options: tuple[str, ...] = ()
    """Of several models, what differs for each: NAME:KEY=VALUE,KEY=VALUE with the keys version, variant,
    max_queue_size, num_cpu_threads and max_memory_mib (of its process, beyond what Python and torch take)."""
    host: str = "127.0.0.1"
    """Address all ports listen on; 0.0.0.0 in a pod."""
    http_port: int = 8000
    """Port of the protocol; 0 takes a free one, named in the log."""
    grpc_port: int | None = None
    """Port of the protocol over gRPC; 0 takes a free one, named in the log. None: HTTP alone."""
    metrics_port: int = 8002
    """Port of /metrics for Prometheus; 0 takes a free one, named in the log."""
    model_control: Literal["poll", "explicit"] = "poll"
    """poll: new versions are taken over as they appear. explicit: by the repository API's load and unload only."""
    poll_interval_seconds: float = 1.0
    """Time between two looks at the repository."""
    log_requests: Choice = "failed"
    """Inference requests that get a line in the log, with their id and trace. failed: those that were refused, failed
    or were slow, at most 10 a second. all: every one, which takes throughput."""
    slow_request_seconds: float = 5.0
    """A request that took longer is slow."""
    otlp_endpoint: str | None = None
    """Collector that gets OpenTelemetry's spans of requests, by OTLP over gRPC: http://HOST:PORT, or https. None: none
    are recorded."""
    trace_sample_ratio: float = 0.01
    """Share of the requests without a trace of their client's that are traced; a client's own decision holds for the
    others."""
    max_queue_size: int = 256
    """Requests waiting for the model; 429 beyond. A queue policy in config.pbtxt goes first."""
    warmup_budget_seconds: float = 30.0
    """Longest warm-up of a version. Each batch size up to max_batch_size is run, the largest first; model_warmup of
    config.pbtxt replaces that, whatever time it takes."""
    num_cpu_threads: int = 0
    """Threads of CPU kernels, which several models, and the instances of each, share equally; 0 takes OMP_NUM_THREADS
    or the container's CPU limit."""
    drain_delay_seconds: float = 5.0
    """After SIGTERM: not ready but still serving until no HTTP request has come for so long."""
    drain_timeout_seconds: int = 20
    """After that delay: time for the requests under way, of which late clients may take half. Both together stay below
    the pod's grace period."""
    limits: LimitsConfig = field(default_factory=LimitsConfig)
    shadow: ShadowConfig = field(default_factory=ShadowConfig)

    def __post_init__(self) -> None:
        for name in self.model_name:
            file_name("model_name", name)
        if not self.model_name or len(set(self.model_name)) < len(self.model_name):
            raise ValueError(f"model_name={list(self.model_name)}: must be at least one, each once")
        self._check_options()
        if self.model_version is not None:
            at_least("model_version", self.model_version, 1)
        if self.model_variant is not None:
            file_name("model_variant", self.model_variant)
        between("http_port", self.http_port, 0, 65535)
        if self.grpc_port is not None:
            between("grpc_port", self.grpc_port, 0, 65535)
        between("metrics_port", self.metrics_port, 0, 65535)
        between("poll_interval_seconds", self.poll_interval_seconds, 0.01, 3600)
        more_than("slow_request_seconds", self.slow_request_seconds, 0)
        if self.otlp_endpoint is not None and not self.otlp_endpoint.startswith(("http://", "https://")):
            raise ValueError(f"otlp_endpoint={self.otlp_endpoint!r}: must be http://HOST:PORT or https://HOST:PORT")
        between("trace_sample_ratio", self.trace_sample_ratio, 0, 1)
        at_least("max_queue_size", self.max_queue_size, 1)
        at_least("warmup_budget_seconds", self.warmup_budget_seconds, 0)
        at_least("num_cpu_threads", self.num_cpu_threads, 0)
        at_least("drain_delay_seconds", self.drain_delay_seconds, 0)
        at_least("drain_timeout_seconds", self.drain_timeout_seconds, 1)

    @property
    def options(self) -> dict[str, ModelOptions]:
        """What each model gets, by name."""
        server = ModelOptions(name=self.model_name[0], version=self.model_version, variant=self.model_variant)
        if len(self.model_name) == 1:
            return {server.name: server}
        given = {each.name: each for each in map(ModelOptions.parse, self.model_options)}
        return {name: given.get(name, ModelOptions(name=name)) for name in self.model_name}

    def _check_options(self) -> None:
        names = [ModelOptions.parse(text).name for text in self.model_options]
        if len(self.model_name) == 1:
            if names:
                fix = (
                    "Fix: --model_version, --model_variant, --max_queue_size, --num_cpu_threads, the container's memory"
                )
                raise ValueError(f"model_options={list(self.model_options)}: are for several models. {fix}")
            return
        for field_name, value in (("version", self.model_version), ("variant", self.model_variant)):
            if value is not None:
                fix = f"Fix: --model_options {self.model_name[0]}:{field_name}={value}"
                raise ValueError(f"model_{field_name}={value}: is for one model, not for {len(self.model_name)}. {fix}")
        for name in names:
            if name not in self.model_name or names.count(name) > 1:
                raise ValueError(f"model_options of {name!r}: must be of one of {list(self.model_name)}, each once")
