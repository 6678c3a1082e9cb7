"""The degrees of parallelism, and checks that they fit ranks, model and batch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from trainer.common.validation import SettingsError, at_least

if TYPE_CHECKING:
    from trainer.pytorch.models.model_config import ShardingPlan

STAGES_PER_RANK = {"gpipe": 1, "1f1b": 1, "interleaved_1f1b": 2}


@dataclass(frozen=True, kw_only=True)
class ParallelConfig:
    """How the ranks divide the work; the product of the degrees is the number of ranks.

    Neighbouring ranks are in the same tensor-parallel group, then in the same sharding group: the groups that talk most
    are on the same node.
    """

    data_parallel_replicate: int = 0
    """Copies of the model that each see other samples; 0 takes as many as the ranks make, given the other degrees."""
    data_parallel_shard: int = 1
    """Ranks that see other samples and share one copy of parameters, gradients and optimizer state (FSDP2)."""
    tensor_parallel: int = 1
    """Ranks that compute each layer together."""
    pipeline_parallel: int = 1
    """Ranks that each have some of the layers."""
    pipeline_schedule: Literal["gpipe", "1f1b", "interleaved_1f1b"] = "1f1b"
    """Order of forward and backward passes in a pipeline; `interleaved_1f1b` gives each rank two stages, which halves
    the time that ranks are idle and doubles the messages."""
    microbatches: int = 1
    """Parts of a rank's share of the batch that are computed one after the other before the parameters change: gradient
    accumulation. A pipeline needs at least as many as it has ranks."""
    sync_batch_norm: bool = False
    """Let batch normalisation take its statistics from the samples of all replicas, in each microbatch; else those of
    each rank are its own."""

    def __post_init__(self) -> None:
        at_least("data_parallel_replicate", self.data_parallel_replicate, 0)
        for name in ("data_parallel_shard", "tensor_parallel", "pipeline_parallel", "microbatches"):
            at_least(name, getattr(self, name), 1)
        needed = self.pipeline_parallel
        if needed == 1:
            return
        if self.pipeline_schedule == "interleaved_1f1b" and self.microbatches % needed:
            fix = f"Fix: a multiple of {needed}, for example {2 * needed}"
            raise ValueError(f"microbatches={self.microbatches}: interleaved_1f1b needs whole rounds. {fix}")
        if self.microbatches < needed:
            limit = f"fewer than the {needed} ranks of a pipeline leave some of them idle"
            raise ValueError(
                f"microbatches={self.microbatches}: {limit}. Fix: --microbatches {4 * needed}, or at least {needed}"
            )

    def without_effect(self) -> list[str]:
        """Say what does not do what it is for, and the fix."""
        schedule = self.pipeline_schedule
        if self.pipeline_parallel > 1 or schedule == ParallelConfig.pipeline_schedule:
            return []
        limit = "there is no pipeline, since pipeline_parallel=1"
        return [f"pipeline_schedule={schedule}: {limit}. Fix: --pipeline_parallel 2 or more, or leave it out"]

    def degrees(self, world_size: int) -> Degrees:
        """Return the degrees for a number of ranks.

        Raises:
            SettingsError: their product is another number; the message says what would fit.
        """
        others = self.data_parallel_shard * self.tensor_parallel * self.pipeline_parallel
        replicate = self.data_parallel_replicate or world_size // others
        if replicate * others != world_size:
            raise SettingsError(self._misfit(world_size, others))
        return Degrees(
            replicate=replicate,
            shard=self.data_parallel_shard,
            tensor=self.tensor_parallel,
            pipeline=self.pipeline_parallel,
            stages_per_rank=STAGES_PER_RANK[self.pipeline_schedule] if self.pipeline_parallel > 1 else 1,
        )

    def _misfit(self, world_size: int, others: int) -> str:
        names = ("data_parallel_replicate", "data_parallel_shard", "tensor_parallel", "pipeline_parallel")
        defaults = ParallelConfig()
        given_degrees = ", ".join(
            f"{name}={getattr(self, name)}" for name in names if getattr(self, name) != getattr(defaults, name)
        )
        within = self.tensor_parallel * self.pipeline_parallel
        if world_size % within == 0:
            fix = (
                f"data_parallel_shard {_choice(_divisors(world_size // within))}, and data_parallel_replicate left out"
            )
        else:
            shard = self.data_parallel_shard if world_size % self.data_parallel_shard == 0 else 1
            fix = f"tensor_parallel x pipeline_parallel {_choice(_divisors(world_size // shard))}"
            if shard != self.data_parallel_shard:
                fix += ", and data_parallel_shard left out"
        if self.data_parallel_replicate:
            limit = f"{self.data_parallel_replicate * others}, but the number of ranks is {world_size}"
        else:
            limit = f"{others}, which does not divide the number of ranks, {world_size}"
        return f"{given_degrees}: the product of the degrees is {limit}. Fix: {fix}"


@dataclass(frozen=True, kw_only=True)
class Degrees:
    """Degrees whose product is the number of ranks."""

    replicate: int
    shard: int
    tensor: int
    pipeline: int
    stages_per_rank: int

    @property
    def data(self) -> int:
        """Ranks, or groups of them, that see different samples."""
        return self.replicate * self.shard

    @property
    def only_replicas(self) -> bool:
        """Whether every rank has the whole model."""
        return self.shard == self.tensor == self.pipeline == 1

    def blocks_of_stages(self, pipeline_rank: int, blocks: int) -> list[list[int]]:
        """Return the blocks of each stage of a rank; the stages go around the ranks in turn.

        Source: Narayanan et al., "Efficient Large-Scale Language Model Training on GPU Clusters Using Megatron-LM",
        2021, section 2.2.2.
        """
        stages = self.pipeline * self.stages_per_rank
        size = blocks // stages
        own = range(pipeline_rank, stages, self.pipeline)
        return [list(range(stage * size, (stage + 1) * size)) for stage in own]

    def check_model(self, name: str, plan: ShardingPlan) -> None:
        """Refuse degrees that the model cannot be divided by.

        Raises:
            SettingsError: naming the degree, the limit and what would fit.
        """
        if self.tensor > 1:
            self._check_tensor(name, plan)
        stages = self.pipeline * self.stages_per_rank
        if self.pipeline > 1 and not plan.pipelined:
            raise SettingsError(
                f"pipeline_parallel={self.pipeline}: {name} cannot be cut into stages. Fix: leave it out"
            )
        if self.pipeline > 1 and len(plan.blocks) % stages:
            possible = _divisors(self.replicate * self.pipeline)[1:]
            fitting = [n for n in possible if len(plan.blocks) % (n * self.stages_per_rank) == 0]
            fits = f"{_choice(fitting)}, or another" if fitting else "another"
            limit = f"{stages} stages do not divide the {len(plan.blocks)} layers evenly"
            raise SettingsError(f"pipeline_parallel={self.pipeline}: {limit}. Fix: {fits} number of layers")

    def _check_tensor(self, name: str, plan: ShardingPlan) -> None:
        if not plan.tensor:
            raise SettingsError(
                f"tensor_parallel={self.tensor}: {name} has no plan for it. Fix: --data_parallel_shard instead"
            )
        misfits = [f"{what}={size}" for what, size in plan.tensor_sizes.items() if size % self.tensor]
        if misfits:
            possible = _divisors(self.replicate * self.tensor)
            fits = [n for n in possible if not any(size % n for size in plan.tensor_sizes.values())]
            fix = f"Fix: {_choice(fits)}"
            raise SettingsError(f"tensor_parallel={self.tensor}: does not divide {', '.join(misfits)}. {fix}")


def _divisors(number: int) -> list[int]:
    return [candidate for candidate in range(1, number + 1) if number % candidate == 0]


def _choice(numbers: list[int]) -> str:
    return str(numbers[0]) if len(numbers) == 1 else f"one of {', '.join(map(str, numbers))}"
