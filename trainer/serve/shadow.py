"""The shadow: a share of the answered requests is sent to a second server, whose answers are compared and discarded.

The only cost for a client is the time to put a request into a queue: sending and comparing happen in a separate thread,
requests that do not fit the queue are dropped, and a shadow that is down only increments a counter.
"""

from __future__ import annotations

import logging
import random
import time
from typing import TYPE_CHECKING, Any

import numpy as np

from trainer.common.log_lines import FIELDS_ATTRIBUTE
from trainer.serve.protocol import tensors
from trainer.serve.request_log import MAX_ID_CHARACTERS, LineLimit
from trainer.serve.shadow_comparison import Comparer
from trainer.serve.shadow_metrics import ShadowMetrics
from trainer.serve.shadow_sender import Compared, Failure, Sample, ShadowSender

if TYPE_CHECKING:
    from collections.abc import Callable

    from trainer.serve.model_config import ModelSpec
    from trainer.serve.protocol.infer_request import InferRequest
    from trainer.serve.protocol.tensors import Array
    from trainer.serve.request_log import RequestRecord
    from trainer.serve.shadow_config import ShadowConfig
    from trainer.serve.shadow_sender import Outcome

logger = logging.getLogger(__name__)

MAX_LINES_PER_SECOND = 1


class Shadow:
    """Belongs to the event loop's thread."""

    def __init__(self, config: ShadowConfig, url: str, chance: Callable[[], float] = random.random) -> None:
        """Shadow to the server at `url`; `chance` returns numbers from 0 to 1, 1 excluded."""
        self.metrics = ShadowMetrics()
        self._config = config
        self._chance = chance
        self._samples = 0
        self._bytes = 0
        self._lines = LineLimit(MAX_LINES_PER_SECOND)
        self._logged_failure = ""
        comparer = Comparer(tolerance=config.shadow_tolerance, classes=config.shadow_classes)
        self._sender = ShadowSender(url, config.shadow_model, config.shadow_timeout_seconds, comparer, self._ended)

    def answered(self, request: InferRequest, record: RequestRecord, spec: ModelSpec, results: list[Array]) -> None:
        """Take a request that was answered with `results`, all outputs of the model, into the sample or not."""
        if self._chance() >= self._config.shadow_share:
            return
        size = sum(map(tensors.binary_size, (*request.inputs, *results)))
        is_full = self._samples >= self._config.shadow_queue_size
        if is_full or self._bytes + size > self._config.shadow_queue_bytes:
            self.metrics.requests["dropped", "queue_full"] += 1
            return
        self._samples += 1
        self._bytes += size
        sample = Sample(
            spec=spec,
            body_id=request.id and request.id[:MAX_ID_CHARACTERS],
            header_id=record.header_id,
            log_id=record.id,
            inputs=request.inputs,
            # copies: a row of a batch would keep the whole batch in memory
            outputs=[np.array(array, order="C") for array in results],
            seconds=time.perf_counter() - record.began,
            size=size,
        )
        self._sender.send(sample)

    def _ended(self, sample: Sample, outcome: Outcome) -> None:
        self._samples -= 1
        self._bytes -= sample.size
        if isinstance(outcome, Failure):
            self.metrics.requests["failed", outcome.reason] += 1
            self._log_failure(outcome)
            return
        self._logged_failure = ""
        comparison = outcome.comparison
        self.metrics.own_seconds.observe(sample.seconds)
        self.metrics.shadow_seconds.observe(outcome.seconds)
        if comparison.difference is not None:
            self.metrics.difference.observe(comparison.difference)
        if comparison.reason is None:
            self.metrics.requests["equal", ""] += 1
            return
        self.metrics.requests["different", comparison.reason] += 1
        self._log_difference(sample, outcome)

    def _log_failure(self, failure: Failure) -> None:
        """Log a reason once in a row: a shadow that is away must not fill the log."""
        if failure.reason != self._logged_failure:
            self._logged_failure = failure.reason
            logger.warning("the shadow failed (%s): %s", failure.reason, failure.detail)

    def _log_difference(self, sample: Sample, outcome: Compared) -> None:
        if not self._lines.take(time.perf_counter()):
            return
        comparison = outcome.comparison
        fields: dict[str, Any] = {"model": sample.spec.name, "reason": comparison.reason}
        if comparison.difference is not None:
            fields["difference"] = comparison.difference
        if sample.log_id:
            fields["request_id"] = sample.log_id
        if left_out := self._lines.take_left_out():
            fields["differences_not_logged"] = left_out
        name = f"request '{sample.log_id}'" if sample.log_id else "a request without id"
        logger.warning(
            "%s: the shadow's answer differs (%s): %s",
            name,
            comparison.reason,
            comparison.detail,
            extra={FIELDS_ATTRIBUTE: fields},
        )
