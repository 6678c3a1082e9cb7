"""One rank of a training of a few steps in each of many layouts: `train_layouts.py OUTPUT`."""

from __future__ import annotations

import json
import sys
import tempfile
import time
import weakref
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, ClassVar

import safetensors.torch
import torch
import torch.distributed as dist
from torch.distributed.checkpoint import load, save

from tests.documentation import PARALLEL, file_shown
from trainer.common.validation import SettingsError
from trainer.pytorch import initial_weights
from trainer.pytorch.agreement import Agreement
from trainer.pytorch.checkpoints.writer import CheckpointWriter, Save
from trainer.pytorch.data.dataset import InMemoryDataset
from trainer.pytorch.models.digits_cnn import DigitsCnnConfig
from trainer.pytorch.models.gpt import Gpt, GptConfig
from trainer.pytorch.models.registry import model_named
from trainer.pytorch.models.resnet import ResNetConfig
from trainer.pytorch.optimizer import OptimizerConfig
from trainer.pytorch.parallel import state
from trainer.pytorch.parallel.blocks import BlocksConfig
from trainer.pytorch.parallel.build import Recipe
from trainer.pytorch.parallel.degrees import ParallelConfig
from trainer.pytorch.parallel.evaluation import sharded_mean_score
from trainer.pytorch.parallel.gradients import clip, refuse_unequal
from trainer.pytorch.parallel.layout import Layout
from trainer.pytorch.precision import PrecisionConfig
from trainer.pytorch.stopwatch import Stopwatch
from trainer.pytorch.task import NOT_COUNTED

if TYPE_CHECKING:
    from trainer.pytorch.models.model_config import ModelConfig, ShardingPlan
    from trainer.pytorch.task import Task


@dataclass(frozen=True, kw_only=True)
class TiedGptConfig(GptConfig):
    """A GPT that reads and writes tokens with the same weights, both of them in no block."""

    built_on_meta: ClassVar[bool] = False

    def build(self) -> Gpt:
        network = super().build()
        network.head.logits.weight = network.embedding.tokens.weight
        with torch.no_grad():
            network.embedding.tokens.weight.mul_(0.1)
        return network


def vision_transformer() -> type[ModelConfig]:
    """Return the configuration that docs/parallel.md shows."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "vit.py")
        file.write_text(file_shown(PARALLEL, "A vision transformer"), encoding="utf-8")
        return model_named(f"{file}:ViT")


BATCH = 8
MASKS = ("none", "some", "all but the first quarter", "all but one", "all", "none")
"""Which targets of each step a language model does not count: on some ranks and in some microbatches it is all."""
STEPS = len(MASKS)
GPT = GptConfig(layers=2, heads=4, width=32, context=16, vocabulary=64)
TIED_GPT = TiedGptConfig(layers=2, heads=4, width=32, context=16, vocabulary=64)
DEEP_GPT = replace(GPT, layers=4)
VIT = vision_transformer()(model="vit", layers=2, heads=2, width=16)
DIGITS = DigitsCnnConfig(width=4, dropout=0.0)
RESNET = ResNetConfig(norm="group", channels=1, image_size=8)
AOT_EAGER = BlocksConfig(compile="aot_eager")
FULL, SELECTIVE = (BlocksConfig(activation_checkpointing=mode) for mode in ("full", "selective"))
AUTOCAST, BF16 = (PrecisionConfig(precision=precision) for precision in ("bf16_autocast", "bf16"))
OPTIMIZER = OptimizerConfig(learning_rate=1e-2, warmup_steps=0, gradient_clip_norm=0.5)


@dataclass(frozen=True)
class Case:
    """A training: what is trained, how it is divided, and how from its middle on."""

    name: str
    model: ModelConfig
    parallel: ParallelConfig = field(default_factory=ParallelConfig)
    then: ParallelConfig | None = None
    precision: PrecisionConfig = field(default_factory=PrecisionConfig)
    blocks: BlocksConfig = field(default_factory=BlocksConfig)


def cases(world_size: int) -> list[Case]:
    """List trainings that have each degree and each pair of degrees, and each option with the degrees it may touch."""
    return {1: _alone, 2: _of_two, 4: _of_four}[world_size]()


def _alone() -> list[Case]:
    return [
        Case("gpt: alone", GPT),
        Case("deep gpt: alone", DEEP_GPT),
        Case("tied gpt: alone", TIED_GPT),
        Case("resnet: alone", RESNET),
        Case("digits: alone", DIGITS),
        Case("vit: alone", VIT),
        Case("gpt bf16: autocast", GPT, precision=AUTOCAST),
    ]


def _of_two() -> list[Case]:
    shard, shard_twice = (ParallelConfig(data_parallel_shard=2, microbatches=n) for n in (1, 2))
    tensor, tensor_twice = (ParallelConfig(tensor_parallel=2, microbatches=n) for n in (1, 2))
    pipeline = ParallelConfig(pipeline_parallel=2, microbatches=2)
    return [
        Case("digits: replicate 2", DIGITS),
        Case("gpt: replicate 2, 2 microbatches", GPT, ParallelConfig(microbatches=2)),
        Case("gpt: shard 2, 2 microbatches, full", GPT, shard_twice, blocks=FULL),
        Case("gpt: shard 2, selective", GPT, shard, blocks=SELECTIVE),
        Case("gpt: shard 2, aot_eager", GPT, shard, blocks=AOT_EAGER),
        Case("resnet: shard 2", RESNET, shard),
        Case(
            "tied gpt: saved by shard 2, 2 microbatches, loaded by replicate 2", TIED_GPT, shard_twice, ParallelConfig()
        ),
        Case("gpt: tensor 2, 2 microbatches, selective", GPT, tensor_twice, blocks=SELECTIVE),
        Case("gpt: tensor 2, full", GPT, tensor, blocks=FULL),
        Case("gpt: pipeline 2, full", GPT, pipeline, blocks=FULL),
        Case(
            "vit: saved by pipeline 2, loaded by tensor 2, both of 2 microbatches, full",
            VIT,
            pipeline,
            then=tensor_twice,
            blocks=FULL,
        ),
        Case("gpt bf16: shard 2", GPT, shard_twice, precision=BF16),
        Case("gpt bf16: replicate 2", GPT, precision=BF16),
        Case("gpt bf16: tensor 2", GPT, tensor, precision=BF16),
        Case("gpt bf16: pipeline 2", GPT, pipeline, precision=BF16),
        Case("gpt bf16: replicate 2, autocast", GPT, precision=AUTOCAST),
    ]


def _of_four() -> list[Case]:
    looped = ParallelConfig(
        data_parallel_shard=2, pipeline_parallel=2, microbatches=2, pipeline_schedule="interleaved_1f1b"
    )
    stages = ParallelConfig(pipeline_parallel=4, microbatches=4)
    copied_stages = ParallelConfig(pipeline_parallel=2, microbatches=2)
    both = ParallelConfig(tensor_parallel=2, pipeline_parallel=2, microbatches=2)
    gpipe = replace(both, pipeline_schedule="gpipe")
    shard = ParallelConfig(data_parallel_shard=4)
    tensor_shard = ParallelConfig(data_parallel_shard=2, tensor_parallel=2)
    hybrid, hybrid_twice = (ParallelConfig(data_parallel_shard=2, microbatches=n) for n in (1, 2))
    return [
        Case("digits: replicate 2 shard 2", DIGITS, hybrid),
        Case("gpt: replicate 2 shard 2, 2 microbatches, selective", GPT, hybrid_twice, blocks=SELECTIVE),
        Case("gpt: replicate 2 tensor 2", GPT, ParallelConfig(tensor_parallel=2)),
        Case("gpt: replicate 2 pipeline 2", GPT, copied_stages),
        Case("deep gpt: pipeline 4", DEEP_GPT, stages),
        Case("vit: tensor 2 shard 2", VIT, tensor_shard),
        Case("gpt bf16: replicate 2 shard 2", GPT, hybrid, precision=BF16),
        Case("gpt bf16: tensor 2 pipeline 2", GPT, both, precision=BF16),
        Case("gpt: saved by shard 4, loaded by tensor 2 pipeline 2 gpipe", GPT, shard, then=gpipe),
        Case("gpt: saved by tensor 2 pipeline 2, loaded by shard 4", GPT, both, then=shard),
        Case("gpt: saved by shard 4, loaded by tensor 2 shard 2", GPT, shard, then=tensor_shard),
        Case("deep gpt: saved by interleaved stages of shard 2, loaded by shard 4", DEEP_GPT, looped, then=shard),
    ]


def batch(case: Case, seed: int, mask: str) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the same whole batch on every rank."""
    generator = torch.Generator().manual_seed(seed)
    if isinstance(case.model, GptConfig):
        shape = case.model.shape
        # a few sequences again and again, so that there is something to learn
        tokens = torch.randint(shape.vocabulary, (BATCH, shape.context + 1), generator=generator)
        tokens[:, 1::2] = tokens[:, :-1:2]
        counted = torch.ones(BATCH, shape.context, dtype=torch.bool)
        match mask:
            case "some":
                counted = torch.rand(BATCH, shape.context, generator=generator) < 0.5
            case "all but the first quarter":
                counted[BATCH // 4 :] = False
            case "all but one":
                counted[:] = False
                counted[-2, 3] = True
            case "all":
                counted[:] = False
            case _:
                pass
        return tokens[:, :-1], tokens[:, 1:].where(counted, NOT_COUNTED)
    labels = torch.randint(10, (BATCH,), generator=generator)
    images = torch.rand(BATCH, 1, 8, 8, generator=generator) / 2
    images[torch.arange(BATCH), 0, labels % 8, labels // 8] += 2.0
    return images, labels


def held_out(case: Case) -> tuple[torch.Tensor, torch.Tensor]:
    """Return samples that are not trained on, fewer than the ranks share evenly."""
    inputs, targets = batch(case, STEPS, "some")
    return inputs[:-3], targets[:-3]


def train(case: Case, folder: Path) -> dict[str, Any]:
    """Train for all steps; `folder` is where the model is when it changes its layout.

    Returns:
        The loss of each step over the whole batch and the norm of its gradient, the mean score of the task that the
        ranks compute together, that of the whole model rebuilt on rank 0, and of how many samples one of the ranks had
        logits at a time.
    """
    steps, training = _steps(case, folder)
    together, most_logits = training.score()
    whole = state.whole_model(training.model)
    alone = None
    if whole is not None:
        inputs, targets = held_out(case)
        with torch.no_grad():
            logits = state.module_with(case.model, whole).eval()(inputs)
        alone = (case.model.task.score(logits, targets) / (targets != NOT_COUNTED).sum()).tolist()
    losses, norms = zip(*steps, strict=True)
    return {"losses": losses, "norms": norms, "together": together, "alone": alone, "most_logits": most_logits}


def _steps(case: Case, folder: Path) -> tuple[list[tuple[float, float]], Training]:
    first = Training(case, case.parallel)
    if case.then is None:
        return first.steps(range(STEPS)), first
    of_first = first.steps(range(STEPS // 2))
    partial = folder.with_suffix(".partial")
    partial.mkdir(exist_ok=True)
    step, ranks = STEPS // 2, dist.get_world_size()
    what = Save(partial=partial, target=folder, step=step, world_size=ranks, settings={}, size_bytes=0)
    save(first.state(), storage_writer=CheckpointWriter(what))
    second = Training(case, case.then)
    saved = second.state()
    load(saved, checkpoint_id=folder)
    state.load_state_dict(second.model, second.optimizer, saved)
    # as a run that resumes between two epochs: the first call of a layout may be an evaluation
    second.score()
    return of_first + second.steps(range(STEPS // 2, STEPS)), second


class WatchedTask:
    """Scores as a task does, and looks of how many samples logits are in memory."""

    def __init__(self, task: Task) -> None:
        self._task, self.not_counted, self.figures = task, task.not_counted, task.figures
        self._seen: list[weakref.ref[torch.Tensor]] = []
        self.most = 0

    def score(self, logits: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        self._seen.append(weakref.ref(logits))
        alive = (each() for each in self._seen)
        self.most = max(self.most, sum(len(each) for each in alive if each is not None))
        return self._task.score(logits, targets)


class Training:
    """A model in a layout, and its optimizer."""

    def __init__(self, case: Case, parallel: ParallelConfig) -> None:
        self.case = case
        self.layout = Layout(parallel.degrees(dist.get_world_size()), "cpu")
        torch.manual_seed(0)
        recipe = Recipe(model=case.model, parallel=parallel, precision=case.precision, blocks=case.blocks)
        self.model = recipe.build(self.layout, torch.device("cpu"))
        self.optimizer = OPTIMIZER.build(self.model.module.parameters())

    def state(self) -> dict[str, Any]:
        return state.state_dict(self.model, self.optimizer)

    def score(self) -> tuple[tuple[float, ...] | None, int]:
        """Evaluate on all ranks together; return also of how many samples some rank had logits at a time."""
        samples = InMemoryDataset(*held_out(self.case), classes=64)
        task = WatchedTask(self.case.model.task)
        mean = sharded_mean_score(self.model, samples, task, BATCH, lambda: True)
        most = torch.tensor(task.most)
        dist.all_reduce(most, op=dist.ReduceOp.MAX)
        return mean, int(most)

    def steps(self, numbers: range) -> list[tuple[float, float]]:
        """Train for some steps, and return the loss of each and the norm of its gradient."""
        return [self._step(number) for number in numbers]

    def _step(self, number: int) -> tuple[float, float]:
        layout = self.layout
        # the last batch is the first one again, so that their losses compare
        whole = batch(self.case, number % (STEPS - 1), MASKS[number])
        inputs, targets = (each.chunk(layout.degrees.data)[layout.data_rank] for each in whole)
        self.optimizer.zero_grad()
        distributed = SimpleNamespace(start_sum=lambda values: dist.all_reduce(values, async_op=True))
        agreement = Agreement(distributed, Stopwatch(torch.device("cpu")), stop_requested=False)
        self.model.forward_backward(inputs, targets, agreement.start)
        norm = clip(self.model.module.parameters(), OPTIMIZER.gradient_clip_norm, layout, counted=agreement.counted())
        agreed = agreement.wait(norm)
        if number in (0, STEPS // 2):  # with targets that are counted
            refuse_unequal(self.model.module, layout)
        self.optimizer.step()
        return agreed.loss, agreed.gradient_norm


@dataclass(frozen=True, kw_only=True)
class WrongGptConfig(GptConfig):
    """A GPT whose plan lets each rank normalise a part of the sequence as if it were the whole."""

    def plan(self) -> ShardingPlan:
        plan = super().plan()
        styles = {name: style for name, style in plan.tensor.items() if not name.endswith("0.attention_norm")}
        return replace(plan, tensor=styles, replicated=["blocks.0.attention_norm"])


def refusal_of_wrong_plan() -> str:
    """Return what is said of gradients that the ranks of a group compute from different inputs."""
    model = WrongGptConfig(layers=2, heads=4, width=32, context=16, vocabulary=64)
    training = Training(Case("", model), ParallelConfig(tensor_parallel=2))
    training.model.forward_backward(*batch(training.case, 0, "none"), lambda *_: None)
    try:
        refuse_unequal(training.model.module, training.layout)
    except SettingsError as error:
        return str(error)
    return ""


def takes_weights(parallel: ParallelConfig, file: Path) -> bool:
    """Return whether a divided model takes the weights of a file, as rank 0 finds it."""
    torch.manual_seed(1)
    given = {name: torch.rand_like(each) for name, each in VIT.build().state_dict().items()}
    if dist.get_rank() == 0:
        safetensors.torch.save_file(given, file)
    dist.barrier()
    training = Training(Case("", VIT, blocks=FULL), parallel)
    initial_weights.take(file, VIT, training.model.module, strict=True)
    whole = state.whole_model(training.model)
    return whole is None or all(torch.equal(each, given[name]) for name, each in whole.items())


def main() -> None:
    """Train every case and write the losses of each."""
    output = Path(sys.argv[1])
    torch.set_num_threads(1)
    dist.init_process_group("gloo", timeout=timedelta(minutes=10))
    rank, world_size = dist.get_rank(), dist.get_world_size()
    result = {}
    for index, case in enumerate(cases(world_size)):
        begin = time.process_time()
        result[case.name] = train(case, output.with_suffix(f".checkpoint-{index}"))
        if rank == 0:
            print(f"{time.process_time() - begin:6.1f} s  {case.name}", flush=True)
    if world_size == 2:
        said = refusal_of_wrong_plan()
        assert said.startswith("parameters blocks.0.attention_norm.weight, blocks.0.attention_norm.bias: the ranks"), (
            said
        )
    both = ParallelConfig(tensor_parallel=2, pipeline_parallel=2, microbatches=2)
    for parallel in (both, ParallelConfig(data_parallel_shard=2, tensor_parallel=2)) if world_size == 4 else ():
        assert takes_weights(parallel, output.with_suffix(".safetensors")), parallel
    if rank == 0:
        output.write_text(json.dumps(result))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
