"""The whole trainer in one process; several processes are in test_torchrun.py."""

from __future__ import annotations

import copy
import dataclasses
import json
import math
import socket
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from torch.overrides import TorchFunctionMode

from tests.unit.trainer.pytorch.small_runs import GO_ON, Relabelled, StopAt, evaluations, events, losses, metric, run
from trainer.common.validation import SettingsError
from trainer.pytorch.checkpoints.errors import CheckpointError
from trainer.pytorch.data.digits import DigitsConfig
from trainer.pytorch.distributed import DistributedConfig
from trainer.pytorch.guard import PeersLostError
from trainer.pytorch.loop import NonFiniteError, Outcome, Trainer
from trainer.pytorch.models.digits_cnn import DigitsCnnConfig
from trainer.pytorch.models.resnet import ResNetConfig
from trainer.pytorch.optimizer import OptimizerConfig
from trainer.pytorch.parallel import gradients
from trainer.pytorch.parallel.degrees import ParallelConfig
from trainer.pytorch.precision import PrecisionConfig
from trainer.pytorch.reporting.config import ProfileConfig, ReportConfig
from trainer.pytorch.runtime import RuntimeConfig
from trainer.pytorch.shared_volume import FolderError
from trainer.training import non_finite
from trainer.training.digits import DataError
from trainer.training.metrics import MetricsConfig

pytestmark = pytest.mark.long


def test_a_run_stays_for_its_last_scrape_when_it_has_published_and_not_when_it_is_stopped(small, monkeypatch):
    config = small()
    published = []
    finish = "trainer.training.metrics.TrainingMetrics.finish"
    monkeypatch.setattr(finish, lambda _self, **_: published.append(config.folders.result.exists()))
    run(config, stop_at=2)
    assert published == []
    run(config)
    assert published == [True]


READS = {
    *("item", "tolist", "cpu", "numpy", "__array__", "__bool__", "__int__", "__float__", "__index__"),
    *("nonzero", "masked_select", "unique", "equal", "allclose", "is_nonzero"),
}
"""Methods by which the host reads a tensor, and would wait for it on a GPU."""


class ReadByHost(TorchFunctionMode):
    """Notes each call of them."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[str] = []

    def __torch_function__(self, func, _types, args=(), kwargs=None):
        if func.__name__ in READS:
            self.calls.append(func.__name__)
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize(
    "options",
    [{}, {"parallel": ParallelConfig(microbatches=2)}, {"precision": PrecisionConfig(precision="bf16")}],
    ids=["replicas", "microbatches", "sharded"],
)
def test_the_host_waits_for_the_device_once_in_a_step(small, options):
    """Where a GPU is there, trainer.hardware_check counts what CUDA says of it."""
    trainer = Trainer(small(**options))
    try:
        trainer.distributed.allow_first_step()
        trainer.train_step(stop_requested=False)  # also looks at the gradients
        with ReadByHost() as read:
            trainer.train_step(stop_requested=False)
    finally:
        trainer.close()
    assert read.calls == ["tolist"]


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


def test_a_run_of_a_former_version_is_refused_until_it_decays_what_it_decayed(small):
    config = small(optimizer=OptimizerConfig(weight_decay_on="all"))
    run(config, stop_at=2)
    marker = config.folders.checkpoints / "step-00000002" / "complete.json"
    complete = json.loads(marker.read_text())
    for name in (
        *("optimizer", "weight_decay_on", "adam_betas", "adam_epsilon", "sgd_momentum"),
        *("schedule", "minimum_learning_rate", "decay_fraction"),
    ):
        del complete["settings"][name]
    marker.write_text(json.dumps(complete))
    with pytest.raises(CheckpointError, match=r"other settings: weight_decay_on='matrices' \(was 'all'\)\. Fix: "):
        run(small())
    assert run(config, stop_at=3)[1].step == 3


def test_max_steps_ends_a_run_in_the_middle_of_an_epoch_after_all_epochs(small):
    config = small(max_steps=13)
    outcome, trainer = run(config)
    assert (outcome, trainer.step) == (Outcome.FINISHED, 13)
    assert [step for step, _ in evaluations(config)] == [11, 13]
    with pytest.raises(CheckpointError, match=r"max_steps=None \(was 13\)"):
        run(small())


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
        message = r"step 2: loss .*parameters unchanged.*now 1e\+30\), .* here sample \d+, .* and 123 more"
        with pytest.raises(NonFiniteError, match=message):
            trainer.train_step(stop_requested=False)
        for name, weights in trainer.model.state_dict().items():
            assert torch.equal(weights, before[name]), name
    finally:
        trainer.close()


@pytest.mark.parametrize("target", [10, -100])
def test_a_target_that_is_not_a_class_is_named_before_the_parameters_change(small, target):
    config = small()
    trainer = Trainer(config)
    before = copy.deepcopy(trainer.model.state_dict())
    trainer.batches = Relabelled(trainer.batches, lambda targets: targets[3:4].fill_(target))
    try:
        with pytest.raises(DataError, match=rf"^label {target}, one of 1 that are not 0 to 9\. Fix: "):
            trainer.train_step(stop_requested=False)
    finally:
        trainer.close()
    for name, weights in trainer.model.state_dict().items():
        assert torch.equal(weights, before[name]), name


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


def test_a_refused_run_leaves_nothing_behind(small):
    config = small()
    refused = [
        {"data": DigitsConfig(data_dir=Path("missing"))},
        {"data": dataclasses.replace(config.data, batch_size=2000)},
        {"model": ResNetConfig()},
        {"parallel": ParallelConfig(tensor_parallel=2)},
        {"report": ReportConfig(profile=ProfileConfig(profile_steps=1, profile_start_step=1000))},
        {"distributed": DistributedConfig(num_gpu=2)},
    ]
    for changes in refused:
        with pytest.raises((SettingsError, DataError)):
            Trainer(dataclasses.replace(config, **changes))
        assert not config.output_dir.exists(), changes


def test_a_stop_while_a_rank_alone_waits_for_its_batch_needs_no_step(small):
    config = small()
    trainer = Trainer(config)
    try:
        trainer._stop = SimpleNamespace(requested=False)
        assert not trainer._gives_up_on_batch(1)
        with pytest.raises(DataError, match=r"no batch within 1800 s: the volume or a data worker hangs\. Fix: "):
            trainer._gives_up_on_batch(1801)
        trainer._stop.requested = True
        assert trainer._gives_up_on_batch(1)
        trainer.batches = iter(())  # as they end then
        assert trainer.train_step(stop_requested=False)
        assert trainer.step == 0
    finally:
        trainer.close()


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


def test_result_of_aborted_collectives_changes_no_parameter_and_is_not_a_bad_loss(small, monkeypatch):
    trainer = Trainer(small())
    before = copy.deepcopy(trainer.model.state_dict())

    def cut() -> None:
        raise PeersLostError("rank 1 gave no sign of life for 60 s")

    monkeypatch.setattr(trainer.distributed, "raise_if_cut", cut)
    # what an aborted all-reduce leaves in its tensor is anything
    monkeypatch.setattr(gradients, "clip", lambda *_, **__: torch.tensor(math.nan))
    with pytest.raises(PeersLostError, match="rank 1 gave no sign of life"):
        trainer.train(GO_ON)
    trainer.close()
    for name, weights in trainer.model.state_dict().items():
        assert torch.equal(weights, before[name])
    assert non_finite.count(small().folders.run) == 0
