"""Real quantisation and pruning of the digits network, trained for a few seconds."""

from __future__ import annotations

import dataclasses
import json
import logging

import pytest
import torch
from torch import nn

from tests.tables import each_row
from trainer.model_repository import model_file, torchscript
from trainer.pytorch.compression.builder import VariantBuilder, fine_tune
from trainer.pytorch.compression.config import VARIANTS, CompressionConfig
from trainer.pytorch.compression.samples import Samples
from trainer.pytorch.data.digits import DigitsConfig
from trainer.pytorch.export import publish
from trainer.pytorch.export_config import ExportConfig, ExportError
from trainer.pytorch.measurement import share_correct
from trainer.pytorch.models.digits_cnn import DigitsCnnConfig
from trainer.pytorch.splits import load_splits
from trainer.pytorch.trained_model import TensorSpec, TrainedModel
from trainer.training import digits

pytestmark = pytest.mark.long

BUILT = tuple(variant for variant in VARIANTS if variant != "compiled")  # which takes a C++ compiler a minute
QUICK = CompressionConfig(variants=BUILT, fine_tune_epochs=2, max_accuracy_loss_points=2.0)


@pytest.fixture(scope="module", autouse=True)
def one_thread():
    """On a busy machine the threads of such small kernels only wait for each other."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="module")
def splits(data_dir):
    return load_splits(DigitsConfig(data_dir=data_dir), digits.IMAGE_SHAPE)


@pytest.fixture(scope="module")
def trained(splits) -> TrainedModel:
    torch.manual_seed(0)
    training = CompressionConfig(fine_tune_epochs=4, fine_tune_learning_rate=5e-3)
    model = fine_tune(DigitsCnnConfig(width=16).build(), splits.training, training)
    return TrainedModel(
        module=model,
        inputs=(TensorSpec(name="image", shape=digits.IMAGE_SHAPE),),
        outputs=(TensorSpec(name="logits", shape=(digits.NUM_CLASSES,)),),
        samples=[[splits.held_out.inputs]],
        run_name="r1",
        step=1,
        held_out=splits.held_out,
        training=splits.training,
    )


@pytest.fixture(scope="module")
def published(trained, tmp_path_factory):
    """All variants in one version, published as a training process does it: with deterministic kernels alone."""
    repository = tmp_path_factory.mktemp("models")
    torch.set_deterministic_debug_mode("error")
    try:
        assert publish(repository, ExportConfig(), trained, QUICK) == 1
    finally:
        torch.set_deterministic_debug_mode("default")
    return repository / "digits" / "1"


@pytest.fixture(scope="module")
def manifest(published):
    return json.loads((published / "manifest.json").read_text())


def parameters(model: nn.Module) -> int:
    return sum(parameter.numel() for parameter in model.parameters())


def test_the_trained_model_is_worth_compressing(trained):
    assert share_correct(trained.module, trained.held_out) > 0.95


def test_every_variant_is_published_and_described(published, manifest):
    assert manifest["rejected_variants"] == {}
    assert list(manifest["variants"]) == sorted(BUILT)
    for entry in manifest["variants"].values():
        content = (published / entry["model_file"]).read_bytes()
        assert entry["size_bytes"] == len(content)
        assert all(0 < each["p50"] <= each["p99"] for each in entry["latency_ms"].values())
    assert manifest["compression"]["variants"] == list(BUILT)
    dependent = {
        name: entry["depends_on_batch"] for name, entry in manifest["variants"].items() if "depends_on_batch" in entry
    }
    assert list(dependent) == ["int8-dynamic"]
    assert "it differs by" in dependent["int8-dynamic"]


@pytest.mark.parametrize("variant", BUILT)
def test_the_accuracy_in_the_manifest_is_that_of_the_file(published, manifest, splits, variant):
    entry = manifest["variants"][variant]
    program = model_file.load(published / entry["model_file"])
    assert share_correct(program.call, splits.held_out) == entry["accuracy"]
    assert (manifest["accuracy"] - entry["accuracy"]) * 100 <= QUICK.max_accuracy_loss_points


def test_the_published_quantised_file_computes_in_8_bits(published):
    def graph_of(name: str) -> str:
        return str(torchscript.load(published / name).inlined_graph)

    graph = graph_of("model.int8.pt")
    assert "quantized::conv2d" in graph
    assert "quantized::linear" in graph
    assert "aten::conv2d" not in graph
    assert "quantized::linear_dynamic" in graph_of("model.int8-dynamic.pt")


def test_files_are_smaller(manifest):
    size = {name: entry["size_bytes"] for name, entry in manifest["variants"].items()}
    assert size["int8"] < manifest["size_bytes"] / 2
    assert size["pruned"] < manifest["size_bytes"] / 2
    assert size["pruned-int8"] < size["int8"]


def test_pruning_removes_channels_and_leaves_the_model_alone(trained, splits):
    before = parameters(trained.module)
    config = dataclasses.replace(QUICK, fine_tune_epochs=0)
    pruned = VariantBuilder(trained.module, splits.training, config).build("pruned")
    assert parameters(trained.module) == before
    assert parameters(pruned) < before * 0.4  # a layer between two halved ones has a quarter of its weights
    assert [layer.out_channels for layer in pruned.modules() if isinstance(layer, nn.Conv2d)] == [8, 16, 16]
    assert [layer.out_features for layer in pruned.modules() if isinstance(layer, nn.Linear)] == [10]


def test_sparse_weights_stay_zero_while_the_model_is_fine_tuned(trained, splits):
    sparse = VariantBuilder(trained.module, splits.training, QUICK).build("sparse")
    weights = [layer.weight for layer in sparse.modules() if isinstance(layer, (nn.Conv2d, nn.Linear))]
    zeros = sum(int((weight == 0).sum()) for weight in weights) / sum(weight.numel() for weight in weights)
    assert zeros == pytest.approx(QUICK.sparsity, abs=0.01)


def test_fine_tuning_wins_accuracy_back(trained, splits):
    def accuracy(epochs: int) -> float:
        config = dataclasses.replace(QUICK, fine_tune_epochs=epochs)
        return share_correct(VariantBuilder(trained.module, splits.training, config).build("pruned"), splits.held_out)

    assert accuracy(1) > accuracy(0) + 0.05


def test_a_variant_that_loses_too_much_is_not_published_unless_asked(trained, tmp_path, caplog):
    config = CompressionConfig(variants=("pruned",), sparsity=0.75, fine_tune_epochs=0)
    with caplog.at_level(logging.WARNING):
        publish(tmp_path, ExportConfig(), trained, config)
    manifest = json.loads((tmp_path / "digits/1/manifest.json").read_text())
    assert manifest["variants"] == {}
    rejected = manifest["rejected_variants"]["pruned"]
    assert rejected["accuracy"] < manifest["accuracy"] - 0.005
    assert rejected["reason"].endswith("points of accuracy; allowed: 0.5")
    assert "variant pruned is not published: loses" in caplog.text
    assert sorted(path.name for path in (tmp_path / "digits/1").iterdir()) == ["manifest.json", "model.pt"]

    asked = dataclasses.replace(config, publish_inaccurate_variants=True)
    assert publish(tmp_path, ExportConfig(), trained, asked) == 2
    manifest = json.loads((tmp_path / "digits/2/manifest.json").read_text())
    assert manifest["variants"]["pruned"]["accuracy"] == rejected["accuracy"]


def test_a_run_publishes_once_for_each_set_of_variants(trained, tmp_path):
    int8 = CompressionConfig(variants=("int8",))
    assert publish(tmp_path, ExportConfig(), trained) == 1
    assert publish(tmp_path, ExportConfig(), trained, int8) == 2
    assert publish(tmp_path, ExportConfig(), trained, int8) == 2
    assert publish(tmp_path, ExportConfig(), trained) == 1


class Branching(nn.Module):
    """What torch.fx cannot trace: it branches on values."""

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        if bool(image.sum() > 0):
            return image.flatten(1)[:, :10]
        return image.flatten(1)[:, 10:20]


def test_a_model_that_cannot_be_compressed_is_published_all_the_same(trained, tmp_path):
    branching = dataclasses.replace(trained, module=Branching().eval())
    variants = ("int8", "int8-dynamic", "pruned")
    assert publish(tmp_path, ExportConfig(), branching, CompressionConfig(variants=variants)) == 1
    manifest = json.loads((tmp_path / "digits/1/manifest.json").read_text())
    reasons = {name: entry["reason"] for name, entry in manifest["rejected_variants"].items()}
    assert set(reasons) == set(variants)
    assert "no linear layer" in reasons["int8-dynamic"]
    assert "nothing can be pruned" in reasons["pruned"]
    assert manifest["variants"] == {}


def test_variants_without_data_are_refused(trained, tmp_path):
    with pytest.raises(ExportError, match="need labelled data"):
        publish(
            tmp_path, ExportConfig(), dataclasses.replace(trained, training=None), CompressionConfig(variants=("int8",))
        )
    assert list((tmp_path / "digits").iterdir()) == []


def test_calibration_samples_are_of_all_classes_whatever_their_order(trained, splits):
    order = splits.training.labels.argsort()
    ordered = Samples(inputs=splits.training.inputs[order], labels=splits.training.labels[order])
    config = dataclasses.replace(QUICK, calibration_samples=64)
    model = VariantBuilder(trained.module, ordered, config).build("int8")
    assert share_correct(model, splits.held_out) > share_correct(trained.module, splits.held_out) - 0.02


@each_row(
    "wrong",
    [
        {"variants": ("int8", "int8")},
        {"max_accuracy_loss_points": -0.1},
        {"calibration_samples": 0},
        {"sparsity": 1.0},
        {"fine_tune_epochs": -1},
        {"fine_tune_learning_rate": 0.0},
    ],
)
def test_wrong_settings_are_refused(wrong):
    with pytest.raises(ValueError, match=f"^{next(iter(wrong))}="):
        CompressionConfig(**wrong)
