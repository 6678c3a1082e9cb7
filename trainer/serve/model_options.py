"""Options of one of several models: its share of the server, and its served versions."""

from __future__ import annotations

from dataclasses import dataclass

from trainer.common.validation import at_least, file_name

MINIMUM_MEMORY_MIB = 64
"""A lower limit would not hold the stacks of a model's threads."""
_MINIMA = {"version": 1, "max_queue_size": 1, "num_cpu_threads": 1, "max_memory_mib": MINIMUM_MEMORY_MIB}
_FORM = "must be NAME:KEY=VALUE,KEY=VALUE with the keys"
_KEYS = "version, variant, max_queue_size, num_cpu_threads, max_memory_mib"


@dataclass(frozen=True, kw_only=True)
class ModelOptions:
    """Of one model; None stands for what the server's own flag says."""

    name: str
    version: int | None = None
    """Serve this version alone."""
    variant: str | None = None
    """Serve this variant of versions that have it."""
    max_queue_size: int | None = None
    """Requests waiting for this model."""
    num_cpu_threads: int | None = None
    """Threads of CPU kernels of its process; None: an equal share of the server's."""
    max_memory_mib: int | None = None
    """Memory of its process beyond what Python and torch take; None: no limit but the container's."""

    def __post_init__(self) -> None:
        for key, minimum in _MINIMA.items():
            value: int | None = getattr(self, key)
            if value is not None:
                at_least(f"model_options {self.name}:{key}", value, minimum)
        if self.variant is not None:
            file_name(f"model_options {self.name}:variant", self.variant)

    @classmethod
    def parse(cls, text: str) -> ModelOptions:
        """Read `NAME:KEY=VALUE,KEY=VALUE`.

        Raises:
            ValueError: with what was given, and the allowed form or limit.
        """
        name, colon, rest = text.partition(":")
        pairs = [pair.partition("=") for pair in rest.split(",")]
        given = {key: value for key, _, value in pairs}
        if not (name and colon and all(given.values())) or len(given) < len(pairs) or given.keys() - _KEYS_OF_TEXT:
            raise ValueError(f"model_options={text!r}: {_FORM} {_KEYS}, each once")
        for key in given.keys() & _MINIMA.keys():
            if not (given[key].isascii() and given[key].isdecimal()):
                raise ValueError(f"model_options={text!r}: {key}={given[key]!r}: must be a whole number")
        variant = given.pop("variant", None)
        return cls(name=name, variant=variant, **{key: int(value) for key, value in given.items()})


_KEYS_OF_TEXT = frozenset(_KEYS.split(", "))
