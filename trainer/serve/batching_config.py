"""Settings of dynamic batching: `dynamic_batching` of config.pbtxt.

Source: Triton, model_config.proto, ModelDynamicBatching and ModelQueuePolicy.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from trainer.serve.errors import ModelLoadError

if TYPE_CHECKING:
    from collections.abc import Mapping

_Message = Any
_DELAY = 1  # ModelQueuePolicy.TimeoutAction
_MOST_LEVELS = 100
_LONGEST_DELAY_US = 3_600_000_000
"""An hour. A thread cannot wait for the longest times that the field can hold."""


@dataclass(frozen=True, kw_only=True)
class QueuePolicy:
    """How long, and how many, requests of one priority may wait."""

    max_queue_size: int | None = None
    """None: the server's own limit for all that wait."""
    timeout_us: int = 0
    """Longest wait; 0: any."""
    allow_timeout_override: bool = False
    """A request may ask for a shorter wait."""
    delays_on_timeout: bool = False
    """A request that waited too long runs after the others of its priority; else it is rejected."""

    def wait_us(self, requested_us: int) -> int:
        """Return how long a request may wait that asked for so long itself; 0 is forever."""
        if not self.allow_timeout_override or requested_us == 0:
            return self.timeout_us
        return min(requested_us, self.timeout_us or requested_us)


@dataclass(frozen=True, kw_only=True)
class Batching:
    """Queue and batches of a model."""

    max_rows: int = 0
    """Largest batch; 0: every request runs alone."""
    preferred_sizes: frozenset[int] = frozenset()
    """Batches of such sizes start at once."""
    max_delay_seconds: float = 0.0
    """How long others wait for more requests."""
    default_priority: int = 1
    policies: tuple[QueuePolicy, ...] = field(default=(QueuePolicy(),))
    """One for each priority from 1, the highest."""

    def priority(self, requested: int) -> int:
        """Return the priority of a request; as in Triton, one that does not exist is the default."""
        return requested if 1 <= requested <= len(self.policies) else self.default_priority


def parse(config: _Message) -> Batching:
    """Read the batching of a ModelConfig.

    Raises:
        ModelLoadError: sizes or priorities that cannot be.
    """
    if not config.HasField("dynamic_batching"):
        return Batching()
    given = config.dynamic_batching
    sizes = frozenset(given.preferred_batch_size)
    if any(not 1 <= size <= config.max_batch_size for size in sizes):
        raise ModelLoadError(
            f"config.pbtxt: preferred_batch_size {sorted(sizes)}: must be 1 to max_batch_size, {config.max_batch_size}"
        )
    levels: int = given.priority_levels
    if levels > _MOST_LEVELS:
        raise ModelLoadError(f"config.pbtxt: priority_levels={levels}: must be at most {_MOST_LEVELS}")
    if levels and not 1 <= given.default_priority_level <= levels:
        value = given.default_priority_level
        raise ModelLoadError(f"config.pbtxt: default_priority_level={value}: must be 1 to priority_levels, {levels}")
    delay_us: int = given.max_queue_delay_microseconds
    if delay_us > _LONGEST_DELAY_US:
        limit = f"must be at most {_LONGEST_DELAY_US}"
        raise ModelLoadError(f"config.pbtxt: max_queue_delay_microseconds={delay_us}: {limit}")
    own: Mapping[int, _Message] = given.priority_queue_policy
    if unknown := [level for level in own if not 1 <= level <= levels]:
        raise ModelLoadError(
            f"config.pbtxt: priority_queue_policy {unknown[0]}: must be 1 to priority_levels, {levels}"
        )
    return Batching(
        max_rows=config.max_batch_size if config.max_batch_size > 1 else 0,
        preferred_sizes=sizes,
        max_delay_seconds=delay_us / 1e6,
        default_priority=given.default_priority_level or 1,
        policies=tuple(_policy(own.get(level, given.default_queue_policy)) for level in range(1, max(1, levels) + 1)),
    )


def _policy(given: _Message) -> QueuePolicy:
    return QueuePolicy(
        max_queue_size=given.max_queue_size or None,
        timeout_us=given.default_timeout_microseconds,
        allow_timeout_override=given.allow_timeout_override,
        delays_on_timeout=given.timeout_action == _DELAY,
    )
