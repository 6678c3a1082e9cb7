"""Spans of inference requests, sent to a collector by OTLP over gRPC.

Imported only where an endpoint is set. Spans are built when a request has ended, from times that were taken on its way:
the event loop does nothing for them before, and a thread of the SDK sends them.
Source: OpenTelemetry, "Tracing API" and "Environment Variable Specification" (OTEL_BSP_* apply).
"""

from __future__ import annotations

import os
import socket
import threading
import time
from typing import TYPE_CHECKING

from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.sampling import ParentBased, TraceIdRatioBased
from opentelemetry.trace import NonRecordingSpan, SpanContext, SpanKind, Status, StatusCode, TraceFlags

from trainer.serve import trace_context
from trainer.serve.request_log import MAX_REASON_CHARACTERS, printable

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.sdk.trace.export import SpanExporter

    from trainer.serve.request_log import RequestRecord

_SERVERS_FAULTS = {500, 503, "INTERNAL", "UNAVAILABLE"}


class Tracing:
    """Sends a share of the requests; belongs to the event loop's thread."""

    def __init__(self, endpoint: str, sample_ratio: float, model_name: str) -> None:
        """Send to `endpoint`, http://HOST:PORT or https://HOST:PORT; `sample_ratio` is of requests without a trace."""
        exporter = OTLPSpanExporter(endpoint=endpoint, insecure=endpoint.startswith("http:"))
        self._provider = _provider(exporter, sample_ratio, model_name)
        self._tracer = self._provider.get_tracer("athanor")

    def ended(self, record: RequestRecord, status: int | str, reason: str | None = None) -> None:
        """Record a request and its stages, if its client records it, or by chance."""
        now = time.perf_counter()
        offset_ns = time.time_ns() - round(now * 1e9)

        def nanoseconds(moment: float) -> int:
            return round(moment * 1e9) + offset_ns

        span = self._tracer.start_span(
            f"infer {record.model}".rstrip(), _parent(record), SpanKind.SERVER, start_time=nanoseconds(record.began)
        )
        if span.is_recording():
            span.set_attributes(_attributes(record, status))
            if reason is not None:
                span.set_attribute("error.message", printable(reason, MAX_REASON_CHARACTERS))
            if status in _SERVERS_FAULTS:
                span.set_status(Status(StatusCode.ERROR))
            context = trace.set_span_in_context(span)
            for name, begin, end in record.stages:
                self._tracer.start_span(name, context, start_time=nanoseconds(begin)).end(nanoseconds(end))
        span.end(nanoseconds(now))

    def close(self, timeout_seconds: float) -> None:
        """Send what is left, for so long at most: a collector that does not answer must not hold the server's end."""
        flush = threading.Thread(target=self._provider.shutdown, name="traces", daemon=True)
        flush.start()
        flush.join(timeout_seconds)


def _provider(exporter: SpanExporter, sample_ratio: float, model_name: str) -> TracerProvider:
    name = os.environ.get("ATHANOR_JOB") or model_name
    provider = TracerProvider(
        sampler=ParentBased(TraceIdRatioBased(sample_ratio)),
        resource=Resource.create({"service.name": name, "host.name": socket.gethostname()}),
        shutdown_on_exit=False,
    )
    provider.add_span_processor(BatchSpanProcessor(exporter))
    return provider


def _parent(record: RequestRecord) -> Context:
    """Return the client's span; an empty context, where it sent none, begins a trace."""
    parent = trace_context.parse(record.headers("traceparent"))
    if parent is None:
        return trace.set_span_in_context(trace.INVALID_SPAN)
    flags = TraceFlags(TraceFlags.SAMPLED if parent.sampled else TraceFlags.DEFAULT)
    context = SpanContext(int(parent.trace_id, 16), int(parent.span_id, 16), is_remote=True, trace_flags=flags)
    return trace.set_span_in_context(NonRecordingSpan(context))


def _attributes(record: RequestRecord, status: int | str) -> dict[str, str | int]:
    attributes: dict[str, str | int] = {"athanor.protocol": record.protocol, "athanor.status": status}
    if record.model:
        attributes |= {"athanor.model": record.model, "athanor.version": record.version}
    if record_id := record.id:
        attributes["athanor.request_id"] = record_id
    return attributes
