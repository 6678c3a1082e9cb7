"""A sweep as a component: one job for each combination of values of its program's arguments."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from random import Random
from typing import TYPE_CHECKING, Any, Literal

import pulumi

from athanor.sweep.parameter import MOST_POINTS, Parameter, read_parameter
from athanor.sweep.space import check_grid, check_template, fill
from infra.descriptions import checked
from infra.errors import RefusalError
from workloads.batch import BatchJob, BatchJobArgs
from workloads.checks import check_range
from workloads.mpi import MPIJob, MPIJobArgs
from workloads.pytorch import PyTorchJob, PyTorchJobArgs
from workloads.tensorflow import TensorFlowJob, TensorFlowJobArgs

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from infra.platform import Platform

_KINDS: Mapping[type, Any] = {
    BatchJobArgs: BatchJob,
    MPIJobArgs: MPIJob,
    PyTorchJobArgs: PyTorchJob,
    TensorFlowJobArgs: TensorFlowJob,
}
_DIGITS = 6
"""Significant digits of a drawn number: its last ones could differ between machines, and each would be another job."""


@checked()
@dataclass(frozen=True, kw_only=True)
class SweepArgs:
    """Arguments of Sweep."""

    job: PyTorchJobArgs | MPIJobArgs | TensorFlowJobArgs | BatchJobArgs
    """What each trial runs: its program has {lr} where the value of the parameter `lr` goes."""
    parameters: Mapping[str, str]
    """Values by name, as `athanor sweep --param` takes them: "0.1,0.01", "1e-4..1e-1:log", "2..8" or "32..256:32"."""
    search: Literal["grid", "random"] = "grid"
    """All combinations, or `trials` many random ones."""
    trials: int | None = None
    """How many random combinations; more of them leave those of before as they are. Not for a grid."""
    seed: int = 0
    """Another number draws other random combinations."""

    def __post_init__(self) -> None:
        """Refuse a sweep of which a trial could not run.

        Raises:
            RefusalError: in the words of `athanor sweep`.
        """
        if not self.parameters:
            limit = "a sweep without parameters has nothing to search"
            raise RefusalError("parameters", self.parameters, limit, 'write {"lr": "0.1,0.01"}')
        check_template(self.program, self.space)
        if self.search == "grid":
            if self.trials is not None:
                limit = "a grid has as many trials as points"
                raise RefusalError("trials", self.trials, limit, 'omit it, or set search="random"')
            check_grid(self.space)
        elif self.trials is None:
            raise RefusalError("trials", None, 'must be given for search="random"', "write trials=20")
        else:
            check_range("trials", self.trials, 1, MOST_POINTS)

    @property
    def program(self) -> Sequence[str]:
        """The command, with placeholders."""
        return self.job.command if isinstance(self.job, BatchJobArgs) else self.job.program

    @property
    def space(self) -> tuple[Parameter, ...]:
        """The parameters.

        Raises:
            RefusalError: one cannot be searched.
        """
        return tuple(read_parameter(f"{name}={text}") for name, text in self.parameters.items())

    def points(self) -> list[dict[str, str]]:
        """Return the values of each trial by the parameters' names."""
        names = list(self.parameters)
        if self.search == "grid":
            combined = itertools.product(*(parameter.points() for parameter in self.space))
            return [dict(zip(names, values, strict=True)) for values in combined]
        return list(itertools.islice(_drawn(self.space, self.seed), self.trials))

    def with_values(self, values: Mapping[str, str]) -> PyTorchJobArgs | MPIJobArgs | TensorFlowJobArgs | BatchJobArgs:
        """Return the job of a trial."""
        filled = tuple(fill(self.program, values))
        if isinstance(self.job, BatchJobArgs):
            return replace(self.job, command=filled)
        return replace(self.job, program=filled)


def _drawn(space: Sequence[Parameter], seed: int) -> Iterator[dict[str, str]]:
    """Yield points indefinitely. Of Random, only random() is the same in every version of Python."""
    source = Random(seed)  # noqa: S311 - for search, not for secrets
    while True:
        yield {parameter.name: _at(parameter, source.random()) for parameter in space}


def _at(parameter: Parameter, share: float) -> str:
    """Return the value at a share, from 0 to below 1, of a parameter's values."""
    if parameter.choices:
        return parameter.choices[int(share * len(parameter.choices))]
    if parameter.step is not None:
        count = int((parameter.high - parameter.low) / parameter.step) + 1
        return _text(float(parameter.low + int(share * count) * parameter.step))
    low, high = float(parameter.low), float(parameter.high)
    value = low * math.exp(share * math.log(high / low)) if parameter.log else low + share * (high - low)
    return _text(round(value) if parameter.whole else value)


def _text(value: float) -> str:
    return f"{value:.{_DIGITS}g}"


class Sweep(pulumi.ComponentResource):
    """A job for each combination of values, all declared at once: the queue decides how many run at a time.

    `athanor sweep` also learns from the trials, stops bad ones early and finds the best; `athanor compare` and
    `athanor curves` read what trials of either print.
    """

    job_names: dict[str, pulumi.Output[str]]
    """Names of the Volcano Jobs, by the trials' names: the sweep's with a number."""
    values: dict[str, dict[str, str]]
    """Values of the parameters, by the trials' names."""

    def __init__(
        self, name: str, platform: Platform, args: SweepArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("athanor:sweep:Sweep", name, None, opts)
        self.values = {f"{name}-{number}": point for number, point in enumerate(args.points())}
        declare = _KINDS[type(args.job)]
        own = pulumi.ResourceOptions(parent=self)
        self.job_names = {
            trial: declare(trial, platform, args.with_values(point), own).job_name
            for trial, point in self.values.items()
        }
        self.register_outputs({"job_names": self.job_names, "values": self.values})
