"""The whole trainer in one process; several processes are in test_torchrun.py."""

from __future__ import annotations

import copy
import dataclasses
import json
import math
import multiprocessing
import resource
import shutil
import socket
import threading
from dataclasses import dataclass
from types import SimpleNamespace

import pytest
import torch
import torch.distributed as dist
from torch import nn

from trainer.common.validation import SettingsError
from trainer.pytorch.checkpoints import background
from trainer.pytorch.checkpoints.config import CheckpointConfig
from trainer.pytorch.checkpoints.errors import CheckpointError
from trainer.pytorch.data.digits import DigitsConfig
from trainer.pytorch.distributed import DistributedConfig
from trainer.pytorch.export_config import ExportError
from trainer.pytorch.guard import PeersLostError
from trainer.pytorch.loop import NonFiniteError, Outcome, Trainer
from trainer.pytorch.models.digits_cnn import DigitsCnnConfig
from trainer.pytorch.models.model_config import ShardingPlan
from trainer.pytorch.models.resnet import ResNetConfig
from trainer.pytorch.optimizer import OptimizerConfig
from trainer.pytorch.precision import PrecisionConfig
from trainer.pytorch.runtime import RuntimeConfig
from trainer.pytorch.shared_volume import FolderError
from trainer.training import non_finite
from trainer.training.metrics import MetricsConfig

GO_ON = SimpleNamespace(requested=False)


class StopAt:
    """Asks to stop when the trainer begins the given step."""

    def __init__(self, trainer, step):
        self._trainer, self._step = trainer, step

    @property
    def requested(self) -> bool:
        return self._trainer.step + 1 == self._step


def run(config, stop_at=None):
    trainer = Trainer(config)
    try:
        return trainer.train(StopAt(trainer, stop_at) if stop_at else GO_ON), trainer
    finally:
        trainer.close()


def events(config) -> list[dict]:
    return [json.loads(line) for line in (config.folders.logs / "rank-00000.jsonl").read_text().splitlines()]


def losses(config) -> dict[int, float]:
    return {event["step"]: event["loss"] for event in events(config) if event["event"] == "step"}


def evaluations(config) -> list[tuple[int, float]]:
    return [(event["step"], event["accuracy"]) for event in events(config) if event["event"] == "evaluated"]


@pytest.fixture
def uninterrupted(small, tmp_path):
    config = small(output_dir=tmp_path / "uninterrupted", epochs=2)
    outcome, trainer = run(config)
    assert outcome is Outcome.FINISHED
    return config, trainer


def test_a_run_stays_for_its_last_scrape_when_it_has_published_and_not_when_it_is_stopped(small, monkeypatch):
    config = small()
    published = []
    finish = "trainer.training.metrics.TrainingMetrics.finish"
    monkeypatch.setattr(finish, lambda _self, **_: published.append(config.folders.result.exists()))
    run(config, stop_at=2)
    assert published == []
    run(config)
    assert published == [True]


def test_stopped_and_resumed_run_equals_the_uninterrupted_one_bit_for_bit(small, uninterrupted):
    reference, reference_trainer = uninterrupted
    config = small(epochs=2)
    for step in (1, 4, 11, 15, 22):  # first, at a periodic save, last of an epoch, in between, last of all
        outcome, trainer = run(config, stop_at=step)
        assert (outcome, trainer.step) == (Outcome.STOPPED, step)
    assert run(config)[0] is Outcome.FINISHED
    assert losses(config) == losses(reference)
    assert evaluations(config) == evaluations(reference)
    assert [step for step, _ in evaluations(config)] == [11, 22]
    for name, weights in reference_trainer.model.state_dict().items():
        assert torch.equal(weights, trainer.model.state_dict()[name]), name


def test_a_resumed_run_does_not_evaluate_the_same_step_twice(small, uninterrupted):
    """A kill in an epoch after the one whose last step was saved, and so was its evaluation."""
    reference, _ = uninterrupted
    config = small(epochs=2, checkpoint=CheckpointConfig(checkpoint_interval_steps=11))
    run(config, stop_at=13)
    shutil.rmtree(config.folders.checkpoints / "step-00000013")
    run(config)
    assert [event["step"] for event in events(config) if event["event"] == "resumed"] == [11]
    assert evaluations(config) == evaluations(reference)


@pytest.fixture
def stopped_while_evaluating(small):
    """Make runs of two epochs that are asked to stop when they compute the first held-out batch after a step."""

    def train(step):
        trainer, stop = Trainer(small(epochs=2)), SimpleNamespace(requested=False)

        def look(module, _inputs, _output):
            stop.requested = stop.requested or (not module.training and trainer.step == step)

        trainer.model.register_forward_hook(look)
        try:
            return trainer.train(stop), trainer
        finally:
            trainer.close()

    return train


def test_a_stop_breaks_off_an_evaluation_and_the_resumed_run_does_it(small, uninterrupted, stopped_while_evaluating):
    reference, reference_trainer = uninterrupted
    config = small(epochs=2)
    for step in (11, 22):  # between two epochs, and at the end
        outcome, trainer = stopped_while_evaluating(step)
        assert (outcome, trainer.step) == (Outcome.STOPPED, step)
        assert (config.folders.checkpoints / f"step-{step:08d}").is_dir()
        assert step not in dict(evaluations(config))
        assert not config.folders.result.exists()
    _, trainer = run(config)
    assert losses(config) == losses(reference)
    assert evaluations(config) == evaluations(reference)
    assert config.folders.result.exists()
    for name, weights in reference_trainer.model.state_dict().items():
        assert torch.equal(weights, trainer.model.state_dict()[name]), name


def test_a_run_that_is_asked_to_stop_at_once_does_not_begin_the_evaluation_that_it_lacks(
    small, stopped_while_evaluating
):
    stopped_while_evaluating(11)
    trainer = Trainer(small(epochs=2))
    trainer.model.register_forward_hook(lambda *_: pytest.fail("it computes"))
    try:
        assert trainer.train(SimpleNamespace(requested=True)) is Outcome.STOPPED
    finally:
        trainer.close()
    assert evaluations(small()) == []


def test_an_evaluation_of_a_lost_course_of_the_run_does_not_count(small, uninterrupted):
    reference, _ = uninterrupted
    config = small(epochs=2)
    run(config, stop_at=13)
    for step in (12, 13):
        shutil.rmtree(config.folders.checkpoints / f"step-{step:08d}")
    run(config, stop_at=11)
    run(config)
    assert [event["step"] for event in events(config) if event["event"] == "resumed"] == [8, 11]
    # readers of the curves discard what was reported after step 8 before
    assert evaluations(config) == evaluations(reference)[:1] + evaluations(reference)


def test_resuming_with_another_number_of_ranks_keeps_the_place_in_the_data(small):
    config = small()
    run(config, stop_at=5)
    marker = config.folders.checkpoints / "step-00000005" / "complete.json"
    marker.write_text(marker.read_text().replace('"world_size": 1', '"world_size": 2'))
    trainer = Trainer(config)
    try:
        assert trainer.train(StopAt(trainer, 6)) is Outcome.STOPPED
        assert trainer.batches.sampler.state_dict() == {"epoch": 0, "offset": 6 * 128, "seed": 0}
        age = trainer.metrics.registry.get_sample_value(
            "athanor_training_checkpoint_age_seconds", {"run": "small", "rank": "0"}
        )
    finally:
        trainer.close()
    assert age >= 0
    resumed = next(event for event in events(config) if event["event"] == "resumed")
    assert (resumed["step"], resumed["saved_by_ranks"]) == (5, 2)


def test_finished_run_ends_at_once_and_publishes_nothing_more(uninterrupted):
    config, _ = uninterrupted
    written = len(events(config))
    assert run(config)[0] is Outcome.FINISHED
    assert [event["event"] for event in events(config)[written:]] == ["already_finished"]
    assert sorted(path.name for path in (config.folders.models / "digits").iterdir()) == ["1", "config.pbtxt"]


def test_killed_between_export_and_result_still_publishes_one_version(uninterrupted):
    config, _ = uninterrupted
    result = config.folders.result.read_bytes()
    config.folders.result.unlink()
    assert run(config)[0] is Outcome.FINISHED
    assert config.folders.result.read_bytes() == result
    assert sorted(path.name for path in (config.folders.models / "digits").iterdir()) == ["1", "config.pbtxt"]


def test_a_file_that_is_not_a_result_does_not_count(uninterrupted):
    config, _ = uninterrupted
    result = config.folders.result.read_bytes()
    config.folders.result.write_text("{}")
    assert run(config)[0] is Outcome.FINISHED
    assert config.folders.result.read_bytes() == result


def test_result_names_model_version_and_accuracy(uninterrupted):
    config, _ = uninterrupted
    result = json.loads(config.folders.result.read_text())
    manifest = json.loads((config.folders.models / "digits/1/manifest.json").read_text())
    assert (result["model_name"], result["version"], result["step"]) == ("digits", 1, 22)
    assert result["accuracy"] == manifest["accuracy"] > 0.5
    assert manifest["run_name"] == config.run_name


def test_finished_or_begun_run_refuses_other_settings(small, uninterrupted):
    config, _ = uninterrupted
    other = dataclasses.replace(config, epochs=3)
    with pytest.raises(CheckpointError, match=r"epochs=3 \(was 2\)\. Fix: the former values, or another --run_name"):
        run(other)
    assert events(config)[-1]["event"] == "failed"
    begun = small()
    run(begun, stop_at=2)
    with pytest.raises(CheckpointError, match=r"width=8 \(was 4\)"):
        run(dataclasses.replace(begun, model=DigitsCnnConfig(width=8)))


def test_a_run_refuses_other_models_and_precisions_by_the_values_that_they_had(small):
    config = small()
    run(config, stop_at=2)
    precise = dataclasses.replace(config, precision=PrecisionConfig(precision="bf16_autocast"))
    with pytest.raises(CheckpointError, match=r"other settings: precision='bf16_autocast' \(was 'fp32'\)\. Fix: "):
        run(precise)
    resnet = dataclasses.replace(config, model=ResNetConfig(channels=1, image_size=8))
    with pytest.raises(CheckpointError, match=r"other settings: model='resnet' \(was 'digits_cnn'\)\. Fix: "):
        run(resnet)


def test_other_seed_gives_another_curve_and_the_same_seed_the_same(small, tmp_path):
    curves = []
    for name, seed in (("a", 0), ("b", 0), ("c", 1)):
        config = small(output_dir=tmp_path / name, runtime=RuntimeConfig(seed=seed))
        run(config)
        curves.append(losses(config))
    assert curves[0] == curves[1]
    assert curves[0] != curves[2]


def test_infinite_loss_is_refused_before_the_parameters_change(small):
    trainer = Trainer(small(optimizer=OptimizerConfig(learning_rate=1e30, warmup_steps=0)))
    try:
        trainer.train_step(stop_requested=False)
        before = {name: weights.clone() for name, weights in trainer.model.state_dict().items()}
        with pytest.raises(NonFiniteError, match=r"step 2: loss .*parameters unchanged.*now 1e\+30"):
            trainer.train_step(stop_requested=False)
        for name, weights in trainer.model.state_dict().items():
            assert torch.equal(weights, before[name]), name
    finally:
        trainer.close()


def test_a_loss_that_is_not_finite_is_reported_by_the_next_process_of_the_run(small):
    config = small(optimizer=OptimizerConfig(learning_rate=1e30, warmup_steps=0))
    for met in (0, 1):
        trainer = Trainer(config)
        try:
            with pytest.raises(NonFiniteError):
                trainer.train(GO_ON)
        finally:
            trainer.close()
        assert metric(trainer, "nonfinite_loss_total") == met


def test_metrics_tell_how_far_a_resumed_run_is_and_what_a_rank_does_alone(small):
    config = small()
    run(config, stop_at=5)
    _, trainer = run(config)
    last = events(config)[-1]["step"]
    assert (metric(trainer, "step"), metric(trainer, "total_steps")) == (last, last)
    steps = last - 5
    assert metric(trainer, "own_seconds_count") == metric(trainer, "step_seconds_count") == steps
    assert metric(trainer, "data_wait_seconds_sum") < metric(trainer, "own_seconds_sum")
    assert metric(trainer, "own_seconds_sum") < metric(trainer, "step_seconds_sum")


def metric(trainer, name: str) -> float | None:
    labels = {"run": trainer.config.run_name, "rank": "0"}
    return trainer.metrics.registry.get_sample_value(f"athanor_training_{name}", labels)


def test_a_warm_up_that_is_longer_than_the_run_is_said_before_training(small, caplog):
    Trainer(small(optimizer=OptimizerConfig(warmup_steps=12))).close()
    assert "warmup_steps=12: the run has 11 steps: the learning rate only rises" in caplog.text
    caplog.clear()
    Trainer(small(optimizer=OptimizerConfig(warmup_steps=10))).close()
    assert "warmup_steps" not in caplog.text


def test_gradient_is_scaled_down_to_the_limit(small):
    trainer = Trainer(small(optimizer=OptimizerConfig(gradient_clip_norm=0.01)))
    try:
        trainer.train_step(stop_requested=False)
        norms = [parameter.grad.norm() for parameter in trainer.model.parameters()]
        assert torch.stack(norms).norm().item() == pytest.approx(0.01, rel=1e-3)
    finally:
        trainer.close()


def test_full_disk_in_the_middle_costs_a_checkpoint_but_at_the_end_the_run(small, monkeypatch):
    trainer = Trainer(small())
    try:
        monkeypatch.setattr(trainer._checkpoints, "save", _fail)
        with pytest.raises(CheckpointError, match="disk full"):
            trainer.train(GO_ON)
        labels = {"run": "small", "rank": "0"}
        assert trainer.metrics.registry.get_sample_value("athanor_training_checkpoint_failures_total", labels) == 2
    finally:
        trainer.close()
    assert trainer.step == 11
    kinds = [event["event"] for event in events(trainer.config)]
    assert kinds.count("checkpoint_failed") == 2
    assert kinds[-1] == "failed"


@pytest.fixture
def largest_file():
    """Limit the size of the files of this process, as a disk without room does."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    yield lambda size: resource.setrlimit(resource.RLIMIT_FSIZE, (size or limits[0], limits[1]))
    resource.setrlimit(resource.RLIMIT_FSIZE, limits)


def test_a_model_that_the_disk_does_not_take_is_published_by_the_next_start(small, largest_file, monkeypatch):
    config = small()
    trainer = Trainer(config)
    monkeypatch.setattr(trainer.distributed, "finishing", lambda: largest_file(1000))
    try:
        with pytest.raises(ExportError, match=r"output: .* cannot be written: File too large\. Fix: .*ulimit") as error:
            trainer.train(GO_ON)
    finally:
        largest_file(None)
        trainer.close()
    assert "\n" not in str(error.value)
    assert list((config.folders.models / "digits").iterdir()) == []
    assert run(config)[0] is Outcome.FINISHED
    assert json.loads(config.folders.result.read_text())["version"] == 1


class WithAuxiliaryHead(nn.Module):
    """A classifier with layers that its forward does not use, as the poolers of some published models."""

    def __init__(self) -> None:
        super().__init__()
        self.classifier = nn.Linear(64, 10)
        self.auxiliary = nn.Linear(64, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.classifier(x.flatten(1))


@dataclass(frozen=True, kw_only=True)
class WithAuxiliaryHeadConfig(DigitsCnnConfig):
    frozen: bool = False

    def build(self) -> nn.Module:
        model = WithAuxiliaryHead()
        model.auxiliary.requires_grad_(not self.frozen)
        return model

    def plan(self) -> ShardingPlan:
        return ShardingPlan()


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_parameters_that_no_gradient_reaches_are_refused_by_name_before_the_first_update(small, precision):
    config = small(model=WithAuxiliaryHeadConfig(), precision=PrecisionConfig(precision=precision))
    with pytest.raises(
        SettingsError, match=r"^parameters auxiliary\.weight, auxiliary\.bias: .* Fix: .* requires_grad"
    ):
        run(config)
    assert losses(config) == {}


def test_a_model_with_frozen_parameters_resumes_on_the_same_curve(small, tmp_path):
    model = WithAuxiliaryHeadConfig(frozen=True)
    reference = small(model=model, output_dir=tmp_path / "reference")
    run(reference)
    config = small(model=model)
    run(config, stop_at=5)
    assert run(config)[0] is Outcome.FINISHED
    assert losses(config) == losses(reference)


def test_a_run_saved_in_the_background_resumes_bit_for_bit(small, tmp_path):
    reference = small(output_dir=tmp_path / "reference")
    run(reference)
    in_background = CheckpointConfig(checkpoint_interval_steps=4, checkpoint_mode="async")
    config = small(checkpoint=in_background)
    run(config)
    saved = [event for event in events(config) if event["event"] == "checkpoint_saved"]
    assert [(event["step"], "background_seconds" in event) for event in saved] == [(4, True), (8, True), (11, False)]
    assert multiprocessing.active_children() == []
    config.folders.result.unlink()
    shutil.rmtree(config.folders.checkpoints / "step-00000011")
    _, trainer = run(small())
    assert [event["step"] for event in events(config) if event["event"] == "resumed"] == [8]
    assert losses(config) == losses(reference)
    assert metric(trainer, "step") == 11


def test_a_state_that_is_copied_while_the_next_step_computes_is_the_one_of_its_step(small, monkeypatch, tmp_path):
    waits = threading.Event()
    stage, wait = background.DefaultStager.stage, background.Background.wait_for_copy

    def late_stage(self, state):
        assert waits.wait(60), "the next step changes the parameters without waiting"
        return stage(self, state)

    def announced_wait(self):
        waits.set()
        wait(self)

    reference = small(output_dir=tmp_path / "reference")
    run(reference)
    monkeypatch.setattr(background.DefaultStager, "stage", late_stage)
    monkeypatch.setattr(background.Background, "wait_for_copy", announced_wait)
    in_background = CheckpointConfig(checkpoint_interval_steps=8, checkpoint_mode="async")
    config = small(checkpoint=in_background)
    run(config)
    config.folders.result.unlink()
    shutil.rmtree(config.folders.checkpoints / "step-00000011")
    run(config)
    assert [event["step"] for event in events(config) if event["event"] == "resumed"] == [8]
    assert losses(config) == losses(reference)


def test_a_run_that_fails_finishes_the_save_that_it_has_begun(small, monkeypatch):
    config = small(checkpoint=CheckpointConfig(checkpoint_interval_steps=4, checkpoint_mode="async"))
    trainer = Trainer(config)
    monkeypatch.setattr(trainer, "evaluate", lambda _stop: None)
    step = trainer.train_step
    monkeypatch.setattr(trainer, "train_step", lambda **given: step(**given) if trainer.step < 4 else 1 / 0)
    try:
        with pytest.raises(ZeroDivisionError):
            trainer.train(GO_ON)
    finally:
        trainer.close()
    assert [path.name for path in config.folders.checkpoints.iterdir()] == ["step-00000004"]
    assert [event["event"] for event in events(config)][-2:] == ["failed", "checkpoint_saved"]


def test_without_shared_memory_training_waits_for_its_checkpoints(small, monkeypatch, caplog):
    monkeypatch.setattr(background.shutil, "disk_usage", lambda _: SimpleNamespace(total=0, used=0, free=1000))
    config = small(checkpoint=CheckpointConfig(checkpoint_interval_steps=4, checkpoint_mode="async"))
    run(config)
    saved = [event for event in events(config) if event["event"] == "checkpoint_saved"]
    assert [(event["step"], "background_seconds" in event) for event in saved] == [(4, False), (8, False), (11, False)]
    assert caplog.text.count("/dev/shm has 0 MB free") == 1


def test_a_state_that_cannot_be_copied_costs_one_checkpoint(small, monkeypatch):
    monkeypatch.setattr(background.DefaultStager, "stage", lambda *_: _fail_to_copy())
    config = small(checkpoint=CheckpointConfig(checkpoint_interval_steps=4, checkpoint_mode="async"))
    run(config)
    kinds = [(event["event"], event["step"]) for event in events(config) if event["event"].startswith("checkpoint")]
    assert kinds == [("checkpoint_failed", 4), ("checkpoint_saved", 8), ("checkpoint_saved", 11)]


def _fail_to_copy():
    raise RuntimeError("unable to allocate shared memory(shm)")


def _fail(_step, _state):
    raise CheckpointError("disk full")


def test_wrong_surroundings_are_refused_before_training(small, tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    with pytest.raises(FolderError, match=r"file/small/checkpoints: cannot be written: Not a directory\. Fix: "):
        Trainer(small(output_dir=tmp_path / "file"))
    with pytest.raises(ValueError, match=r"batch_size=2000: must be at most 1433"):
        Trainer(small(data=DigitsConfig(data_dir=small().data.data_dir, batch_size=2000)))
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    with pytest.raises(ValueError, match=r"num_gpu=2: this machine has 1 usable GPUs\. Fix: "):
        Trainer(small(distributed=DistributedConfig(num_gpu=2)))
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 8)
    with pytest.raises(ValueError, match=r"num_gpu=2: 1 processes .* Fix: torchrun --nproc-per-node=2"):
        Trainer(small(distributed=DistributedConfig(num_gpu=2)))


def test_a_port_that_is_taken_is_refused_before_training(small):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        metrics = MetricsConfig(metrics_host="127.0.0.1", metrics_port=port)
        expected = rf"metrics_port={port}: 127\.0\.0\.1:{port}: Address already in use\. Fix: another --metrics_port"
        with pytest.raises(SettingsError, match=expected):
            Trainer(small(metrics=metrics))


def test_torchrun_that_would_hang_in_a_restart_is_refused(small, monkeypatch):
    monkeypatch.setenv("TORCHELASTIC_USE_AGENT_STORE", "True")
    monkeypatch.setenv("TORCHELASTIC_MAX_RESTARTS", "3")
    with pytest.raises(ValueError, match=r"max_restarts=3: .* Fix: set TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1"):
        Trainer(small())


def test_failed_start_leaves_the_process_group(small, tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(FolderError):
        Trainer(small(output_dir=tmp_path / "file"))
    assert not torch.distributed.is_initialized()


def test_steps_and_checkpoints_have_limits_of_their_own(small, monkeypatch):
    limits: list[float] = []
    monkeypatch.setattr(dist, "set_timeout", lambda limit: limits.append(limit.total_seconds()))
    own = DistributedConfig(init_timeout_seconds=900, train_timeout_seconds=60, checkpoint_timeout_seconds=700)
    trainer = Trainer(small(distributed=own))
    trainer.train(GO_ON)
    trainer.close()
    # saved after steps 4 and 8, and at the end, where the model is evaluated and published as well
    assert limits == [60, 700] * 3


def test_result_of_aborted_collectives_changes_no_parameter_and_is_not_a_bad_loss(small, monkeypatch):
    trainer = Trainer(small())
    before = copy.deepcopy(trainer.model.state_dict())

    def cut() -> None:
        raise PeersLostError("rank 1 gave no sign of life for 60 s")

    monkeypatch.setattr(trainer.distributed, "raise_if_cut", cut)
    # what an aborted all-reduce leaves in its tensor is anything
    monkeypatch.setattr(trainer, "_clip_gradient", lambda *_, **__: cut() or math.nan)
    with pytest.raises(PeersLostError, match="rank 1 gave no sign of life"):
        trainer.train(GO_ON)
    trainer.close()
    for name, weights in trainer.model.state_dict().items():
        assert torch.equal(weights, before[name])
    assert non_finite.count(small().folders.run) == 0
