"""The loop with data sets that are read from files while it trains, in one process."""

from __future__ import annotations

import dataclasses
import json
import math

import pytest
import torch

from tests.unit.trainer.pytorch.small_runs import Relabelled, events, run
from trainer import export
from trainer.model_repository import model_file
from trainer.pytorch.data import samples
from trainer.pytorch.data.cifar10 import Cifar10Config
from trainer.pytorch.data.damage import UndamagedDataset
from trainer.pytorch.data.image_folder import ImageFolder, ImageFolderConfig
from trainer.pytorch.data.tokens import TokensConfig
from trainer.pytorch.export_config import ExportConfig
from trainer.pytorch.loop import Outcome, Trainer
from trainer.pytorch.model_files import VERIFIED_SAMPLES
from trainer.pytorch.models.gpt import GptConfig
from trainer.pytorch.models.resnet import ResNetConfig
from trainer.pytorch.optimizer import OptimizerConfig
from trainer.pytorch.parallel import state
from trainer.pytorch.parallel.degrees import ParallelConfig
from trainer.pytorch.precision import PrecisionConfig
from trainer.pytorch.task import NOT_COUNTED
from trainer.training import cifar, cifar_digits

pytestmark = pytest.mark.long


def losses(config) -> list[float]:
    return [event["loss"] for event in events(config, "step")]


@pytest.fixture
def language(small, tmp_path):
    """Make configurations of a small GPT that learns to add: 30 steps."""
    data_dir = tmp_path / "tokens"
    samples.prepare_tokens(data_dir)

    def make(**changes):
        settings = {
            "data": TokensConfig(data_dir=data_dir, batch_size=64),
            "model": GptConfig(layers=1, heads=2, width=32, context=32),
            "optimizer": OptimizerConfig(learning_rate=1e-2, warmup_steps=0),
        }
        return small(**{**settings, **changes})

    return make


def test_a_step_has_the_mean_over_its_counted_targets_for_any_number_of_microbatches(language):
    """More layouts are in `parallel/test_layouts.py`; this is the loop around them."""

    def mask(targets: torch.Tensor) -> None:
        generator = torch.Generator().manual_seed(0)
        targets[torch.rand(targets.shape, generator=generator) < 0.3] = NOT_COUNTED
        targets[: 3 * len(targets) // 4] = NOT_COUNTED

    steps = []
    for microbatches in (1, 4):
        config = language(run_name=f"parts-{microbatches}", parallel=ParallelConfig(microbatches=microbatches))
        trainer = Trainer(config)
        batches = trainer.batches
        try:
            for change in (mask, mask, lambda targets: targets.fill_(NOT_COUNTED)):
                trainer.batches = Relabelled(batches, change)
                trainer.train_step(stop_requested=False)
        finally:
            trainer.close()
        steps.append([(event["loss"], event["gradient_norm"]) for event in events(config, "step")])
    assert steps[0][2] == steps[1][2] == (0.0, 0.0)
    assert steps[0][0][0] == pytest.approx(math.log(256), rel=0.05)
    assert sum(steps[1], ()) == pytest.approx(sum(steps[0], ()), rel=1e-5)


def test_a_gpt_trains_through_the_loop_and_is_judged_by_its_loss(language):
    config = language()
    outcome, trainer = run(config)
    assert outcome is Outcome.FINISHED
    [score] = events(config, "evaluated")
    assert score["test_loss"] < 0.6 * losses(config)[0]
    assert score["perplexity"] == pytest.approx(2.718281828 ** score["test_loss"])
    assert not {"accuracy", "loss"} & score.keys(), "its loss would be a point of the curve of training"
    assert {event["tokens"] for event in events(config, "step")} == {64 * 32}
    labels = {"run": "small", "rank": "0"}
    value = trainer.metrics.registry.get_sample_value
    assert value("athanor_training_tokens_per_second", labels) > 0
    assert value("athanor_training_test_loss", labels) == score["test_loss"]
    assert value("athanor_training_test_accuracy", labels) is None

    result = json.loads(config.folders.result.read_text())
    assert (result["version"], result["model_name"], result["loss"]) == (None, None, score["test_loss"])
    assert "it is a language model" in result["not_published"]
    assert not config.folders.models.exists() or not list(config.folders.models.iterdir())
    assert run(config)[0] is Outcome.FINISHED
    assert events(config, "already_finished")


def test_no_rank_holds_a_whole_model_that_is_not_published(language, monkeypatch):
    def refuse(_model):
        raise AssertionError("gigabytes of parameters on their way to one host")

    monkeypatch.setattr(state, "whole_model", refuse)
    assert run(language())[0] is Outcome.FINISHED


@pytest.fixture
def rank_reads_nothing(monkeypatch):
    """Let no batch be read in the rank's own process, neither of training nor of an evaluation."""

    def refuse():
        monkeypatch.setattr(UndamagedDataset, "batch", lambda *_: pytest.fail("processes of its own should read"))

    return refuse


def test_a_gpt_stopped_between_two_numbers_of_workers_equals_the_uninterrupted_one(
    language, tmp_path, rank_reads_nothing
):
    reference = language(output_dir=tmp_path / "uninterrupted")
    _, expected = run(reference)
    config = language()
    ahead = dataclasses.replace(config, data=dataclasses.replace(config.data, data_workers=2))
    assert run(ahead, stop_at=5)[0] is Outcome.STOPPED
    assert run(config, stop_at=9)[0] is Outcome.STOPPED
    rank_reads_nothing()
    _, trainer = run(ahead)
    assert losses(config) == losses(reference)
    assert events(config, "evaluated")[-1]["test_loss"] == events(reference, "evaluated")[-1]["test_loss"]
    for name, weights in expected.model.state_dict().items():
        assert torch.equal(weights, trainer.model.state_dict()[name]), name


def test_a_sharded_gpt_has_the_same_loss_when_it_is_evaluated(language, tmp_path, rank_reads_nothing):
    """In bfloat16 parameters are sharded, also over one rank."""
    plain = language(output_dir=tmp_path / "plain")
    data = dataclasses.replace(plain.data, data_workers=1)
    sharded = language(precision=PrecisionConfig(precision="bf16"), data=data)
    run(plain)
    rank_reads_nothing()
    run(sharded)
    scores = [events(config, "evaluated")[-1]["test_loss"] for config in (plain, sharded)]
    assert scores[1] == pytest.approx(scores[0], rel=0.05)


def test_images_read_by_workers_train_the_same_network_and_it_is_published(small, tmp_path):
    """With dropout, whose random numbers workers must not touch."""
    data_dir = tmp_path / "images"
    samples.prepare_images(data_dir)
    name = ExportConfig(model_name="folder")
    alone = small(data=ImageFolderConfig(data_dir=data_dir, batch_size=128), export=name, output_dir=tmp_path / "alone")
    run(alone)
    data = dataclasses.replace(alone.data, data_workers=2)
    config = small(data=data, export=name)
    run(config, stop_at=3)
    _, trainer = run(config)
    assert losses(config) == losses(alone)
    assert (config.folders.models / "folder/labels.txt").read_text().split() == sorted(
        folder.name for folder in (data_dir / "train").iterdir()
    )
    served = model_file.load(config.folders.models / "folder/1/model.pt").call
    images = trainer._held_out.batch(torch.arange(8)).to(torch.device("cpu")).inputs
    with torch.inference_mode():
        torch.testing.assert_close(served(images), trainer.model.eval()(images), rtol=1e-4, atol=1e-5)


def test_export_reads_a_folder_of_images_in_parts_and_the_held_out_ones_alone(small, tmp_path, monkeypatch, capsys):
    data_dir = tmp_path / "images"
    samples.prepare_images(data_dir)
    config = small(data=ImageFolderConfig(data_dir=data_dir, batch_size=128), export=ExportConfig(model_name="folder"))
    run(config)
    words = [f"--checkpoint={config.folders.run}", f"--data={data_dir}", "--model_name=folder"]
    read = []
    batch = ImageFolder.batch

    def look(dataset, indices):
        read.append((len(dataset), len(indices)))
        return batch(dataset, indices)

    monkeypatch.setattr(ImageFolder, "batch", look)
    assert export.main([*words, f"--model_repository={tmp_path / 'models'}"]) == 0
    held_out = len(config.data.open("held_out", config.model.input_shape))
    assert {split for split, _ in read} == {held_out}
    assert max(size for _, size in read) <= VERIFIED_SAMPLES < held_out
    manifests = [
        json.loads((folder / "folder/1/manifest.json").read_text())
        for folder in (config.folders.models, tmp_path / "models")
    ]
    assert manifests[0]["accuracy"] == manifests[1]["accuracy"]

    capsys.readouterr()
    damaged = max(data_dir.glob("val/9/*.png"))
    damaged.write_bytes(b"not an image")
    assert export.main([*words, f"--model_repository={tmp_path / 'others'}"]) == 1
    assert capsys.readouterr().err.startswith(f"export: {damaged}: cannot be read as an image")


@pytest.fixture
def colours(small, tmp_path):
    """A run of a residual network on a few images, and its data."""
    data_dir = tmp_path / "cifar"
    cifar_digits.prepare(data_dir)
    for split in cifar.SPLITS:
        for path in cifar.files_of(data_dir, split):
            path.write_bytes(path.read_bytes()[: 8 * cifar.RECORD_BYTES])
    return small(
        data=Cifar10Config(data_dir=data_dir, batch_size=20),
        model=ResNetConfig(norm="group"),
        export=ExportConfig(model_name="colours"),
    )


def test_a_residual_network_is_published_by_training_and_from_its_checkpoint(colours, tmp_path):
    run(colours)
    models = tmp_path / "models"
    words = [f"--checkpoint={colours.folders.run}", f"--data={colours.data.data_dir}", "--model_name=colours"]
    assert export.main([*words, f"--model_repository={models}"]) == 0
    manifests = [
        json.loads((folder / "colours/1/manifest.json").read_text()) for folder in (colours.folders.models, models)
    ]
    assert manifests[0]["inputs"] == [{"name": "image", "datatype": "FP32", "shape": [-1, 3, 32, 32]}]
    for key in ("accuracy", "class_names"):
        assert manifests[0][key] == manifests[1][key]
    assert manifests[0]["class_names"] == list(cifar.load_names(colours.data.data_dir))
    by_training, by_command = (
        model_file.load(folder / "colours/1/model.pt").call for folder in (colours.folders.models, models)
    )
    images = torch.rand(2, 3, 32, 32)
    with torch.inference_mode():
        torch.testing.assert_close(by_training(images), by_command(images), rtol=0, atol=0)


def test_a_checkpoint_of_a_language_model_is_not_exported_and_says_why(language, tmp_path, capsys):
    config = language()
    run(config, stop_at=2)
    words = [f"--checkpoint={config.folders.run}", f"--data={config.data.data_dir}"]
    assert export.main([*words, f"--model_repository={tmp_path / 'models'}"]) == 1
    assert "model=gpt: cannot be published: it is a language model" in capsys.readouterr().err
